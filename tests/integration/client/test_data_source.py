"""Where data sets come from: archives that may be hostile, addresses that break off, layouts."""

import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackyard.client import data_add, data_source
from trackyard.core.errors import SetupError

BODY = bytes(range(256)) * 4096


def quiet(_phase: str, _done: int, _total: int | None) -> None:
    pass


@pytest.fixture(autouse=True)
def _staging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Breaking(http.server.BaseHTTPRequestHandler):
    """Serves BODY with ranges, but breaks off the first answer in the middle."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        wanted = self.headers.get("Range", "")
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.send_header("ETag", '"one"')
        self.end_headers()
        cut = len(BODY) // 2 if len(self.asked) == 1 else len(BODY)
        self.wfile.write(BODY[start:cut])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Breaking.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Breaking)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_download_goes_on_where_it_broke_off(address: str) -> None:
    origin = data_source.bring(f"{address}/set.bin", unpack=False, layout="auto", progress=quiet)
    assert origin.folder.read_bytes() == BODY
    assert Breaking.asked == ["", f"bytes={len(BODY) // 2}-"]
    origin.clean()
    assert not origin.folder.exists()


def test_an_address_that_is_not_there_is_told(address: str) -> None:
    with pytest.raises(SetupError, match="404"):
        data_source.bring(f"{address}/missing.zip", unpack=True, layout="auto", progress=quiet)


def zip_of(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, f"content of {name}")
    return path


def test_an_archive_loses_its_single_top_folder(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", "top/training/0_1.jpg", "top/training/10_2.jpg")
    origin = data_source.bring(str(path), unpack=True, layout="prefix", progress=quiet)
    found = data_add.scan(origin.folder, quiet)
    assert sorted(entry.path for entry in found.entries) == [
        "training/class_00/0_1.jpg",
        "training/class_10/10_2.jpg",
    ]


@pytest.mark.parametrize("name", ["../up.txt", "/etc/passwd", "a/../../b"])
def test_an_archive_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    path = zip_of(tmp_path / "a.zip", name)
    with pytest.raises(SetupError, match="was refused"):
        data_source.bring(str(path), unpack=True, layout="auto", progress=quiet)
    assert not (tmp_path / "up.txt").exists()


def test_links_and_bombs_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "link.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("zeros", bytes(50 * 1024**2))
    with tarfile.open(tmp_path / "fine.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"ok"))
    for name, says in (("link.tar", "link"), ("bomb.zip", "expands")):
        with pytest.raises(SetupError, match=says):
            data_source.bring(str(tmp_path / name), unpack=True, layout="auto", progress=quiet)
    fine = data_source.bring(
        str(tmp_path / "fine.tar.gz"), unpack=True, layout="auto", progress=quiet
    )
    assert (fine.folder / "a.txt").read_text() == "ok"


def test_links_out_of_a_folder_and_empty_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(SetupError, match="holds no files"):
        data_add.scan(folder, quiet)
    (folder / "out").symlink_to("/etc/hostname")
    with pytest.raises(SetupError, match="leads out"):
        data_add.scan(folder, quiet)
    with pytest.raises(SetupError, match="is no archive"):
        data_source.bring("/etc/hostname", unpack=True, layout="auto", progress=quiet)
