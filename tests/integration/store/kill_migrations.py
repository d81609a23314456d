"""Kills a migration before each of its statements, one after the other, and prints what was left.

python kill_migrations.py URL MIGRATIONS: upgrades a prepared database by the migrations in that
folder. Each child is forked from this process, which has loaded everything, and dies by the
product's own crash point.
Prints a line of JSON for each kill: revision and schema before it, and after it.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401 - loaded before forking

from tests.integration.store.test_migrations import open_database, use_migrations
from trackyard.store import crashpoints, migrate
from trackyard.store.migrate import prepare

#: More than all migrations have.
MOST_STATEMENTS = 5000


def state(url: str) -> list[Any]:
    """Return revision, a count of rows and the schema, as facts that can be compared."""
    conn = open_database(url)
    try:
        if conn.dialect.name == "sqlite":
            shape = conn.all("SELECT name, sql FROM sqlite_master ORDER BY name")
        else:
            shape = conn.all(
                "SELECT table_name, column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = 'public' ORDER BY 1, 2"
            ) + conn.all("SELECT indexname, indexdef FROM pg_indexes ORDER BY 1")
        revision = conn.one("SELECT version_num FROM alembic_version")
        rows = conn.one("SELECT count(*) FROM teams")
    finally:
        conn.close()
    assert revision is not None
    assert rows is not None
    digest = hashlib.sha256(json.dumps(shape).encode()).hexdigest()
    return [revision[0], rows[0], digest]


def killed_at(url: str, statement: int) -> bool:
    """Migrate in a child that dies before a statement; tell whether it got that far."""
    child = os.fork()
    if child == 0:
        crashpoints.ARMED = True
        crashpoints._point, crashpoints._detail, crashpoints._left = (
            "migration-statement",
            "",
            statement,
        )
        try:
            prepare(url)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(url: str, migrations: str) -> None:
    use_migrations(Path(migrations))
    before, statement = state(url), 1
    for _ in range(MOST_STATEMENTS):
        was_killed = killed_at(url, statement)
        after = state(url)
        print(json.dumps({"statement": statement, "before": before, "after": after}), flush=True)
        if not was_killed:
            break
        # A migration that was finished before the kill stays; count on from there.
        statement = 1 if after[0] != before[0] else statement + 1
        before = after
    assert state(url)[0] == migrate.HEAD, f"ended at {state(url)[0]}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
