"""What a backup holds and a server does not. Owns which rows are compared and by what; knows the
tables of a backup's database, but no server code.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from trackyard.cli.server.backup_folder import write_file
from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.errors import SetupError

_BASE = "/api/v1/admin/backups"
#: Rows that come and go by themselves, and metric points, which move from one table to another.
_MOVING = frozenset(
    (
        "alembic_version",
        "journal",
        "leaders",
        "metric_blocks",
        "metric_log",
        "replies",
        "sessions",
        "settings",
        "signins",
        "sqlite_sequence",
        "sqlite_stat1",
        "uploads",
    )
)
#: What must be equal besides the key.
_ALSO = {
    "artifacts": ("owner", "path", "sha256"),
    "events": ("kind", "subject_id"),
    "params": ("value",),
    "runs": ("uuid",),
}
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Missing:
    """A row of the backup that the server does not have, or has otherwise."""

    table: str
    row: str


def fetch_copy(api: Api, target: Path) -> int:
    """Fetch a copy of the server's database; return the id of the last event in it."""
    info = api.post(_BASE)
    try:
        _, sha256 = write_file(target, api.download(f"{_BASE}/{info['id']}/database"))
    finally:
        with contextlib.suppress(ApiFault, Unreachable):
            api.call("DELETE", f"{_BASE}/{info['id']}")
    if sha256 != info["database_sha256"]:
        raise SetupError("the copy of the database did not arrive whole", hint="try again")
    return int(info["mark"])


def missing_rows(backup: Path, live: Path) -> list[Missing]:
    """Return rows of a backup that are not in a copy of a server's database."""
    found: list[Missing] = []
    with contextlib.closing(sqlite3.connect(f"file:{live}?mode=ro", uri=True)) as conn:
        conn.execute("ATTACH ? AS backup", (f"file:{backup}?mode=ro",))
        for table in _tables(conn):
            columns = ", ".join(_columns(conn, table))
            if not columns:
                continue
            query = f"SELECT {columns} FROM backup.{table} EXCEPT SELECT {columns} FROM {table}"
            rows = conn.execute(f"{query} LIMIT {_SHOWN}")
            found.extend(Missing(table, " ".join(str(value) for value in row)) for row in rows)
    return found


def _tables(conn: sqlite3.Connection) -> list[str]:
    """Return the tables to compare: those of the backup that the server still knows."""
    both = (
        "SELECT name FROM backup.sqlite_master WHERE type = 'table' INTERSECT"
        " SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name"
    )
    return [name for (name,) in conn.execute(both) if name not in _MOVING]


def _columns(conn: sqlite3.Connection, table: str) -> list[str]:
    keys = [row[1] for row in conn.execute(f"PRAGMA backup.table_info({table})") if row[5]]
    return [*keys, *_ALSO.get(table, ())]
