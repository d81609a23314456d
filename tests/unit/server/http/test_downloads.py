"""Headers of a download: names no header can be broken with, types, and byte ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackyard.core.errors import RangeNotSatisfiable
from trackyard.server.http.downloads import PREVIEWS, content_type, disposition, parse_range


class TestDisposition:
    def test_a_plain_name_stands_as_it_is(self) -> None:
        assert disposition("model-1.bin") == "attachment; filename=model-1.bin"

    def test_a_name_with_quotes_and_line_ends_is_defused(self) -> None:
        header = disposition('a"; x="\r\nSet-Cookie: y=1')
        assert header.startswith('attachment; filename="a__ x=___Set-Cookie_ y=1"')
        assert "filename*=UTF-8''a%22%3B%20x%3D%22%0D%0ASet-Cookie%3A%20y%3D1" in header

    def test_a_name_of_another_script_keeps_its_letters(self) -> None:
        assert "filename*=UTF-8''%E6%95%B0.csv" in disposition("数.csv")

    @given(name=st.text(min_size=1))
    def test_no_name_breaks_the_header(self, name: str) -> None:
        try:
            header = disposition(name)
        except UnicodeEncodeError:
            return  # a lone surrogate never passes the grammar of paths
        assert header.isascii()
        assert header.isprintable()
        assert header.count('"') in (0, 2)


class TestTypes:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("a/MLmodel", "text/plain"),
            ("conf.yaml", "text/plain"),
            ("x.json", "text/plain"),
            ("x.PY", "text/plain"),
            ("page.html", "text/html"),
            ("a.png", "image/png"),
            ("weights.safetensors", "application/octet-stream"),
            ("logs.csv.gz", "application/octet-stream"),
            ("no-extension", "application/octet-stream"),
        ],
    )
    def test_by_name(self, path: str, expected: str) -> None:
        assert content_type(path) == expected

    def test_what_can_run_is_shown_as_text_or_under_the_sandbox_alone(self) -> None:
        assert PREVIEWS["js"].startswith("text/plain")
        assert PREVIEWS["xml"].startswith("text/plain")
        assert {"xhtml", "mht", "swf", "pdf", "wasm"}.isdisjoint(PREVIEWS)


class TestRanges:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (None, None),
            ("bytes=0-0", (0, 1)),
            ("bytes=2-4", (2, 5)),
            ("bytes=2-", (2, 10)),
            ("bytes=-3", (7, 10)),
            ("bytes=-99", (0, 10)),
            ("bytes=5-99", (5, 10)),
            ("bytes=-", None),
            ("bytes=4-2", None),
            ("bytes=0-1,3-4", None),
            ("lines=1-2", None),
            ("bytes=a-b", None),
        ],
    )
    def test_of_ten_bytes(self, text: str | None, expected: tuple[int, int] | None) -> None:
        assert parse_range(text, 10) == expected

    @pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-12", "bytes=99-", "bytes=-0"])
    def test_outside_of_the_file(self, text: str) -> None:
        with pytest.raises(RangeNotSatisfiable):
            parse_range(text, 10)

    def test_an_empty_file_has_no_range(self) -> None:
        with pytest.raises(RangeNotSatisfiable):
            parse_range("bytes=0-", 0)

    @given(size=st.integers(1, 50), first=st.integers(0, 60), last=st.integers(0, 60))
    def test_it_selects_what_slicing_selects(self, size: int, first: int, last: int) -> None:
        data = bytes(range(size))
        try:
            span = parse_range(f"bytes={first}-{last}", size)
        except RangeNotSatisfiable:
            assert data[first : last + 1] == b""
        else:
            chosen = data if span is None else data[span[0] : span[1]]
            assert chosen == (data if last < first else data[first : last + 1])
