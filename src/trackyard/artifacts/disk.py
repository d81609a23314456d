"""Blobs as files below one folder. Owns its layout, its durability and its reserve of free space.

A blob is `blobs/<aa>/<id>`, where `aa` are the first two digits of its id; while its bytes come in
it is `incoming/<id>`. It is on the disk, name and content, before anyone learns its id.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import functools
import hashlib
import logging
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from trackyard.artifacts.blobs import (
    BLOB_ID,
    BlobFault,
    FoundBlob,
    StoredBlob,
    batches,
    new_blob_id,
)
from trackyard.core.errors import InternalFault, OutOfSpace, SetupError, YardError

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Free space that artifacts never use, so that the database beside them can go on.
RESERVE_BYTES = 64 * 1024 * 1024
_PIECE = 1024 * 1024
#: Bytes after which the system is told to begin writing, so that the flush at the end is short.
_WRITE_OUT = 8 * 1024 * 1024
_THREADS = 4
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HAS_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class DiskBlobs:
    """Blobs on a file system of this machine."""

    is_local = True

    def __init__(self, root: Path, *, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.place = str(root)
        self._incoming = root / "incoming"
        self._blobs = root / "blobs"
        self._marker = root / "store.id"
        self._reserve_bytes = reserve_bytes
        #: bytes that writes under way have announced and not written yet
        self._promised = 0
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="yard-blob")
        try:
            for folder in (root, self._incoming, self._blobs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as fault:
            raise SetupError(
                f"cannot keep artifacts in {root}: {fault.strerror}",
                hint="name a folder that this user may write to with --artifacts",
            ) from fault

    async def write(
        self, pieces: AsyncIterator[bytes], *, length: int | None = None
    ) -> StoredBlob:
        """Write beside, flush to the disk, then rename into place."""
        promise = length or 0
        self._check_space(promise)
        self._promised += promise
        blob = new_blob_id()
        partial = _Partial(self._incoming / blob)
        writing: asyncio.Future[None] | None = None
        last: bytes | bytearray = b""
        try:
            async for batch in batches(pieces, _PIECE):
                paid = min(promise, len(batch))
                promise -= paid
                self._promised -= paid
                self._check_space(0 if length is not None else len(batch))
                # The next batch comes in while this one is written; the last one, which is all
                # of a small file, is written with the end of the file.
                if writing is not None:
                    await writing
                if last:
                    writing = asyncio.ensure_future(self._run(partial.append, last))
                last = batch
            if writing is not None:
                await writing
            return await self._run(partial.finish, blob, self._file(blob), last)
        except OSError as fault:
            raise self._explain(fault) from fault
        finally:
            self._promised -= promise
            if writing is not None and not writing.done():
                await asyncio.gather(writing, return_exceptions=True)
            if not partial.is_finished:
                # Not awaited: a cancelled request must still clean up behind itself.
                self._pool.submit(partial.discard)

    async def read(self, blob: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the file's bytes in pieces; those of a small file in one."""
        if end - start <= _PIECE:
            yield await self._run(self._read_small, blob, start, end)
            return
        descriptor = await self._run(self._open, blob, end)
        reading: asyncio.Future[bytes] | None = None
        try:
            while start < end:
                if reading is None:
                    reading = self._read_on(descriptor, start, end)
                piece = await reading
                if not piece:
                    raise _short(blob)
                start += len(piece)
                # The next piece is read while this one is on its way.
                reading = self._read_on(descriptor, start, end) if start < end else None
                yield piece
        except OSError as fault:
            raise BlobFault(f"blob {blob} cannot be read: {fault.strerror}") from fault
        finally:
            if reading is not None:
                await asyncio.gather(reading, return_exceptions=True)
            os.close(descriptor)

    def _read_small(self, blob: str, start: int, end: int) -> bytes:
        descriptor = self._open(blob, end)
        try:
            data = os.pread(descriptor, end - start, start)
        except OSError as fault:
            raise BlobFault(f"blob {blob} cannot be read: {fault.strerror}") from fault
        finally:
            os.close(descriptor)
        if len(data) < end - start:
            raise _short(blob)
        return data

    def _read_on(self, descriptor: int, start: int, end: int) -> asyncio.Future[bytes]:
        return asyncio.ensure_future(
            self._run(os.pread, descriptor, min(_PIECE, end - start), start)
        )

    async def local_file(self, blob: str) -> str | None:
        """Return the blob's file, unless something else has taken its place."""
        return await self._run(self._regular, self._file(blob))

    async def delete(self, blobs: Iterable[str]) -> None:
        """Unlink the files; a reader that has one open keeps it to the end."""
        files = [self._file(blob) for blob in blobs]
        await self._run(_unlink, files)

    async def walk(self) -> AsyncIterator[FoundBlob]:
        """Yield every blob, a folder at a time."""
        shards = await self._run(lambda: sorted(self._blobs.iterdir()))
        for shard in shards:
            for found in await self._run(_blobs_in, shard):
                yield found

    async def sweep(self, before_ms: int) -> int:
        """Remove partial files that nobody has written to since a time."""
        return await self._run(_remove_older, self._incoming, before_ms)

    async def probe(self) -> None:
        """Raise when the folder cannot be written to or is out of space."""
        self._check_space(0)
        if not await self._run(os.access, self._incoming, os.W_OK):
            raise InternalFault(f"the artifact folder {self.place} is not writable")

    async def marker(self) -> str | None:
        """Return the text of the file beside the blobs."""
        try:
            return await self._run(self._marker.read_text)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as fault:
            raise InternalFault(f"{self._marker} cannot be read: {fault}") from fault

    async def set_marker(self, text: str) -> None:
        """Write that file, whole or not at all."""
        try:
            await self._run(_write_whole, self._marker, text.encode())
        except OSError as fault:
            raise self._explain(fault) from fault

    async def close(self) -> None:
        """Wait for the clean-up of the last writes."""
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    def _file(self, blob: str) -> Path:
        if BLOB_ID.match(blob) is None:
            raise BlobFault(f"{blob!r} is not the id of a blob")
        return self._blobs / blob[:2] / blob

    def _open(self, blob: str, end: int) -> int:
        try:
            descriptor = os.open(self._file(blob), os.O_RDONLY | _HAS_NOFOLLOW)
        except OSError as fault:
            raise BlobFault(f"blob {blob} cannot be opened: {fault.strerror}") from fault
        if os.fstat(descriptor).st_size < end:
            os.close(descriptor)
            raise _short(blob)
        return descriptor

    def _regular(self, file: Path) -> str | None:
        try:
            found = os.lstat(file)
        except FileNotFoundError:
            return None
        return str(file) if stat.S_ISREG(found.st_mode) else None

    def _check_space(self, more: int) -> None:
        state = os.statvfs(self._blobs)
        free = state.f_bavail * state.f_frsize - self._promised
        if free - more < self._reserve_bytes:
            raise OutOfSpace(
                f"the artifact disk has {max(free, 0) // 1_000_000} MB free and keeps"
                f" {self._reserve_bytes // 1_000_000} MB in reserve; delete artifacts, run"
                " `yard gc`, or ask an admin for more space"
            )

    def _explain(self, fault: OSError) -> YardError:
        if fault.errno in _FULL:
            return OutOfSpace(
                "the artifact disk is full; nothing was stored. Delete artifacts, run `yard gc`,"
                " or ask an admin for more space"
            )
        log.error("the artifact disk at %s fails: %s", self.place, fault)
        return InternalFault(
            f"the artifact disk failed ({fault.strerror}); nothing was stored. Tell an admin"
        )

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)


