"""Artifacts as users know them: files under paths below a run or a logged model.

Owns the table `artifacts` and the rule that metadata, and with it an event, changes in one
transaction, while bytes are written before it and removed after it. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from trackyard.access.principal import Principal
from trackyard.artifacts import tree
from trackyard.artifacts.blobs import BlobFault, BlobStore, StoredBlob, checked
from trackyard.artifacts.owners import ArtifactOwner, find_owner
from trackyard.artifacts.paths import ancestors, check_path
from trackyard.artifacts.tree import StoredSize, TreeEntry
from trackyard.core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    TooLarge,
    YardError,
)
from trackyard.store.connection import Row
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)

#: The largest artifact there can be.
ARTIFACT_BYTES = 5 * 1024**4
#: Refusals of a transaction itself: nothing refers to the blob it was to record.
_DECIDED = (InvalidInput, NotFound, Conflict)
#: Files up to this size are checked before a part of them leaves, and not again for so long.
VOUCHED_BYTES, VOUCHED_SECONDS = 64 << 20, 600.0
_MOST_SOUND = 10_000
_COLUMNS = "owner, path, blob, size, sha256, created_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One stored file."""

    #: run uuid or logged-model id
    owner: str
    path: str
    blob: str
    size: int
    sha256: str
    created_ms: int


