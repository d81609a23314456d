"""The dictionary of metric, parameter and tag names. Owns `names`; a name's id never changes."""

from __future__ import annotations

from collections.abc import Iterable

from trackyard.store.database import Database, ReadConnection, Tx


class Names:
    """Maps names to ids, with a cache that outlives transactions but not an undone one."""

    def __init__(self, database: Database) -> None:
        self._ids: dict[str, int] = {}
        database.undo_hooks.append(self._ids.clear)

    def id(self, tx: Tx, name: str) -> int:
        """Return the id of a name, making one if it is new."""
        known = self._ids.get(name)
        if known is not None:
            return known
        row = tx.one("SELECT id FROM names WHERE name = ?", (name,))
        if row is None:
            tx.run("INSERT INTO names (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (name,))
            row = tx.one("SELECT id FROM names WHERE name = ?", (name,))
            assert row is not None
        self._ids[name] = row[0]
        found: int = row[0]
        return found

    def known(self, name: str) -> int | None:
        """Return the id of a name that was looked up before, without looking."""
        return self._ids.get(name)

    def ids(self, tx: Tx, names: Iterable[str]) -> list[int]:
        """Return the ids of several names."""
        return [self.id(tx, name) for name in names]

    def find(self, reader: ReadConnection, name: str) -> int | None:
        """Return the id of a name that exists, without making one."""
        known = self._ids.get(name)
        if known is None:
            row = reader.one("SELECT id FROM names WHERE name = ?", (name,))
            known = row[0] if row else None
        return known
