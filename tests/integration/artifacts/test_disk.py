"""What only a disk can do to us: run full, fail, lie, or hold a link that someone planted."""

import asyncio
import errno
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.artifacts.team import stream
from trackyard.artifacts.blobs import BlobFault
from trackyard.artifacts.disk import DiskBlobs
from trackyard.core.errors import InternalFault, OutOfSpace, SetupError

MIB = 1024 * 1024


@pytest.fixture
async def disk(tmp_path: Path) -> DiskBlobs:
    return DiskBlobs(tmp_path / "store")


@pytest.fixture
def _small_files() -> Iterator[None]:
    """Make the kernel refuse files over 3 MB in the middle of a write, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def free_bytes(path: Path) -> int:
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_an_upload_the_disk_has_no_room_for_is_refused_before_its_first_byte(
    tmp_path: Path,
) -> None:
    disk = DiskBlobs(tmp_path)
    asked = False

    async def body():
        nonlocal asked
        asked = True
        yield b"x"

    with pytest.raises(OutOfSpace) as caught:
        await disk.write(body(), length=free_bytes(tmp_path))
    assert caught.value.status == 507
    assert "yard gc" in caught.value.message
    assert not asked
    assert files(tmp_path) == []


async def test_the_reserve_is_kept_for_streams_of_unknown_length_too(tmp_path: Path) -> None:
    disk = DiskBlobs(tmp_path, reserve_bytes=free_bytes(tmp_path) + MIB)
    with pytest.raises(OutOfSpace):
        await disk.write(stream(b"x"))
    await disk.close()
    assert files(tmp_path) == []


async def test_uploads_under_way_count_against_the_room_there_is(tmp_path: Path) -> None:
    half = free_bytes(tmp_path) // 2
    disk = DiskBlobs(tmp_path, reserve_bytes=half // 2)
    holding, done = asyncio.Event(), asyncio.Event()

    async def slow():
        yield b"x" * MIB
        holding.set()
        await done.wait()

    first = asyncio.create_task(disk.write(slow(), length=half))
    await holding.wait()
    with pytest.raises(OutOfSpace):
        await disk.write(stream(b"x"), length=half)
    done.set()
    await first
    await disk.write(stream(b"x"), length=half)


@pytest.mark.usefixtures("_small_files")
@pytest.mark.parametrize("length", [None, 8 * MIB])
async def test_a_disk_that_fills_up_in_the_middle_loses_nothing_but_the_upload(
    disk: DiskBlobs, tmp_path: Path, length: int | None
) -> None:
    kept = await disk.write(stream(b"kept"))
    with pytest.raises(OutOfSpace, match="nothing was stored"):
        await disk.write(stream(bytes(8 * MIB)), length=length)
    again = await disk.write(stream(b"room for this"))
    await disk.close()
    assert {path.name for path in files(tmp_path)} == {kept.blob, again.blob}


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
async def test_a_failing_flush_is_never_acknowledged(
    disk: DiskBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def broken(_: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(InternalFault, match="nothing was stored"):
            await disk.write(stream(b"x"))
    after = await disk.write(stream(b"y"))
    await disk.close()
    assert [path.name for path in files(tmp_path)] == [after.blob]


async def test_a_blob_is_on_the_disk_before_anyone_learns_its_name(
    disk: DiskBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is: rename, flush the file, flush the folder that got the name."""
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("flush folder" if is_folder else "flush file")
        real_fsync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    await disk.write(stream(b"x"))
    assert steps == ["rename", "flush folder", "rename", "flush file", "flush folder"]


async def test_a_planted_link_is_not_followed(disk: DiskBlobs, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    stored = await disk.write(stream(b"x" * 9))
    path = tmp_path / "store/blobs" / stored.blob[:2] / stored.blob
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(BlobFault):
        [piece async for piece in disk.read(stored.blob, 0, 9)]
    assert await disk.local_file(stored.blob) is None
    assert [found async for found in disk.walk()] == []


async def test_a_shortened_blob_is_noticed_before_its_first_byte(
    disk: DiskBlobs, tmp_path: Path
) -> None:
    stored = await disk.write(stream(b"x" * 9))
    os.truncate(tmp_path / "store/blobs" / stored.blob[:2] / stored.blob, 8)
    with pytest.raises(BlobFault, match="shorter"):
        [piece async for piece in disk.read(stored.blob, 0, 9)]


async def test_only_the_server_may_read_the_files(disk: DiskBlobs, tmp_path: Path) -> None:
    await disk.write(stream(b"x"))
    for path in (tmp_path / "store").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


async def test_remains_of_a_killed_server_are_swept_by_age(
    disk: DiskBlobs, tmp_path: Path
) -> None:
    old, young = tmp_path / "store/incoming/old", tmp_path / "store/incoming/young"
    old.write_bytes(b"x")
    young.write_bytes(b"y")
    os.utime(old, (1000, 1000))
    assert await disk.sweep(2_000_000) == 1
    assert files(tmp_path / "store") == [young]


def test_a_folder_that_cannot_be_made_is_said_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot keep artifacts"):
        DiskBlobs(tmp_path / "file" / "store")
