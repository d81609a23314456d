"""What the only writer of an SQLite file may know without looking: the next key of a table.

Owns noticing that it is not the only one. Knows no transaction and no journal.
"""

from __future__ import annotations

from trackyard.store.connection import DatabaseConnection

#: Tables whose keys are given out here, since rows may wait in the journal before they are there.
TABLES = ("runs", "events")


class SoleWriter:
    """Keys in order, and the file's version as this writer left it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._version: int | None = None

    def learn(self, conn: DatabaseConnection) -> None:
        """Read which keys were given out, once every row is in its table."""
        for table in TABLES:
            row = conn.one(f"SELECT max(id) FROM {table}")
            self._ids[table] = (row[0] if row is not None else None) or 0
        row = conn.one("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        self._ids["events"] = max(self._ids["events"], row[0] if row is not None else 0)
        self._version = _version(conn)

    def new_id(self, table: str) -> int:
        """Return the next key of a table; a key of an undone transaction is not used again."""
        self._ids[table] += 1
        return self._ids[table]

    def was_alone(self, conn: DatabaseConnection) -> bool:
        """Tell whether no other process has written to the file since this was last learned."""
        return _version(conn) == self._version

    def doubt(self) -> None:
        """Have the next look find out anew."""
        self._version = None


def _version(conn: DatabaseConnection) -> int:
    """Return a number that changes when another connection has written to the file."""
    row = conn.one("PRAGMA data_version")
    return int(row[0]) if row is not None else 0
