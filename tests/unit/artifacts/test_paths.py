"""The grammar of artifact paths: what is refused in every spelling, and what must stay legal."""

import posixpath
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trackyard.artifacts.paths import (
    ancestors,
    check_folder,
    check_path,
    client_spelling,
    file_name,
    join_path,
    parse_place,
)
from trackyard.core.errors import InvalidInput, NotFound

RUN = "0123456789abcdef0123456789abcdef"
MODEL = f"m-{RUN}"

TRAVERSALS = [
    "..",
    "../x",
    "a/../../x",
    "a/..",
    ".",
    "a/./b",
    "%2e%2e",
    "%2E%2e/x",
    "%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252fetc",
    "%25252e%25252e/x",
    "..%2f..%2fx",
    "..%5cx",
    "a\\..\\x",
    "..\\x",
    "..;/x",
    "..;a=b/x",
    "a/.;/b",
    "\uff0e\uff0e/x",
    "\u2024\u2024/x",
    "a/ .. /b",
    "a\x00b",
    "%2fetc",
    "a/%5cb",
    "%252fetc",
    "..%c0%af..%c0%afx/../y",
]
OTHERS = [
    "",
    "/",
    "/etc/passwd",
    "//etc",
    "a//b",
    "a/",
    "C:/x",
    "c:x",
    "C:\\x",
    ":x",
    "a/:x",
    "file:/etc/passwd",
    "file:///etc/passwd",
    "s3:/bucket",
    "*",
    "a/*.txt",
    "a/**/b",
    "a?b",
    "a#b",
    "a\nb",
    "a\rb",
    "a\x7fb",
    "a\x85b",
    "a\u2028b",
    "a\ufffdb",
    "a\ud800b",
    "x" * 256,
    "é" * 128,
    "/".join(["x" * 200] * 21),
]
LEGAL = [
    "model/MLmodel",
    "images/cat%step%3%timestamp%1700000000000%0b5f.png",
    "images/cat%step%3%timestamp%1700000000000%00e1%2f.png",
    "images/cat+step+3+timestamp+1700000000000+0b5f.png",
    "images/a~b~c.png",
    "100%.txt",
    "100%25.txt",
    "a b/c d.txt",
    "größe ✓/数据.csv",
    "...",
    "..a",
    "a..b",
    ".hidden/.env",
    "epoch:3/loss=0.25,acc=[1].ckpt",
    "a;b",
    "'quoted' (1) & more!.txt",
    "x" * 255,
]


@pytest.mark.parametrize("path", TRAVERSALS + OTHERS)
def test_hostile_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid path"):
        check_path(path)