class _Partial:
    """A file on its way in. Made on the first byte, gone or renamed at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_finished = False
        self._descriptor: int | None = None
        self._digest = hashlib.sha256()
        self._size = 0
        #: bytes that the system was told to write out
        self._begun = 0

    def append(self, batch: bytes | bytearray) -> None:
        """Write a batch at the end."""
        descriptor = self._open()
        view = memoryview(batch)
        while view:
            written = os.write(descriptor, view)
            view = view[written:]
            self._size += written
        if self._size - self._begun >= _WRITE_OUT:
            begin_write_out(descriptor, self._begun, self._size - self._begun)
            self._begun = self._size
        self._digest.update(batch)

    def finish(self, blob: str, target: Path, last: bytes | bytearray = b"") -> StoredBlob:
        """Write the last batch, give the file its name, and flush the file, then the name.

        A journal that takes in the new name with the file leaves the second flush nothing to do.
        Nobody knows the name yet, so a crash between leaves an unknown blob, which is garbage.
        """
        if last:
            self.append(last)
        descriptor = self._open()
        try:
            self._path.rename(target)
        except FileNotFoundError:
            _make_shards(target.parent)
            self._path.rename(target)
        self._path = target
        os.fsync(descriptor)
        os.close(descriptor)
        self._descriptor = None
        _sync_folder(target.parent)
        self.is_finished = True
        return StoredBlob(blob=blob, size=self._size, sha256=self._digest.hexdigest())

    def discard(self) -> None:
        """Close and remove what is left of an unfinished write; harmless after a finished one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._path.unlink(missing_ok=True)

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = _create(self._path)
        return self._descriptor


def begin_write_out(descriptor: int, start: int, size: int) -> None:
    """Let the system write a part of a file now, without waiting for it; a hint, no more."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, start, size, 2)  # SYNC_FILE_RANGE_WRITE


@functools.cache
def _sync_file_range() -> Any:
    """Return Linux's call, which Python does not have, or None elsewhere."""
    try:
        found = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (AttributeError, OSError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


def _short(blob: str) -> BlobFault:
    return BlobFault(f"blob {blob} is shorter than it was when it was stored")


def _write_whole(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.{new_blob_id()}")
    try:
        with os.fdopen(_create(beside), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _create(path: Path) -> int:
    """Create a file that nobody else may read."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _HAS_NOFOLLOW, 0o600)


def _make_shards(missing: Path) -> None:
    """Make the folder of a blob; all of them at once, so that a flush serves every one."""
    root = missing.parent
    missing.mkdir(mode=0o700, exist_ok=True)
    for number in range(256):
        (root / f"{number:02x}").mkdir(mode=0o700, exist_ok=True)
    _sync_folder(root)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _blobs_in(shard: Path) -> list[FoundBlob]:
    return [
        FoundBlob(blob=path.name, size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)
        for path, found in _files(shard)
        if BLOB_ID.match(path.name)
    ]


def _remove_older(folder: Path, before_ms: int) -> int:
    old = [path for path, found in _files(folder) if found.st_mtime_ns // 1_000_000 < before_ms]
    _unlink(old)
    return len(old)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in folder.iterdir():
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            yield path, found
