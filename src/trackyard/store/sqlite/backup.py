"""A consistent copy of a live SQLite database. Owns how the copy is made and what is left out of
it; knows no HTTP and no blob store.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trackyard.core.errors import InvalidInput
from trackyard.store.faults import explain_write

_PAGE = 1000
_PIECE = 1024 * 1024
#: What must not come back to life: open sessions, unused sign-in codes, uploads under way.
_LEFT_OUT = (
    "DELETE FROM sessions",
    "DELETE FROM signins",
    "DELETE FROM artifacts WHERE owner IN (SELECT 'upload:' || id FROM uploads)",
    "DELETE FROM uploads",
)
#: Each blob once, with the first of the objects that it belongs to.
_NAMED = (
    "SELECT blob, size, sha256, owner, path FROM artifacts WHERE blob {0} ? UNION ALL"
    " SELECT blob, size, digest, 'package', digest FROM packages WHERE blob {0} ? UNION ALL"
    " SELECT blob, size, sha256, 'data', blob FROM data_packs WHERE blob {0} ?"
)
_BLOBS = (
    "SELECT blob, max(size), max(sha256), min(owner), min(path)"
    f" FROM ({_NAMED.format('>')}) GROUP BY blob ORDER BY blob LIMIT ?"
)
_COMPLAINTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCopy:
    """A copy of the database, at rest."""

    path: Path
    size: int
    sha256: str
    #: schema version of the copy
    schema: str
    #: id of the last event in the copy: everything up to it is there, nothing after it
    mark: int
    files: int
    file_bytes: int
    #: what SQLite finds wrong with the copy, and so with the database itself
    damage: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRow:
    """One blob that the copy refers to."""

    blob: str
    size: int
    sha256: str
    #: run or logged model and path, `package` and digest, or `data` of data sets
    owner: str
    path: str


def snapshot(url: str, target: Path) -> DatabaseCopy:
    """Copy the database at `url` to a file while it is in use; all of one moment, or a fault."""
    if not url.startswith("sqlite:///"):
        raise InvalidInput(
            "this server keeps its state in PostgreSQL, which has its own tool: run `pg_dump"
            " --format=custom --file=trackyard.dump DATABASE` first, then copy the artifacts"
        )
    source = sqlite3.connect(f"file:{url[len('sqlite:///') :]}?mode=ro", uri=True, timeout=20.0)
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        # All pages in one step: a read transaction, beside which the writer goes on.
        source.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.execute("BEGIN")
        for statement in _LEFT_OUT:
            copy.execute(statement)
        copy.execute("COMMIT")
        schema = copy.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        mark = copy.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0]
        sizes = [row.size for row in _every_blob(copy)]
        damage = _damage(copy)
    except sqlite3.DatabaseError as fault:
        raise explain_write(fault) from fault
    finally:
        copy.close()
        source.close()
    return DatabaseCopy(
        path=target,
        size=target.stat().st_size,
        sha256=_digest(target),
        schema=str(schema),
        mark=mark,
        files=len(sizes),
        file_bytes=sum(sizes),
        damage=damage,
    )


def blobs_after(path: Path, after: str, limit: int = _PAGE) -> list[BlobRow]:
    """Return blobs that a copy refers to, in the order of their ids."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as copy:
        rows = copy.execute(_BLOBS, (after, after, after, limit)).fetchall()
    copy.close()
    return [_row(row) for row in rows]


def find_blob(path: Path, blob: str) -> BlobRow | None:
    """Return a blob if the copy refers to it."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as copy:
        row = copy.execute(_NAMED.format("="), (blob, blob, blob)).fetchone()
    copy.close()
    return None if row is None else _row(row)


def _row(row: tuple[str, int, str, str, str]) -> BlobRow:
    return BlobRow(blob=row[0], size=row[1], sha256=row[2], owner=row[3], path=row[4])


def _damage(copy: sqlite3.Connection) -> list[str]:
    rows = copy.execute(f"PRAGMA integrity_check({_COMPLAINTS})").fetchall()
    words = [" ".join(str(row[0]).split()) for row in rows]
    return [] if words == ["ok"] else words


def _every_blob(copy: sqlite3.Connection) -> Iterator[BlobRow]:
    after = ""
    while True:
        rows = copy.execute(_BLOBS, (after, after, after, _PAGE)).fetchall()
        for row in rows:
            after = row[0]
            yield _row(row)
        if len(rows) < _PAGE:
            return


def _digest(path: Path) -> str:
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sha256.update(piece)
    return sha256.hexdigest()