@pytest.mark.parametrize("path", TRAVERSALS)
def test_hostile_paths_are_refused_below_a_run(path: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid path"):
        parse_place(f"0/{RUN}/artifacts/{path}")


@pytest.mark.parametrize("path", LEGAL)
def test_names_that_training_code_uses_are_legal(path: str) -> None:
    assert check_path(path) == path
    assert parse_place(f"7/{RUN}/artifacts/{path}").path == path


def _leads_out(path: str) -> bool:
    """The model: would any reader of this name end up outside its folder, or on another root?"""
    for _ in range(4):
        for spelling in (path, unicodedata.normalize("NFKC", path)):
            bare = "/".join(piece.partition(";")[0].strip() for piece in spelling.split("/"))
            for text in (spelling, bare, spelling.replace("\\", "/"), bare.replace("\\", "/")):
                joined = posixpath.normpath(posixpath.join("/store/inside", text))
                if not joined.startswith("/store/inside/"):
                    return True
        path = unquote(path, errors="replace")
    return False


_SEGMENTS = st.sampled_from(
    [
        "..",
        ".",
        "a",
        "b.txt",
        "..;",
        "%2e",
        "%2e%2e",
        "%252e%252e",
        "\uff0e\uff0e",
        "\\",
        "C:",
        "",
        " ",
        "%",
    ]
)
_PATHS = st.one_of(
    st.text(max_size=60),
    st.lists(_SEGMENTS, min_size=1, max_size=6).map("/".join),
    st.lists(_SEGMENTS, min_size=1, max_size=4).map("".join),
    st.lists(_SEGMENTS, min_size=1, max_size=4)
    .map("/".join)
    .map(lambda text: quote(text, safe="")),
)


@given(path=_PATHS)
@example(path="a/%2e%2e;x/b")
@example(path="%25252e%25252e%25252f")
def test_a_path_is_inside_or_refused(path: str) -> None:
    """Whatever passes the grammar stays inside, on any system, decoded up to three times more."""
    try:
        accepted = check_path(path)
    except InvalidInput:
        return
    assert accepted == path
    assert not _leads_out(path)
    assert not PurePosixPath(path).is_absolute()
    assert not PureWindowsPath(path).drive
    assert not PureWindowsPath(path).root
    assert all(0 < len(piece.encode()) <= 255 for piece in path.split("/"))
    assert len(path.encode()) <= 4096


@given(
    pieces=st.lists(st.from_regex(r"[a-z0-9_\-%+~]{1,20}", fullmatch=True), min_size=1, max_size=5)
)
def test_plain_names_are_never_refused(pieces: list[str]) -> None:
    path = "/".join(pieces)
    assert check_path(path) == path


class TestClientSpelling:
    @pytest.mark.parametrize(
        ("stored", "asked"),
        [
            ("a.png", "a.png"),
            ("i%step%4%timestamp%1794%5e5c.png", "i%step%4%timestamp%1794^5c.png"),
            ("i%step%4%timestamp%1794%9f5c.png", "i%step%4%timestamp%1794\ufffd5c.png"),
            ("i%step%4%timestamp%1794%2a5c.png", "i%step%4%timestamp%1794*5c.png"),
            ("i%step%4%timestamp%1794%005c.png", "i%step%4%timestamp%1794%005c.png"),
            ("a%2520b", "a b"),
        ],
    )
    def test_what_clients_make_of_names_with_percent_signs(self, stored: str, asked: str) -> None:
        assert client_spelling(stored) == asked
        assert check_path(asked, is_stored=False) == asked

    @pytest.mark.parametrize("path", TRAVERSALS)
    def test_no_spelling_makes_a_step_out_of_the_folder_legal(self, path: str) -> None:
        with pytest.raises(InvalidInput):
            check_path(path, is_stored=False)


class TestPlaces:
    def test_a_file_of_a_run(self) -> None:
        place = parse_place(f"12/{RUN}/artifacts/model/MLmodel")
        assert (place.experiment, place.owner, place.path) == ("12", RUN, "model/MLmodel")

    def test_a_file_of_a_logged_model(self) -> None:
        place = parse_place(f"12/models/{MODEL}/artifacts/MLmodel")
        assert (place.experiment, place.owner, place.path) == ("12", MODEL, "MLmodel")

    @pytest.mark.parametrize("tail", ["", "/"])
    def test_the_root_with_and_without_a_slash(self, tail: str) -> None:
        assert parse_place(f"0/{RUN}/artifacts{tail}").path == ""

    @pytest.mark.parametrize(
        "text",
        [
            "0",
            f"0/{RUN}",
            f"0/{RUN}/artifactsx/a",
            f"0/{RUN}/other/a",
            f"x/{RUN}/artifacts/a",
            f"0/{RUN[:-1]}/artifacts/a",
            f"0/{RUN}0/artifacts/a",
            f"0/models/{RUN}/artifacts/a",
            f"0/{MODEL}/artifacts/a",
            f"models/{MODEL}/artifacts/a",
        ],
    )
    def test_anything_else_is_no_place(self, text: str) -> None:
        with pytest.raises(NotFound):
            parse_place(text)

    def test_a_drive_letter_below_the_root_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            parse_place(f"0/{RUN}/artifacts/C:/x")


class TestPieces:
    def test_the_name_of_a_file_from_any_system(self) -> None:
        assert file_name("/tmp/x/model.bin") == "model.bin"
        assert file_name("C:\\data\\model.bin") == "model.bin"
        assert file_name("model.bin") == "model.bin"

    def test_joining_checks_the_result(self) -> None:
        assert join_path("a/b", "c") == "a/b/c"
        assert join_path("", "c") == "c"
        with pytest.raises(InvalidInput):
            join_path("a", "..")

    def test_the_folders_above_a_path(self) -> None:
        assert ancestors("a/b/c") == ["a", "a/b"]
        assert ancestors("a") == []

    def test_a_folder_may_be_the_root_or_end_with_a_slash(self) -> None:
        assert check_folder(None) == ""
        assert check_folder("") == ""
        assert check_folder("a/b/") == "a/b"
        with pytest.raises(InvalidInput):
            check_folder("../")
