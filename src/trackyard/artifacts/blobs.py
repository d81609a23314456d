"""The port to where bytes lie. Owns blob ids, what a store must do, and checks against digests.

A blob is written once, under an id the store makes, and never changed. Knows neither users' paths
nor tables.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trackyard.core.errors import InternalFault, SetupError

#: Pieces below this many bytes are digested in place: a thread would cost more.
_INLINE_DIGEST = 64 * 1024

BLOB_ID = re.compile(r"[0-9a-f]{32}\Z")


class BlobFault(InternalFault):
    """Bytes that were stored are gone or are no longer what they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    """A blob that is complete and durable."""

    blob: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBlob:
    """A blob met while walking the store."""

    blob: str
    size: int
    modified_ms: int


class BlobStore(Protocol):
    """What the platform asks of a place for bytes."""

    #: where the blobs lie, for people
    place: str
    #: whether the bytes lie on this machine, where an upload in parts costs a second copy
    is_local: bool

    async def write(
        self, pieces: AsyncIterator[bytes], *, length: int | None = None
    ) -> StoredBlob:
        """Store a stream whole, or nothing of it; return once it would survive a power cut."""
        ...

    def read(self, blob: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` up to, not including, `end`."""
        ...

    async def local_file(self, blob: str) -> str | None:
        """Return the file that holds a blob, when it is a file of this machine."""
        ...

    async def delete(self, blobs: Iterable[str]) -> None:
        """Remove blobs; one that is not there counts as removed."""
        ...

    def walk(self) -> AsyncIterator[FoundBlob]:
        """Yield every complete blob."""
        ...

    async def sweep(self, before_ms: int) -> int:
        """Remove what unfinished writes left behind before a time; return how many."""
        ...

    async def probe(self) -> None:
        """Raise when the store cannot be reached."""
        ...

    async def marker(self) -> str | None:
        """Return the text that names this store, if it has one."""
        ...

    async def set_marker(self, text: str) -> None:
        """Name this store."""
        ...

    async def close(self) -> None:
        """Let go of threads and connections."""
        ...


def open_blobs(url: str, *, endpoint: str | None = None, home: Path) -> BlobStore:
    """Return the store that a setting names: a folder, `file:///folder`, or `s3://bucket/prefix`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        from trackyard.artifacts.disk import DiskBlobs

        return DiskBlobs(Path(url) if url else home / "artifacts")
    if scheme == "file" and rest.startswith("/"):
        from trackyard.artifacts.disk import DiskBlobs

        return DiskBlobs(Path(rest))
    if scheme == "s3":
        from trackyard.artifacts.object_store import ObjectBlobs

        bucket, _, prefix = rest.partition("/")
        return ObjectBlobs(bucket, prefix.strip("/"), endpoint=endpoint or None)
    raise SetupError(
        f"artifacts cannot be kept at {url!r}",
        hint="name a folder, or s3://bucket/prefix (with an endpoint for S3-compatible stores)",
    )


def new_blob_id() -> str:
    """Return an id that says nothing about what it holds."""
    return secrets.token_hex(16)


async def batches(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytearray]:
    """Gather small pieces into batches of at least `size` bytes, the last one excepted."""
    batch = bytearray()
    async for piece in pieces:
        batch += piece
        if len(batch) >= size:
            yield batch
            batch = bytearray()
    if batch:
        yield batch


class BlobDigest:
    """A running SHA-256 that leaves the event loop free while it works on large pieces."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.size = 0

    async def add(self, piece: bytes | bytearray) -> None:
        """Take in a piece."""
        self.size += len(piece)
        if len(piece) < _INLINE_DIGEST:
            self._sha256.update(piece)
        else:
            await asyncio.to_thread(self._sha256.update, piece)

    def text(self) -> str:
        """Return the digest so far, as hex digits."""
        return self._sha256.hexdigest()


async def checked(
    pieces: AsyncIterator[bytes], sha256: str, fault: BlobFault
) -> AsyncIterator[bytes]:
    """Yield the pieces of a whole blob, its last one only when all of them match the digest.

    A piece is digested while the one before it is on its way to the reader.
    """
    digest = BlobDigest()
    held: bytes | None = None
    async for piece in pieces:
        working = asyncio.ensure_future(digest.add(piece))
        try:
            if held is not None:
                yield held
        finally:
            await working
        held = piece
    if digest.text() != sha256:
        raise fault
    if held is not None:
        yield held


async def join(store: BlobStore, parts: Sequence[StoredBlob]) -> StoredBlob:
    """Write one blob out of several, each checked on the way."""
    return await store.write(_chain(store, parts), length=sum(part.size for part in parts))


async def _chain(store: BlobStore, parts: Sequence[StoredBlob]) -> AsyncIterator[bytes]:
    for number, part in enumerate(parts, start=1):
        fault = BlobFault(f"part {number} of the upload was damaged in the store; send it again")
        async for piece in checked(store.read(part.blob, 0, part.size), part.sha256, fault):
            yield piece
