"""Archives that would reach outside, fill the disk or carry odd entries are refused."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackyard.runner.workspace import archive
from trackyard.runner.workspace.archive import BadArchiveError, Limits, safe_segments, unpack

BAD_NAMES = [
    "../canary",
    "a/../../canary",
    "/canary",
    "//canary",
    "C:/canary",
    "c:canary",
    "a\\..\\canary",
    "a//canary",
    "./canary",
    "a/./canary",
    "..",
    "a/..",
    "a\ncanary",
    "a\x00canary",
    "a\x7fcanary",
    "x" * 300,
    "/".join(["d"] * 70),
]


def make_zip(path: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for entry, data in entries:
            bundle.writestr(entry, data)
    return path


def make_tar(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as bundle:
        for entry, data in entries:
            entry.size = len(data)
            bundle.addfile(entry, io.BytesIO(data))
    return path


def zip_entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("x")
    # Set past the constructor, which cleans names.
    entry.filename = entry.orig_filename = name
    entry.external_attr = mode << 16
    return entry


def tar_entry(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, "/etc/passwd"
    return entry


def outside(tmp_path: Path) -> list[str]:
    """Everything outside the archive itself and its target."""
    return sorted(p.name for p in tmp_path.iterdir() if p.name not in ("a", "out"))


class TestGoodArchives:
    def test_a_zip_comes_out_as_it_went_in(self, tmp_path: Path) -> None:
        executable = zip_entry("bin/run.sh", stat.S_IFREG | 0o755)
        source = make_zip(tmp_path / "a", [("src/", b""), ("src/x.py", b"1"), (executable, b"2")])
        assert unpack(source, tmp_path / "out", kind="zip") == 2
        assert (tmp_path / "out/src/x.py").read_bytes() == b"1"
        assert (tmp_path / "out/bin/run.sh").stat().st_mode & 0o111
        assert not (tmp_path / "out/src/x.py").stat().st_mode & 0o111

    @pytest.mark.parametrize("kind", ["tar", "tar.gz"])
    def test_a_tar_comes_out_as_it_went_in(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "a"
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as bundle:
            folder = tar_entry("src", tarfile.DIRTYPE)
            bundle.addfile(folder)
            entry = tar_entry("src/x.py")
            entry.size = 2
            bundle.addfile(entry, io.BytesIO(b"hi"))
        assert unpack(path, tmp_path / "out", kind=kind) == 1
        assert (tmp_path / "out/src/x.py").read_bytes() == b"hi"


class TestNames:
    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_a_zip_entry_that_leaves_its_folder_is_refused(
        self, tmp_path: Path, name: str
    ) -> None:
        source = make_zip(tmp_path / "a", [(zip_entry(name, 0o644), b"x")])
        with pytest.raises(BadArchiveError):
            unpack(source, tmp_path / "out", kind="zip")
        assert outside(tmp_path) == []
        assert [p for p in (tmp_path / "out").rglob("*") if p.is_file()] == []

    @pytest.mark.parametrize("name", [n for n in BAD_NAMES if "\x00" not in n])
    def test_a_tar_entry_that_leaves_its_folder_is_refused(
        self, tmp_path: Path, name: str
    ) -> None:
        source = make_tar(tmp_path / "a", [(tar_entry(name), b"x")])
        with pytest.raises(BadArchiveError):
            unpack(source, tmp_path / "out", kind="tar.gz")
        assert outside(tmp_path) == []

    @given(st.text(max_size=40))
    def test_any_name_is_refused_or_stays_inside(self, name: str) -> None:
        try:
            parts = safe_segments(name)
        except BadArchiveError:
            return
        base = Path("/base")
        joined = base.joinpath(*parts)
        assert ".." not in joined.parts
        assert joined.parts[: len(base.parts)] == base.parts
        assert len(joined.parts) > len(base.parts)

    def test_an_entry_below_a_file_is_refused(self, tmp_path: Path) -> None:
        source = make_zip(tmp_path / "a", [("a", b"1"), ("a/b", b"2")])
        with pytest.raises(BadArchiveError, match="below a file"):
            unpack(source, tmp_path / "out", kind="zip")

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_a_name_given_twice_is_refused(self, tmp_path: Path) -> None:
        source = make_zip(tmp_path / "a", [("a", b"1"), ("a", b"2")])
        with pytest.raises(BadArchiveError, match="twice"):
            unpack(source, tmp_path / "out", kind="zip")


class TestKinds:
    @pytest.mark.parametrize(
        "mode", [stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o644, stat.S_IFIFO | 0o644]
    )
    def test_links_and_devices_in_a_zip_are_refused(self, tmp_path: Path, mode: int) -> None:
        source = make_zip(tmp_path / "a", [(zip_entry("link", mode), b"/etc/passwd")])
        with pytest.raises(BadArchiveError, match="link or device"):
            unpack(source, tmp_path / "out", kind="zip")

    @pytest.mark.parametrize(
        "kind",
        [
            tarfile.SYMTYPE,
            tarfile.LNKTYPE,
            tarfile.CHRTYPE,
            tarfile.BLKTYPE,
            tarfile.FIFOTYPE,
            b"V",
        ],
    )
    def test_links_devices_and_odd_kinds_in_a_tar_are_refused(
        self, tmp_path: Path, kind: bytes
    ) -> None:
        source = make_tar(tmp_path / "a", [(tar_entry("x", kind), b"")])
        with pytest.raises(BadArchiveError):
            unpack(source, tmp_path / "out", kind="tar.gz")
        assert list((tmp_path / "out").iterdir()) == []

    @pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID, stat.S_ISVTX])
    def test_setuid_and_its_kin_are_refused(self, tmp_path: Path, bit: int) -> None:
        entry = zip_entry("tool", stat.S_IFREG | 0o755 | bit)
        with pytest.raises(BadArchiveError, match="setuid"):
            unpack(make_zip(tmp_path / "a", [(entry, b"x")]), tmp_path / "out", kind="zip")
        other = make_tar(tmp_path / "b", [(tar_entry("tool", mode=0o755 | bit), b"x")])
        with pytest.raises(BadArchiveError, match="setuid"):
            unpack(other, tmp_path / "out2", kind="tar.gz")

    def test_an_unknown_kind_of_archive_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"")
        with pytest.raises(BadArchiveError, match="7z"):
            unpack(tmp_path / "a", tmp_path / "out", kind="7z")


class TestSizes:
    def test_a_thousandfold_bomb_is_refused(self, tmp_path: Path) -> None:
        source = make_zip(tmp_path / "a", [("zeros", b"\0" * 8_000_000)])
        with pytest.raises(BadArchiveError, match="expands too far"):
            unpack(source, tmp_path / "out", kind="zip")

    def test_a_gzip_bomb_in_a_tar_is_refused(self, tmp_path: Path) -> None:
        source = make_tar(tmp_path / "a", [(tar_entry("zeros"), b"\0" * 8_000_000)])
        with pytest.raises(BadArchiveError, match="expands too far"):
            unpack(source, tmp_path / "out", kind="tar.gz")

    def test_too_many_entries_are_refused(self, tmp_path: Path) -> None:
        entries: list[tuple[zipfile.ZipInfo | str, bytes]] = [(f"f{n}", b"") for n in range(11)]
        source = make_zip(tmp_path / "a", entries)
        with pytest.raises(BadArchiveError, match="over 10 entries"):
            unpack(source, tmp_path / "out", kind="zip", limits=Limits(entries=10))

    def test_a_directory_of_a_million_entries_is_refused_unread(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The count in the zip's end record is judged before any entry is read."""
        source = make_zip(tmp_path / "a", [("f", b"")])
        data = bytearray(source.read_bytes())
        at = data.rfind(b"PK\x05\x06")
        data[at + 10 : at + 12] = (60_000).to_bytes(2, "little")
        source.write_bytes(data)
        monkeypatch.setattr(archive.zipfile, "ZipFile", _never)
        with pytest.raises(BadArchiveError, match="entries"):
            unpack(source, tmp_path / "out", kind="zip")

    def test_too_many_bytes_in_all_are_refused(self, tmp_path: Path) -> None:
        source = make_zip(tmp_path / "a", [("a", b"1" * 600), ("b", b"2" * 600)])
        with pytest.raises(BadArchiveError, match="in all"):
            unpack(source, tmp_path / "out", kind="zip", limits=Limits(bytes=1000))

    @pytest.mark.parametrize(
        "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK" * 50]
    )
    def test_damaged_archives_are_refused(
        self, tmp_path: Path, damage: Callable[[bytes], bytes]
    ) -> None:
        source = make_zip(tmp_path / "a", [("a", b"1" * 600)])
        source.write_bytes(damage(source.read_bytes()))
        with pytest.raises(BadArchiveError, match="damaged"):
            unpack(source, tmp_path / "out", kind="zip")
        (tmp_path / "t").write_bytes(damage(gzip.compress(b"x" * 5000)))
        with pytest.raises(BadArchiveError):
            unpack(tmp_path / "t", tmp_path / "out2", kind="tar.gz")


def _never(*_: object) -> None:
    raise AssertionError("the archive was opened before its size was judged")
