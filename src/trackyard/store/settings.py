"""Values that the servers of one database share, by key. Owns the table `settings`; what a key
means is its writer's business.
"""

from __future__ import annotations

from trackyard.store.database import ReadConnection, Tx


def setting(reader: ReadConnection | Tx, key: str) -> str | None:
    """Return the value of a key, or None."""
    row = reader.one("SELECT value FROM settings WHERE key = ?", (key,))
    return None if row is None else str(row[0])


def keep_setting(tx: Tx, key: str, value: str) -> None:
    """Give a key a value, whatever it had."""
    tx.run(
        "INSERT INTO settings (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def keep_first_setting(tx: Tx, key: str, value: str) -> None:
    """Give a key a value unless it has one."""
    tx.run(
        "INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING",
        (key, value),
    )
