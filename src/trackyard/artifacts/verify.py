"""Reading stored files back and comparing them with their digests, a slice at a time. Owns what
is read and how a bad file is named; knows no HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from trackyard.artifacts.blobs import BlobFault, BlobStore, checked
from trackyard.core.errors import InvalidInput
from trackyard.store.database import Database, ReadConnection

#: Files looked up at a time.
_PAGE = 200
_ARTIFACT, _PACKAGE, _DATA = "artifact", "package", "data"
#: Tables in the order they are walked.
_TABLES = {_ARTIFACT: "artifacts", _PACKAGE: "packages", _DATA: "data_packs"}
_PLACE = re.compile(r"(artifact:[0-9]{1,18}|(package|data):[0-9a-f]{0,32})\Z")
_QUERIES = {
    _ARTIFACT: "SELECT id, owner, path, blob, size, sha256 FROM artifacts"
    f" WHERE id > ? ORDER BY id LIMIT {_PAGE}",
    _PACKAGE: "SELECT blob, digest, format, blob, size, digest FROM packages"
    f" WHERE blob > ? ORDER BY blob LIMIT {_PAGE}",
    _DATA: "SELECT blob, 'data sets', blob, blob, size, sha256 FROM data_packs"
    f" WHERE blob > ? ORDER BY blob LIMIT {_PAGE}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file that the database names."""

    #: `artifact`, `package` of a job, or `data` of data sets
    kind: str
    #: where this file stands in the walk
    place: str
    #: run or logged model that holds it, or the package's digest
    owner: str
    path: str
    blob: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFile:
    """A file whose bytes are gone or changed."""

    file: NamedFile
    what: str


@dataclass(slots=True, kw_only=True)
class VerifySlice:
    """What one call read, and where the next one goes on."""

    files: int = 0
    total_bytes: int = 0
    bad: list[BadFile] = field(default_factory=list)
    next_place: str | None = None


async def check_files(
    database: Database, blobs: BlobStore, *, after: str = "", seconds: float
) -> VerifySlice:
    """Read files from a place on for about so many seconds and name each that is damaged."""
    found = VerifySlice()
    until = database.clock.monotonic() + seconds
    place: str | None = after or f"{_ARTIFACT}:0"
    while place is not None:
        page, place = await _page(database, place)
        for file in page:
            what = await _fault_of(blobs, file)
            if what is not None and await database.read(partial(_is_there, file=file)):
                found.bad.append(BadFile(file=file, what=what))
            found.files += 1
            found.total_bytes += file.size
            if database.clock.monotonic() >= until:
                found.next_place = file.place
                return found
    return found


async def check_all_files(database: Database, blobs: BlobStore) -> VerifySlice:
    """Read every file."""
    return await check_files(database, blobs, seconds=float("inf"))


async def _page(database: Database, place: str) -> tuple[list[NamedFile], str | None]:
    """Return the files after a place, and from where to go on; None at the end."""
    kind, _, key = place.partition(":")
    if _PLACE.match(place) is None:
        raise InvalidInput("`after` is not a place in this walk; begin without it")
    parameter = int(key) if kind == _ARTIFACT else key
    rows = await database.read(
        lambda reader: reader.all(_QUERIES[kind], (parameter,)), seconds=None
    )
    files = [
        NamedFile(
            kind=kind,
            place=f"{kind}:{row[0]}",
            owner=row[1],
            path=row[2],
            blob=row[3],
            size=row[4],
            sha256=row[5],
        )
        for row in rows
    ]
    if len(rows) == _PAGE:
        return files, files[-1].place
    kinds = list(_TABLES)
    following = kinds[kinds.index(kind) + 1 :]
    return files, f"{following[0]}:" if following else None


async def _fault_of(blobs: BlobStore, file: NamedFile) -> str | None:
    """Return what is wrong with a file's bytes, or None."""
    changed = BlobFault("its bytes are not those that were stored")
    try:
        async for _ in checked(blobs.read(file.blob, 0, file.size), file.sha256, changed):
            pass
    except BlobFault as fault:
        return fault.message
    return None


def _is_there(reader: ReadConnection, file: NamedFile) -> bool:
    """Tell whether the file was not replaced or deleted while it was read."""
    sql = f"SELECT 1 FROM {_TABLES[file.kind]} WHERE blob = ?"
    return reader.one(sql, (file.blob,)) is not None
