"""Packages: working folders as archives, named by what they hold, kept per team.

Owns the limit and the check of the digest. The bytes lie in the artifact store under an opaque
name; nothing is ever unpacked here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from trackyard.access.principal import Principal
from trackyard.artifacts.blobs import BlobStore
from trackyard.core.errors import InvalidInput, NotFound, TooLarge
from trackyard.core.ports import DIGEST
from trackyard.queue.records import load_spec
from trackyard.store.database import Database, ReadConnection, Tx

LIMIT_BYTES = 100 * 1024**2
#: of packages by Ray clients: the most that Ray itself would hold
RAY_LIMIT_BYTES = 512 * 1024**2
FORMATS = ("zip", "tar", "tar.gz")


class PackageRow(NamedTuple):
    """A package of a team."""

    digest: str
    blob: str
    size: int
    format: str
    user_name: str
    created_ms: int


def find_package(reader: ReadConnection | Tx, team_id: int, digest: str) -> PackageRow | None:
    """Return a team's package."""
    row = reader.one(
        "SELECT digest, blob, size, format, user_name, created_ms FROM packages"
        " WHERE team_id = ? AND digest = ?",
        (team_id, digest),
    )
    return None if row is None else PackageRow(*row)


def check_digest(digest: str) -> None:
    """Refuse what is no digest before it is used for anything."""
    if not DIGEST.match(digest):
        raise InvalidInput("a package is named by its SHA-256: 64 hex digits, lower case")


def require_package(reader: ReadConnection | Tx, principal: Principal, digest: str) -> PackageRow:
    """Return a package that was uploaded, or say how to upload it."""
    found = find_package(reader, principal.team_id, digest)
    if found is None:
        raise InvalidInput(
            f"package {digest[:12]}… is not here: upload it first with PUT"
            f" /api/v1/packages/{digest}"
        )
    return found


class Packages:
    """Uploads and reads packages."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._db = database
        self._blobs = blobs

    async def put(
        self,
        principal: Principal,
        digest: str,
        pieces: AsyncIterator[bytes],
        *,
        length: int | None,
        format_: str,
    ) -> tuple[PackageRow, bool]:
        """Store a package whose bytes are what its name says; tell whether it is new."""
        check_digest(digest)

        def check(found: str) -> None:
            if found != digest:
                raise InvalidInput(
                    f"the bytes have digest {found[:12]}…, not {digest[:12]}…: the upload was"
                    " damaged or misnamed; nothing was kept"
                )

        return await self.take(principal, pieces, length=length, format_=format_, check=check)

    async def take(
        self,
        principal: Principal,
        pieces: AsyncIterator[bytes],
        *,
        length: int | None,
        format_: str,
        limit: int = LIMIT_BYTES,
        check: Callable[[str], None] = lambda _digest: None,
        also: Callable[[Tx, PackageRow], None] = lambda _tx, _row: None,
    ) -> tuple[PackageRow, bool]:
        """Store a package under the digest of its bytes, which `check` may still refuse."""
        if format_ not in FORMATS:
            raise InvalidInput(f"a package is one of {', '.join(FORMATS)}, not {format_[:20]!r}")
        if length is not None and length > limit:
            raise _too_large(limit)
        stored = await self._blobs.write(_bounded(pieces, limit), length=length)
        digest = stored.sha256
        try:
            check(digest)
        except InvalidInput:
            await self._blobs.delete([stored.blob])
            raise

        def record(tx: Tx) -> PackageRow:
            row = find_package(tx, principal.team_id, digest) or insert(tx)
            also(tx, row)
            return row

        def insert(tx: Tx) -> PackageRow:
            tx.run(
                "INSERT INTO packages (team_id, digest, blob, size, format, user_name, created_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (team_id, digest) DO NOTHING",
                (
                    principal.team_id,
                    digest,
                    stored.blob,
                    stored.size,
                    format_,
                    principal.name,
                    tx.now_ms,
                ),
            )
            tx.event(
                "package.uploaded",
                team_id=principal.team_id,
                actor=principal.name,
                subject="package",
                subject_id=digest,
                size_bytes=stored.size,
            )
            found = find_package(tx, principal.team_id, digest)
            assert found is not None
            return found

        row = await self._db.write(record)
        if row.blob != stored.blob:
            await self._blobs.delete([stored.blob])
        return row, row.blob == stored.blob

    async def open(self, principal: Principal, digest: str) -> PackageRow:
        """Return a package the caller may read: a user's team, or the one of an attempt's job."""
        check_digest(digest)
        found = await self._db.peek(lambda reader: _readable(reader, principal, digest))
        if found is None:
            raise NotFound(f"no package {digest[:12]}… in team {principal.team}")
        return found

    def read(self, package: PackageRow) -> AsyncIterator[bytes]:
        """Yield a package's bytes."""
        return self._blobs.read(package.blob, 0, package.size)


def _readable(reader: ReadConnection, principal: Principal, digest: str) -> PackageRow | None:
    if principal.scope is not None:
        row = reader.one(
            "SELECT j.spec_id FROM jobs j JOIN attempts a ON a.job = j.id WHERE a.attempt_id = ?",
            (principal.scope.attempt_id,),
        )
        if row is None or digest not in load_spec(reader, row[0]).digests:
            return None
    return find_package(reader, principal.team_id, digest)


async def _bounded(pieces: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    seen = 0
    async for piece in pieces:
        seen += len(piece)
        if seen > limit:
            raise _too_large(limit)
        yield piece


def _too_large(limit: int) -> TooLarge:
    ignore = ".yardignore" if limit == LIMIT_BYTES else ".rayignore"
    return TooLarge(
        f"a package may have {limit // 1024**2} MiB: leave data out of the working folder"
        f" with {ignore}, or read it from a shared place"
    )
