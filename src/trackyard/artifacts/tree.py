"""The tree that paths form: children of a folder, all below it, sums. Owns reading by prefix.

Folders are not stored: a path with more segments makes them. Order is by bytes on both databases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trackyard.artifacts.paths import ancestors, client_spelling
from trackyard.store.connection import Dialect, Row
from trackyard.store.database import ReadConnection, Tx

#: Rows fetched at a time; a folder of many files costs one query for each so many.
_PAGE = 1000
#: Names with a percent sign that are looked through for one a client has respelled.
_SPELLINGS = 20_000
#: The character after `/`: everything below `a/` sorts from `a/` up to, not including, `a0`.
_AFTER_SLASH = "0"


class TreeEntry(NamedTuple):
    """A file or folder directly below a folder."""

    #: path from the owner's root
    path: str
    is_dir: bool
    #: None for a folder
    size: int | None

    @property
    def name(self) -> str:
        """Return the last segment."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSize:
    """How much an owner holds."""

    files: int = 0
    total_bytes: int = 0


def children(reader: ReadConnection | Tx, owner_id: str, folder: str) -> list[TreeEntry]:
    """Return what lies directly below a folder, skipping over what lies deeper."""
    prefix = f"{folder}/" if folder else ""
    end = f"{folder}{_AFTER_SLASH}" if folder else None
    start = prefix
    found: list[TreeEntry] = []
    while True:
        rows = _page(reader, owner_id, start, end)
        for path, size in rows:
            if path < start:
                continue
            end_of_name = path.find("/", len(prefix))
            if end_of_name < 0:
                found.append(TreeEntry(path, False, size))
                start = path + "\x01"
            else:
                found.append(TreeEntry(path[:end_of_name], True, None))
                start = path[:end_of_name] + _AFTER_SLASH
        if len(rows) < _PAGE:
            return _by_name(found)


def below(reader: ReadConnection | Tx, owner_id: str, path: str) -> list[Row]:
    """Return id and blob of the file at a path and of every file below it."""
    if not path:
        return reader.all("SELECT id, blob FROM artifacts WHERE owner = ?", (owner_id,))
    column = _column(reader.dialect)
    return reader.all(
        "SELECT id, blob FROM artifacts WHERE owner = ? AND path = ?"
        f" UNION ALL SELECT id, blob FROM artifacts WHERE owner = ? AND {column} >= ?"
        f" AND {column} < ?",
        (owner_id, path, owner_id, f"{path}/", f"{path}{_AFTER_SLASH}"),
    )


def files(
    reader: ReadConnection | Tx, owner_id: str, after: str, most: int, columns: str
) -> list[Row]:
    """Return files of an owner in the order of their paths, from the one after a path."""
    column = _column(reader.dialect)
    return reader.all(
        f"SELECT {columns} FROM artifacts WHERE owner = ? AND {column} > ?"
        f" ORDER BY {column} LIMIT ?",
        (owner_id, after, most),
    )


def is_folder(reader: ReadConnection | Tx, owner_id: str, path: str) -> bool:
    """Tell whether anything lies below a path."""
    column = _column(reader.dialect)
    row = reader.one(
        f"SELECT 1 FROM artifacts WHERE owner = ? AND {column} >= ? AND {column} < ? LIMIT 1",
        (owner_id, f"{path}/", f"{path}{_AFTER_SLASH}"),
    )
    return row is not None


def exists(reader: ReadConnection | Tx, owner_id: str, path: str) -> bool:
    """Tell whether a path is a file or a folder; the root is one once it holds anything."""
    if not path:
        return (
            reader.one("SELECT 1 FROM artifacts WHERE owner = ? LIMIT 1", (owner_id,)) is not None
        )
    row = reader.one("SELECT 1 FROM artifacts WHERE owner = ? AND path = ?", (owner_id, path))
    return row is not None or is_folder(reader, owner_id, path)


def find_spelling(reader: ReadConnection | Tx, owner_id: str, wanted: str) -> str | None:
    """Return the file or folder that stock clients call by this name, or None."""
    rows = reader.all(
        "SELECT path FROM artifacts WHERE owner = ? AND path LIKE ? ESCAPE '!'"
        f" LIMIT {_SPELLINGS}",
        (owner_id, "%!%%"),
    )
    for row in rows:
        path: str = row[0]
        for candidate in (*ancestors(path), path):
            if client_spelling(candidate) == wanted:
                return candidate
    return None


def sizes(reader: ReadConnection | Tx, owner_ids: list[str]) -> dict[str, StoredSize]:
    """Return files and bytes per owner, none for an owner that holds nothing."""
    found = {owner_id: StoredSize() for owner_id in owner_ids}
    for at in range(0, len(owner_ids), _PAGE):
        wanted = owner_ids[at : at + _PAGE]
        marks = ", ".join("?" * len(wanted))
        for owner_id, files, total in reader.all(
            "SELECT owner, COUNT(*), SUM(size) FROM artifacts"
            f" WHERE owner IN ({marks}) GROUP BY owner",
            wanted,
        ):
            found[owner_id] = StoredSize(files=files, total_bytes=int(total))
    return found


def _page(reader: ReadConnection | Tx, owner_id: str, start: str, end: str | None) -> list[Row]:
    column = _column(reader.dialect)
    bound = f" AND {column} < ?" if end is not None else ""
    return reader.all(
        f"SELECT path, size FROM artifacts WHERE owner = ? AND {column} >= ?{bound}"
        f" ORDER BY {column} LIMIT {_PAGE}",
        (owner_id, start) if end is None else (owner_id, start, end),
    )


def _column(dialect: Dialect) -> str:
    """Return the path column, compared byte by byte whatever the database's locale."""
    return "path" if dialect.name == "sqlite" else 'path COLLATE "C"'


def _by_name(entries: list[TreeEntry]) -> list[TreeEntry]:
    return sorted(entries, key=lambda entry: entry.path)
