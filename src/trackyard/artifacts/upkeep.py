"""Keeping the store clean: garbage collection. Knows no HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from trackyard.artifacts.blobs import FoundBlob
from trackyard.artifacts.service import Artifacts
from trackyard.artifacts.uploads import remove_upload
from trackyard.store.database import Database, ReadConnection

#: Nothing younger than this is garbage: it may belong to a write that has not ended.
GRACE_MS = 24 * 3600 * 1000
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What garbage collection removed, or would remove."""

    #: uploads in parts that nobody completed
    uploads: int
    #: blobs that nothing refers to, and their bytes
    blobs: int
    blob_bytes: int
    #: remains of writes that broke off
    partials: int


async def collect_garbage(
    database: Database, artifacts: Artifacts, *, grace_ms: int = GRACE_MS, dry_run: bool = False
) -> Collected:
    """Remove abandoned uploads, blobs without an artifact, and remains of broken writes."""
    before_ms = database.clock.time_ms() - grace_ms
    stale = await database.read(lambda reader: _stale_uploads(reader, before_ms), seconds=None)
    if not dry_run:
        for upload_id in stale:
            blobs = await database.write(partial(remove_upload, upload_id=upload_id), frees=True)
            await artifacts.retire_now(blobs)
    count = total = 0
    batch: list[str] = []
    async for found in _orphans(database, artifacts, before_ms):
        count += 1
        total += found.size
        batch.append(found.blob)
        if len(batch) >= _PAGE and not dry_run:
            await artifacts.retire_now(batch)
            batch = []
    if not dry_run:
        await artifacts.retire_now(batch)
    partials = 0 if dry_run else await artifacts.blobs.sweep(before_ms)
    return Collected(uploads=len(stale), blobs=count, blob_bytes=total, partials=partials)


async def _orphans(
    database: Database, artifacts: Artifacts, before_ms: int
) -> AsyncIterator[FoundBlob]:
    """Yield old blobs that no row refers to; a sixteenth of all ids is in memory at a time."""
    digit = ""
    used: set[str] = set()
    async for found in artifacts.blobs.walk():
        if found.modified_ms >= before_ms:
            continue
        if found.blob[0] != digit:
            digit = found.blob[0]
            used = await database.read(partial(_used, digit=digit), seconds=None)
        if found.blob not in used:
            yield found


def _used(reader: ReadConnection, digit: str) -> set[str]:
    rows = reader.all(
        "SELECT blob FROM artifacts WHERE substr(blob, 1, 1) = ?"
        " UNION SELECT blob FROM packages WHERE substr(blob, 1, 1) = ?"
        " UNION SELECT blob FROM data_packs WHERE substr(blob, 1, 1) = ?",
        (digit, digit, digit),
    )
    return {row[0] for row in rows}


def _stale_uploads(reader: ReadConnection, before_ms: int) -> list[str]:
    rows = reader.all("SELECT id FROM uploads WHERE created_ms < ?", (before_ms,))
    return [row[0] for row in rows]
