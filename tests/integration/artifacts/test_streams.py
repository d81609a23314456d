"""Bodies that are cut, disks that rot, readers that stall: whole or not at all, in flat memory."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.artifacts.conftest import CREDENTIALS, Bucket
from tests.integration.artifacts.site import PROXY, Caller, Site, reset, resident_bytes

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    server = Site(tmp_path_factory.mktemp("streams") / "home")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def caller(site: Site) -> Caller:
    return site.caller()


def settled(site: Site, count: int) -> list[str]:
    """Wait until the store holds so many files, and return the names of all it holds."""
    deadline = time.monotonic() + 180
    while len(site.blobs) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    return sorted(path.parts[-3] for path in site.blobs)


@contextlib.contextmanager
def started_upload(caller: Caller, target: str, data: bytes, kind: str) -> Iterator[socket.socket]:
    """Begin an upload of twice the data, declared or in chunks."""
    if kind == "declared":
        connection = caller.open("PUT", target, f"Content-Length: {2 * len(data)}")
        connection.sendall(data)
    else:
        connection = caller.open("PUT", target, "Transfer-Encoding: chunked")
        connection.sendall(f"{len(data):x}\r\n".encode() + data)
        if kind == "between chunks":
            connection.sendall(b"\r\n")
    time.sleep(0.1)
    yield connection
    with contextlib.suppress(OSError):
        connection.close()


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize("kind", ["declared", "inside a chunk", "between chunks"])
@pytest.mark.parametrize("size", [10, 300_000, 3 * MIB])
def test_an_upload_cut_in_the_middle_leaves_the_old_version_or_none(
    site: Site, caller: Caller, kind: str, ending: str, size: int
) -> None:
    root = caller.run()
    assert caller.put(root, "kept", b"old").status == 200
    before = len(site.blobs)
    for name in ("kept", "fresh"):
        target = f"{PROXY}{root}/{name}"
        with started_upload(caller, target, os.urandom(size), kind) as connection:
            if ending == "reset":
                reset(connection)
    # Whatever the server does about the cuts, it has done once it has served what came after.
    assert caller.put(root, "after", b"x").status == 200
    assert set(settled(site, before + 1)) == {"blobs"}
    assert caller.get(root, "kept").body == b"old"
    assert caller.get(root, "fresh").status == 404


def test_a_chunked_body_that_ends_well_is_stored(caller: Caller) -> None:
    root = caller.run()
    connection = caller.open("PUT", f"{PROXY}{root}/x", "Transfer-Encoding: chunked")
    connection.sendall(b"5\r\nhello\r\n")
    time.sleep(0.05)
    connection.sendall(b"6\r\n world\r\n0\r\n\r\n")
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    connection.close()
    assert caller.get(root, "x").body == b"hello world"


def test_an_empty_body_is_an_empty_file_declared_or_not(caller: Caller) -> None:
    """Stock clients send empty files in chunks, of which there are none."""
    root = caller.run()
    for name, line, rest in (
        ("declared", "Content-Length: 0", b""),
        ("chunked", "Transfer-Encoding: chunked", b"0\r\n\r\n"),
    ):
        connection = caller.open("PUT", f"{PROXY}{root}/{name}", line)
        connection.sendall(rest)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.close()
        assert caller.get(root, name).body == b""


def test_an_upload_larger_than_the_disk_is_refused_at_its_head(site: Site, caller: Caller) -> None:
    root = caller.run()
    connection = caller.open("PUT", f"{PROXY}{root}/x", f"Content-Length: {4 * 1024**4}")
    assert connection.recv(2000).startswith(b"HTTP/1.1 507")
    connection.close()
    connection = caller.open("PUT", f"{PROXY}{root}/x", f"Content-Length: {10**16}")
    assert connection.recv(2000).startswith(b"HTTP/1.1 413")
    connection.close()
    assert caller.get(root, "x").status == 404


@pytest.mark.parametrize("size", [1000, 6 * MIB])
def test_a_rotten_file_is_never_served_whole(site: Site, caller: Caller, size: int) -> None:
    root, data = caller.run(), os.urandom(size)
    caller.put(root, "sound", b"sound")
    held = set(site.blobs)
    caller.put(root, "rotten", data)
    [blob] = set(site.blobs) - held
    blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    if size < MIB:
        answer = caller.get(root, "rotten")
        assert (answer.status, answer.error) == (500, "INTERNAL_ERROR")
        assert "'rotten'" in answer.body.decode()
    else:
        connection = caller.open("GET", f"{PROXY}{root}/rotten")
        received = b"".join(iter(lambda: connection.recv(MIB), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        assert f"content-length: {size}".encode() in head
        assert len(body) < size
    blob.unlink()
    assert caller.get(root, "rotten").status == 500
    assert caller.get(root, "sound").body == b"sound"
    assert caller.put(root, "rotten", b"again").status == 200
    assert caller.get(root, "rotten").body == b"again"


def test_a_reader_that_leaves_costs_the_server_nothing(site: Site, caller: Caller) -> None:
    assert site.process is not None
    root = caller.run()
    caller.put(root, "big", bytes(20 * MIB))
    folder = Path(f"/proc/{site.process.pid}/fd")
    before = len(list(folder.iterdir()))
    for _ in range(20):
        connection = caller.open("GET", f"{PROXY}{root}/big")
        connection.recv(1000)
        reset(connection)
    deadline = time.monotonic() + 180
    while len(list(folder.iterdir())) > before + 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(list(folder.iterdir())) <= before + 3


def test_a_server_killed_during_an_upload_comes_back_with_the_old_version(tmp_path: Path) -> None:
    site = Site(tmp_path / "home")
    site.start()
    try:
        caller = site.caller()
        root = caller.run()
        assert caller.put(root, "kept", b"old").status == 200
        target = f"{PROXY}{root}/kept"
        with started_upload(caller, target, os.urandom(3 * MIB), "declared"):
            site.kill()
        site.start()
        assert site.caller().get(root, "kept").body == b"old"
        assert site.caller().put(root, "kept", b"new").status == 200
        assert site.caller().get(root, "kept").body == b"new"
    finally:
        site.kill()


@pytest.mark.alone
@pytest.mark.parametrize(("store", "size"), [("disk", 1024 * MIB), ("s3", 160 * MIB)])
def test_memory_stays_flat_while_a_large_file_goes_up_and_down(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, size: int
) -> None:
    """Also while the reader stalls in the middle."""
    site = Site(tmp_path / "home")
    if store == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        site.environment = CREDENTIALS
        site.flags = ["--artifacts", bucket.url, "--artifacts-endpoint", bucket.endpoint]
    site.start()
    try:
        assert site.process is not None
        caller = site.caller()
        root = caller.run()
        caller.put(root, "warm", bytes(20 * MIB))
        assert len(caller.get(root, "warm").body) == 20 * MIB
        with peak_growth(site.process.pid) as growth:
            upload(caller, f"{PROXY}{root}/huge", size)
            download(caller, f"{PROXY}{root}/huge", size)
        assert growth.bytes < 64 * MIB
    finally:
        site.kill()


@dataclass
class Growth:
    """How far a process rose above where it began."""

    bytes: int = 0


@contextlib.contextmanager
def peak_growth(pid: int) -> Iterator[Growth]:
    """Watch a process's memory."""
    base, growth, done = resident_bytes(pid), Growth(), threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            growth.bytes = max(growth.bytes, resident_bytes(pid) - base)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield growth
    finally:
        done.set()
        watcher.join()


def upload(caller: Caller, target: str, size: int) -> None:
    """Send random bytes as fast as the server takes them."""
    connection = caller.open("PUT", target, f"Content-Length: {size}")
    connection.settimeout(120)
    block = os.urandom(MIB)
    for _ in range(size // MIB):
        connection.sendall(block)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    connection.close()


def download(caller: Caller, target: str, size: int) -> None:
    """Read a file to its end, after a pause at its beginning."""
    connection = caller.open("GET", target)
    received = len(connection.recv(MIB))
    time.sleep(1.0)
    buffer = bytearray(MIB)
    while received < size:
        count = connection.recv_into(buffer)
        assert count, f"the download ended after {received} bytes"
        received += count
    connection.close()
