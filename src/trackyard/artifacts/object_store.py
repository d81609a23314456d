"""Blobs as objects in an S3-compatible bucket, through obstore. Owns keys and part sizes.

Every key is `<prefix>/blobs/<aa>/<id>`. Large writes go up in parts, of which only a few
are in memory at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable
from datetime import timedelta
from typing import Any

from obstore import exceptions
from obstore.store import S3Store

from trackyard.artifacts.blobs import (
    BLOB_ID,
    BlobDigest,
    BlobFault,
    FoundBlob,
    StoredBlob,
    batches,
    new_blob_id,
)
from trackyard.core.errors import SetupError, TooBusy, YardError

log = logging.getLogger(__name__)

_MIB = 1024 * 1024
#: Size of an upload's parts; S3 takes at most 10,000, so that longer bodies get larger ones.
_PART, _PARTS_LIMIT = 8 * _MIB, 9_000
#: Parts of an undeclared length: room for 144 GB.
_BLIND_PART = 16 * _MIB
_IN_FLIGHT_BYTES = 32 * _MIB
_BATCH = _MIB
_READ_PIECE = 4 * _MIB
_FAULTS = (exceptions.BaseError, OSError)
#: Seconds for the store to answer a small request, and one that carries a part of a large file.
QUICK_SECONDS, BULK_SECONDS = 20.0, 120.0
#: Seconds after which a request that failed is not begun again.
RETRY_SECONDS = 30.0


class ObjectBlobs:
    """Blobs in a bucket."""

    is_local = False

    def __init__(self, bucket: str, prefix: str, *, endpoint: str | None = None) -> None:
        self.place = f"s3://{bucket}/{prefix}".rstrip("/")
        try:
            self._store = _open(bucket, prefix, endpoint, QUICK_SECONDS)
            self._bulk = _open(bucket, prefix, endpoint, BULK_SECONDS)
        except (exceptions.BaseError, ValueError) as fault:
            raise SetupError(
                f"cannot use {self.place} for artifacts: {_first_line(fault)}",
                hint="check the bucket, its endpoint, and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
                " and AWS_REGION",
            ) from fault

    async def write(
        self, pieces: AsyncIterator[bytes], *, length: int | None = None
    ) -> StoredBlob:
        """Put a stream as one object; a stream that fails leaves no object and no parts."""
        blob = new_blob_id()
        source = _Source(pieces)
        first = await source.start()
        if source.ended:
            await self._settle(self._store.put_async(_key(blob), bytes(first)), source)
        else:
            part = _part_size(length)
            upload = self._bulk.put_async(
                _key(blob),
                source.rest(first),
                chunk_size=part,
                max_concurrency=max(1, _IN_FLIGHT_BYTES // part),
            )
            await self._settle(upload, source)
        await self._confirm(blob, source.digest.size)
        return StoredBlob(blob=blob, size=source.digest.size, sha256=source.digest.text())

    async def _confirm(self, blob: str, size: int) -> None:
        """Believe that an object is stored once the store shows it with its size."""
        try:
            found = await self._store.head_async(_key(blob))
        except FileNotFoundError as fault:
            raise self._unkept(blob, "is not there") from fault
        except _FAULTS as fault:
            raise self._explain(fault) from fault
        if found["size"] != size:
            raise self._unkept(blob, f"has {found['size']} bytes instead of {size}")

    def _unkept(self, blob: str, what: str) -> TooBusy:
        log.error("%s acknowledged blob %s, which %s", self.place, blob, what)
        return TooBusy(
            f"the artifact store acknowledged the file, which {what} afterwards; nothing was"
            " recorded, try again",
            retry_after=5,
        )

    async def _settle(self, put: Awaitable[Any], source: _Source) -> None:
        upload = asyncio.ensure_future(put)
        try:
            await asyncio.shield(upload)
        except asyncio.CancelledError:
            # The upload itself is not cancelled: told to stop, it also takes its parts back.
            source.cut()
            upload.add_done_callback(_forget)
            raise
        except _FAULTS as fault:
            raise self._explain(source.fault or fault) from fault

    async def read(self, blob: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the object's bytes, fetching one piece ahead."""
        ahead = self._fetch(blob, start, end)
        while start < end:
            piece = await ahead
            start += len(piece)
            if start < end:
                ahead = self._fetch(blob, start, end)
            yield piece

    def _fetch(self, blob: str, start: int, end: int) -> asyncio.Future[bytes]:
        future = asyncio.ensure_future(self._range(blob, start, min(end, start + _READ_PIECE)))
        # A reader that stops early never awaits its last piece.
        future.add_done_callback(_forget)
        return future

    async def _range(self, blob: str, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        try:
            piece = bytes(await self._store.get_range_async(_key(blob), start=start, end=end))
        except FileNotFoundError as fault:
            raise BlobFault(f"blob {blob} is not in {self.place}") from fault
        except _FAULTS as fault:
            raise self._explain(fault) from fault
        if len(piece) != end - start:
            raise BlobFault(f"blob {blob} is shorter than it was when it was stored")
        return piece

    async def local_file(self, blob: str) -> str | None:  # noqa: ARG002 - the port's signature
        """Return None: an object is no file of this machine."""
        return None

    async def delete(self, blobs: Iterable[str]) -> None:
        """Delete the objects; S3 counts a missing one as deleted."""
        keys = [_key(blob) for blob in blobs]
        if not keys:
            return
        try:
            await self._store.delete_async(keys)
        except FileNotFoundError:
            return
        except _FAULTS as fault:
            raise self._explain(fault) from fault

    async def walk(self) -> AsyncIterator[FoundBlob]:
        """Yield every blob below the prefix."""
        try:
            async for page in self._store.list_async("blobs"):
                for entry in page:
                    blob = entry["path"].rpartition("/")[2]
                    if BLOB_ID.match(blob):
                        modified = int(entry["last_modified"].timestamp() * 1000)
                        yield FoundBlob(blob=blob, size=entry["size"], modified_ms=modified)
        except _FAULTS as fault:
            raise self._explain(fault) from fault

    async def sweep(self, before_ms: int) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: a put that fails takes its parts back; a rule of the bucket ages the rest."""
        return 0

    async def probe(self) -> None:
        """Raise when the bucket does not answer."""
        try:
            await self._store.list_with_delimiter_async("blobs/probe")
        except _FAULTS as fault:
            raise self._explain(fault) from fault

    async def marker(self) -> str | None:
        """Return the text of the object beside the blobs."""
        try:
            found = await self._store.get_async("store.id")
            return bytes(await found.bytes_async()).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except _FAULTS as fault:
            raise self._explain(fault) from fault

    async def set_marker(self, text: str) -> None:
        """Put that object."""
        try:
            await self._store.put_async("store.id", text.encode())
        except _FAULTS as fault:
            raise self._explain(fault) from fault

    async def close(self) -> None:
        """Nothing to let go of: obstore's connections end with the process."""

    def _explain(self, fault: BaseException) -> YardError:
        if isinstance(fault, YardError):
            return fault
        log.error("the artifact store %s fails: %s", self.place, _first_line(fault))
        return TooBusy(
            f"the artifact store did not take the request ({type(fault).__name__}); try again",
            retry_after=5,
        )


class _Source:
    """The stream on its way to the store: counted, digested, and able to be cut from outside."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._batches = batches(pieces, _BATCH)
        self._is_cut = False
        self.ended = False
        self.digest = BlobDigest()
        #: what the stream itself failed with, which says more than what the store made of it
        self.fault: BaseException | None = None

    def cut(self) -> None:
        """Make the stream fail at its next piece."""
        self._is_cut = True

    async def start(self) -> bytearray:
        """Return the stream's beginning: all of it when it is no longer than one part."""
        first = bytearray()
        async for batch in self._batches:
            await self.digest.add(batch)
            first += batch
            if len(first) > _PART:
                return first
        self.ended = True
        return first

    async def rest(self, first: bytearray) -> AsyncIterator[bytes]:
        """Yield the beginning again, then what follows it."""
        yield bytes(first)
        try:
            async for batch in self._batches:
                if self._is_cut:
                    raise TooBusy("the upload was given up", retry_after=1)
                await self.digest.add(batch)
                yield bytes(batch)
        except BaseException as fault:
            self.fault = fault
            raise


def _open(bucket: str, prefix: str, endpoint: str | None, seconds: float) -> S3Store:
    settings: dict[str, Any] = {
        "client_options": {
            "timeout": timedelta(seconds=seconds),
            "connect_timeout": timedelta(seconds=min(seconds, 10.0)),
            "allow_http": endpoint is not None and endpoint.startswith("http://"),
        },
        "retry_config": {
            "max_retries": 4,
            "retry_timeout": timedelta(seconds=min(RETRY_SECONDS, 2 * seconds)),
        },
    }
    if endpoint is not None:
        settings |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    return S3Store(bucket, prefix=prefix or None, **settings)


def _part_size(length: int | None) -> int:
    if length is None:
        return _BLIND_PART
    whole_mib = -(-length // (_PARTS_LIMIT * _MIB)) * _MIB
    return max(_PART, whole_mib)


def _key(blob: str) -> str:
    if BLOB_ID.match(blob) is None:
        raise BlobFault(f"{blob!r} is not the id of a blob")
    return f"blobs/{blob[:2]}/{blob}"


def _first_line(fault: BaseException) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]


def _forget(future: asyncio.Future[Any]) -> None:
    """Take the result of a future nobody awaits, so that its fault is not reported as unseen."""
    if not future.cancelled():
        future.exception()