class Artifacts:
    """Writes, reads, lists and deletes artifacts."""

    def __init__(
        self, database: Database, blobs: BlobStore, *, linger_seconds: float = 0.0
    ) -> None:
        self._database = database
        self.blobs = blobs
        #: how long bytes stay that nothing refers to: readers of other servers are not seen here
        self._linger_seconds = linger_seconds
        self._lingering: set[asyncio.Task[None]] = set()
        #: blobs being read, and those to delete once nobody reads them
        self._readers: Counter[str] = Counter()
        self._doomed: set[str] = set()
        #: when blobs were last found whole, for readers of parts; the oldest first
        self._sound: dict[str, float] = {}
        #: backups under way, for which nothing is removed, and what is to go after them
        self._holds = 0
        self._held: set[str] = set()

    # -- owners -----------------------------------------------------------------------------

    async def owner(
        self, principal: Principal, owner_id: str, *, to_write: bool = False
    ) -> ArtifactOwner:
        """Return a run or logged model that the caller may reach, or answer that there is none."""
        owner = await self._database.peek(lambda reader: find_owner(reader, principal, owner_id))
        if to_write:
            owner.check_active()
        return owner

    # -- writing ----------------------------------------------------------------------------

    async def put(
        self,
        principal: Principal,
        owner: ArtifactOwner,
        path: str,
        pieces: AsyncIterator[bytes],
        *,
        length: int | None = None,
        sha256: str | None = None,
        even_deleted: bool = False,
    ) -> Artifact:
        """Store a stream under a path, in place of what was there; whole, or not at all."""
        if length is not None and length > ARTIFACT_BYTES:
            raise TooLarge(f"an artifact can have at most {ARTIFACT_BYTES} bytes")
        await self._database.peek(lambda reader: _check_free(reader, owner.id, path))
        stored = await self.blobs.write(pieces, length=length)
        if sha256 is not None and sha256 != stored.sha256:
            await self.blobs.delete([stored.blob])
            raise InvalidInput(
                f"the body's SHA-256 is {stored.sha256}, not the {sha256} the request declares;"
                " nothing was stored, send it again"
            )
        return await self.adopt(principal, owner, path, stored, even_deleted=even_deleted)

    async def adopt(
        self,
        principal: Principal,
        owner: ArtifactOwner,
        path: str,
        stored: StoredBlob,
        *,
        even_deleted: bool = False,
    ) -> Artifact:
        """Make a blob that is already stored the artifact at a path."""

        def record(tx: Tx) -> tuple[Artifact, str | None]:
            # Again, now that nothing can come between: the run may have gone while bytes came in.
            found = find_owner(tx, principal, owner.id)
            if not even_deleted:
                found.check_active()
            _check_free(tx, owner.id, path)
            return _record(tx, principal, owner, path, stored)

        try:
            artifact, replaced = await self._database.write(record)
        except _DECIDED:
            await self.retire([stored.blob])
            raise
        if replaced is not None:
            await self.retire([replaced])
        return artifact

    async def delete(self, principal: Principal, owner: ArtifactOwner, path: str) -> int:
        """Delete a file, or a folder with all below it; an empty path is the whole tree."""
        rows = await self._database.write(
            lambda tx: _remove(tx, principal, owner, path), frees=True
        )
        await self.retire(row[1] for row in rows)
        return len(rows)

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Remove no blob while the block runs, so that a copy of the rows finds every one."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                held, self._held = self._held, set()
                await self.retire_now(held)

    async def retire(self, blobs: Iterable[str]) -> None:
        """Delete blobs nothing refers to any more, those under a reader or a backup later."""
        doomed = list(blobs)
        if self._linger_seconds and doomed:
            # A server that ends in between leaves them to the collection of garbage.
            task = asyncio.create_task(self._retire_later(doomed))
            self._lingering.add(task)
            task.add_done_callback(self._lingering.discard)
            return
        await self.retire_now(doomed)

    async def _retire_later(self, blobs: list[str]) -> None:
        await asyncio.sleep(self._linger_seconds)
        await self.retire_now(blobs)

    async def retire_now(self, blobs: Iterable[str]) -> None:
        """Delete blobs at once, as nobody has referred to them for long."""
        if self._holds:
            self._held.update(blobs)
            return
        free = []
        for blob in blobs:
            if self._readers[blob] > 0:
                self._doomed.add(blob)
            else:
                free.append(blob)
        try:
            await self.blobs.delete(free)
        except (YardError, OSError) as fault:
            # The change is committed; collecting garbage will meet what stays behind.
            log.warning("%d blobs could not be removed now: %s", len(free), fault)

    # -- reading ----------------------------------------------------------------------------

    async def find(self, owner_id: str, path: str) -> Artifact:
        """Return the artifact at a path, or say what is the matter with it."""
        return await self._database.peek(lambda reader: _find(reader, owner_id, path))

    async def resolve(self, owner_id: str, path: str) -> str:
        """Return the stored path that a reader means, who may have it from a client's listing."""
        return await self._database.peek(lambda reader: _resolve(reader, owner_id, path))

    async def exists(self, owner_id: str, path: str) -> bool:
        """Tell whether a path is a file or a folder that holds one; the root exists once used."""
        return await self._database.peek(lambda reader: tree.exists(reader, owner_id, path))

    async def list(self, owner_id: str, path: str = "") -> list[TreeEntry]:
        """Return the files and folders directly below a folder, by name; none for a file."""
        return await self._database.read(lambda reader: tree.children(reader, owner_id, path))

    async def files(self, owner_id: str, after: str, most: int) -> builtins.list[Artifact]:
        """Return files of an owner in the order of their paths, from the one after a path."""
        return await self._database.read(
            lambda reader: [
                artifact_of(row) for row in tree.files(reader, owner_id, after, most, _COLUMNS)
            ]
        )

    async def sizes(self, owner_ids: Iterable[str]) -> dict[str, StoredSize]:
        """Return how many files and bytes each owner holds."""
        wanted = list(owner_ids)
        return await self._database.read(lambda reader: tree.sizes(reader, wanted))

    async def read(
        self, artifact: Artifact, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield bytes of an artifact; a whole one is checked before its last piece leaves."""
        stop = artifact.size if end is None else end
        is_whole = start == 0 and stop == artifact.size
        self._readers[artifact.blob] += 1
        try:
            pieces = self.blobs.read(artifact.blob, start, stop)
            if is_whole:
                pieces = checked(pieces, artifact.sha256, damage(artifact))
            async for piece in pieces:
                yield piece
        except BlobFault as fault:
            log.error("%s (%s)", damage(artifact).message, fault.message)
            raise damage(artifact) from fault
        finally:
            await self._release(artifact.blob)

    async def vouch(self, artifact: Artifact) -> None:
        """Check a file before a part of it leaves, unless it is large or was just checked."""
        now = self._database.clock.monotonic()
        seen = self._sound.pop(artifact.blob, None)
        if artifact.size > VOUCHED_BYTES or (seen is not None and now - seen < VOUCHED_SECONDS):
            if seen is not None:
                self._sound[artifact.blob] = seen
            return
        async for _ in self.read(artifact):
            pass
        self._sound[artifact.blob] = now
        if len(self._sound) > _MOST_SOUND:
            del self._sound[next(iter(self._sound))]

    async def local_file(self, artifact: Artifact) -> str | None:
        """Return the file that holds an artifact's bytes, where they are on this machine."""
        return await self.blobs.local_file(artifact.blob)

    async def read_all(self, artifact: Artifact) -> bytes:
        """Return a whole artifact, checked."""
        return b"".join([piece async for piece in self.read(artifact)])

    async def _release(self, blob: str) -> None:
        self._readers[blob] -= 1
        if self._readers[blob] <= 0:
            del self._readers[blob]
            if blob in self._doomed:
                self._doomed.discard(blob)
                await self.retire_now([blob])


def damage(artifact: Artifact) -> BlobFault:
    """Return the fault of an artifact whose bytes are gone or changed."""
    return BlobFault(
        f"artifact {artifact.path!r} of {artifact.owner} is damaged in the store (blob"
        f" {artifact.blob}); restore it from a backup or upload it again"
    )


def forget_owner(tx: Tx, owner_id: str) -> int:
    """Drop every artifact of a purged run or model; the blobs are collected as garbage later."""
    return tx.run("DELETE FROM artifacts WHERE owner = ?", (owner_id,))


def _find(reader: ReadConnection, owner_id: str, path: str) -> Artifact:
    row = reader.one(
        f"SELECT {_COLUMNS} FROM artifacts WHERE owner = ? AND path = ?",
        (owner_id, path),
    )
    if row is not None:
        return artifact_of(row)
    if tree.exists(reader, owner_id, path):
        raise InvalidInput(f"Artifact path refers to a directory, not a file: {path!r}")
    raise NotFound(f"No such artifact: {path!r}")


def _resolve(reader: ReadConnection, owner_id: str, path: str) -> str:
    if not path or tree.exists(reader, owner_id, path):
        return path
    return tree.find_spelling(reader, owner_id, path) or check_path(path)


def artifact_of(row: Row) -> Artifact:
    """Return the artifact of a row of its columns."""
    return Artifact(
        owner=row[0], path=row[1], blob=row[2], size=row[3], sha256=row[4], created_ms=row[5]
    )


def _check_free(reader: ReadConnection | Tx, owner_id: str, path: str) -> None:
    """Refuse a file where a folder is, and a folder where a file is: no disk could hold both."""
    folders = ancestors(path)
    if folders:
        marks = ", ".join("?" * len(folders))
        row = reader.one(
            f"SELECT path FROM artifacts WHERE owner = ? AND path IN ({marks})",
            (owner_id, *folders),
        )
        if row is not None:
            raise InvalidInput(f"{row[0]!r} is a file, so nothing can be stored below it")
    if tree.is_folder(reader, owner_id, path):
        raise InvalidInput(f"{path!r} is a folder, so no file can be stored there")


def _record(
    tx: Tx, principal: Principal, owner: ArtifactOwner, path: str, stored: StoredBlob
) -> tuple[Artifact, str | None]:
    """Write the row and its event; return the artifact and the blob it replaces."""
    old = tx.one(
        "SELECT blob, sha256 FROM artifacts WHERE owner = ? AND path = ?" + tx.dialect.for_update,
        (owner.id, path),
    )
    # Another server process may have come between on PostgreSQL: the later one wins.
    tx.run(
        "INSERT INTO artifacts"
        " (team_id, experiment_id, owner, path, blob, size, sha256, created_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, path) DO UPDATE SET"
        " blob = excluded.blob, size = excluded.size, sha256 = excluded.sha256,"
        " created_ms = excluded.created_ms",
        (
            owner.team_id,
            owner.experiment_id,
            owner.id,
            path,
            stored.blob,
            stored.size,
            stored.sha256,
            tx.now_ms,
        ),
    )
    if old is None or old[1] != stored.sha256:
        # The same bytes again are a repeated request, not news.
        tx.event(
            "artifact.written",
            team_id=owner.team_id,
            actor=principal.name,
            subject=owner.kind,
            subject_id=owner.id,
            path=path,
            size=stored.size,
            sha256=stored.sha256,
        )
    artifact = Artifact(
        owner=owner.id,
        path=path,
        blob=stored.blob,
        size=stored.size,
        sha256=stored.sha256,
        created_ms=tx.now_ms,
    )
    return artifact, None if old is None else old[0]


def _remove(tx: Tx, principal: Principal, owner: ArtifactOwner, path: str) -> list[Row]:
    """Delete the rows of a file or of everything below a folder."""
    find_owner(tx, principal, owner.id)
    rows = tree.below(tx, owner.id, path)
    if not rows and path:
        raise NotFound(f"No such artifact: {path!r}")
    tx.many("DELETE FROM artifacts WHERE id = ?", [(row[0],) for row in rows])
    if rows:
        tx.event(
            "artifact.deleted",
            team_id=owner.team_id,
            actor=principal.name,
            subject=owner.kind,
            subject_id=owner.id,
            path=path,
            files=len(rows),
        )
    return rows
