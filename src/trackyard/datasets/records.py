"""Rows of data sets and their versions, and how a reference finds one. Owns `data_sets` and
`data_versions`; knows neither bytes nor who asks.
"""

from __future__ import annotations

from typing import NamedTuple

from trackyard.core.dataset import DatasetReference, parse_reference
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.store.database import ReadConnection, Tx


class DatasetVersionRow(NamedTuple):
    """A version of a data set."""

    id: int
    name: str
    version: int
    digest: str
    manifest_blob: str
    manifest_bytes: int
    files: int
    size_bytes: int
    layout: str
    #: JSON: split -> class -> files
    classes: str
    source: str
    user_name: str
    created_ms: int
    used_ms: int

    @property
    def label(self) -> str:
        """Return the version as it is written: `NAME@vN`."""
        return f"{self.name}@v{self.version}"


_COLUMNS = (
    "v.id, s.name, v.version, v.digest, v.manifest_blob, v.manifest_bytes, v.files, v.size_bytes,"
    " v.layout, v.classes, v.source, v.user_name, v.created_ms, v.used_ms"
)
_FROM = f"SELECT {_COLUMNS} FROM data_versions v JOIN data_sets s ON s.id = v.data_set_id"


def read_reference(text: str) -> DatasetReference:
    """Read `NAME@VERSION`, or refuse it in the caller's words."""
    try:
        return parse_reference(text)
    except ValueError as fault:
        raise InvalidInput(str(fault)) from fault


def find_version(
    reader: ReadConnection | Tx, team_id: int, reference: DatasetReference
) -> DatasetVersionRow:
    """Return the version that a reference means: the newest unless it says which."""
    where, params = "s.team_id = ? AND s.name = ?", [team_id, reference.name]
    if reference.version:
        where += " AND v.version = ?"
        params.append(reference.version)
    elif reference.digest:
        where += " AND v.digest >= ? AND v.digest < ?"
        params += [reference.digest, reference.digest + "g"]
    rows = reader.all(f"{_FROM} WHERE {where} ORDER BY v.version DESC LIMIT 2", params)
    if reference.digest and len(rows) > 1:
        raise InvalidInput(
            f"{reference.digest} matches several digests of {reference.name}: write more of it"
        )
    if rows:
        return DatasetVersionRow(*rows[0])
    known = versions_of(reader, team_id, reference.name, most=1)
    if not known:
        raise NotFound(
            f"no data set {reference.name!r}; `yard data list` shows those that exist, `yard data"
            f" add {reference.name} FOLDER` makes it"
        )
    wanted = f"v{reference.version}" if reference.version else reference.digest
    raise NotFound(
        f"data set {reference.name} has no version {wanted}; its newest is v{known[0].version},"
        f" `yard data show {reference.name}` lists them"
    )


def versions_of(
    reader: ReadConnection | Tx, team_id: int, name: str, *, most: int = 1000
) -> list[DatasetVersionRow]:
    """Return a data set's versions, the newest first."""
    rows = reader.all(
        f"{_FROM} WHERE s.team_id = ? AND s.name = ? ORDER BY v.version DESC LIMIT ?",
        (team_id, name, most),
    )
    return [DatasetVersionRow(*row) for row in rows]


def newest_versions(
    reader: ReadConnection | Tx, team_id: int, *, after: str, most: int
) -> list[DatasetVersionRow]:
    """Return the newest version of each data set, by name."""
    rows = reader.all(
        f"{_FROM} WHERE s.team_id = ? AND s.name > ? AND v.version ="
        " (SELECT max(w.version) FROM data_versions w WHERE w.data_set_id = s.id)"
        " ORDER BY s.name LIMIT ?",
        (team_id, after, most),
    )
    return [DatasetVersionRow(*row) for row in rows]


def all_versions(reader: ReadConnection | Tx, team_id: int) -> list[DatasetVersionRow]:
    """Return every version of a team, the least recently used first."""
    rows = reader.all(f"{_FROM} WHERE s.team_id = ? ORDER BY v.used_ms, v.id", (team_id,))
    return [DatasetVersionRow(*row) for row in rows]


def version_counts(reader: ReadConnection | Tx, team_id: int) -> dict[str, tuple[int, int]]:
    """Return how many versions each data set has, and the sum of their sizes."""
    rows = reader.all(
        "SELECT s.name, count(*), sum(v.size_bytes) FROM data_versions v"
        " JOIN data_sets s ON s.id = v.data_set_id WHERE s.team_id = ? GROUP BY s.name",
        (team_id,),
    )
    return {row[0]: (int(row[1]), int(row[2])) for row in rows}


def by_digest(reader: ReadConnection | Tx, team_id: int, digest: str) -> DatasetVersionRow | None:
    """Return the newest version with a digest, whatever its data set."""
    row = reader.one(
        f"{_FROM} WHERE v.team_id = ? AND v.digest = ? ORDER BY v.id DESC LIMIT 1",
        (team_id, digest),
    )
    return None if row is None else DatasetVersionRow(*row)


def insert_version(
    tx: Tx,
    *,
    team_id: int,
    name: str,
    user_name: str,
    facts: dict[str, object],
) -> tuple[DatasetVersionRow, bool]:
    """Insert a version, or return the one with the same content; say whether it is new."""
    tx.run(
        "INSERT INTO data_sets (team_id, name, user_name, created_ms, last_version)"
        " VALUES (?, ?, ?, ?, 0) ON CONFLICT (team_id, name) DO NOTHING",
        (team_id, name, user_name, tx.now_ms),
    )
    row = tx.one(
        "SELECT id, last_version FROM data_sets WHERE team_id = ? AND name = ?"
        f"{tx.dialect.for_update}",
        (team_id, name),
    )
    assert row is not None
    known = tx.one(
        "SELECT version FROM data_versions WHERE data_set_id = ? AND digest = ?",
        (row[0], facts["digest"]),
    )
    if known is None:
        columns = {
            "data_set_id": row[0],
            "team_id": team_id,
            "version": row[1] + 1,
            **facts,
            "user_name": user_name,
            "created_ms": tx.now_ms,
            "used_ms": tx.now_ms,
        }
        marks = ", ".join("?" * len(columns))
        tx.run(
            f"INSERT INTO data_versions ({', '.join(columns)}) VALUES ({marks})",
            tuple(columns.values()),
        )
        tx.run("UPDATE data_sets SET last_version = ? WHERE id = ?", (row[1] + 1, row[0]))
    version = row[1] + 1 if known is None else known[0]
    return find_version(tx, team_id, DatasetReference(name=name, version=version)), known is None


def delete_version(tx: Tx, version: DatasetVersionRow) -> None:
    """Remove a version's row and what refers to it; the data set goes with its last version."""
    tx.run("DELETE FROM data_uses WHERE version_id = ?", (version.id,))
    row = tx.one("SELECT data_set_id FROM data_versions WHERE id = ?", (version.id,))
    tx.run("DELETE FROM data_versions WHERE id = ?", (version.id,))
    if row is not None:
        left = tx.one("SELECT 1 FROM data_versions WHERE data_set_id = ? LIMIT 1", (row[0],))
        if left is None:
            tx.run("DELETE FROM data_sets WHERE id = ?", (row[0],))


def note_used(tx: Tx, version_ids: list[int]) -> None:
    """Record that versions are in use."""
    tx.many(
        "UPDATE data_versions SET used_ms = ? WHERE id = ?",
        [(tx.now_ms, version) for version in version_ids],
    )
