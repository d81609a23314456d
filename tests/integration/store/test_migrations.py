"""The migrations end where the schema stands, on both databases; newer ones are refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect

from tools.fresh_schema import render
from trackyard.core.errors import SetupError
from trackyard.store.connection import PostgresConnection, SqliteConnection
from trackyard.store.migrate import FRESH_SQLITE, HEAD, MIGRATIONS, prepare, sqlalchemy_url
from trackyard.store.schema import metadata

ROOT = Path(__file__).resolve().parents[3]


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", sqlalchemy_url(url).replace("%", "%%"))
    return config


def _shape(url: str) -> dict[str, object]:
    """Return tables, columns, keys and indexes as comparable facts."""
    engine = create_engine(sqlalchemy_url(url))
    found = inspect(engine)
    shape = {
        table: (
            [
                (c["name"], str(c["type"]), c["nullable"], bool(c.get("autoincrement")))
                for c in found.get_columns(table)
            ],
            sorted(found.get_pk_constraint(table)["constrained_columns"]),
            sorted((i["name"], tuple(i["column_names"])) for i in found.get_indexes(table)),
            sorted(tuple(u["column_names"]) for u in found.get_unique_constraints(table)),
            sorted(
                (tuple(f["constrained_columns"]), f["referred_table"])
                for f in found.get_foreign_keys(table)
            ),
        )
        for table in found.get_table_names()
        if table != "alembic_version"
    }
    engine.dispose()
    return shape


def _open(url: str) -> SqliteConnection | PostgresConnection:
    if url.startswith("sqlite"):
        return SqliteConnection(Path(url[len("sqlite:///") :]))
    return PostgresConnection(url)


def _empty(url: str) -> None:
    """Drop everything."""
    conn = _open(url)
    if url.startswith("sqlite"):
        conn.run("PRAGMA foreign_keys=OFF")
        for table in [*metadata.tables, "alembic_version"]:
            conn.run(f"DROP TABLE {table}")
    else:
        conn.run("DROP SCHEMA public CASCADE")
        conn.run("CREATE SCHEMA public")
    conn.close()


def test_head_is_the_last_migration() -> None:
    """The version the server asks for is the one the folder ends at."""
    assert ScriptDirectory.from_config(_config("sqlite://")).get_current_head() == HEAD


def test_migrations_end_at_the_schema(database_url: str) -> None:
    """An upgraded database and a fresh one have the same tables, keys and indexes."""
    fresh = _shape(database_url)
    assert set(fresh) == set(metadata.tables)
    _empty(database_url)
    command.upgrade(_config(database_url), "head")
    assert _shape(database_url) == fresh


def test_the_fresh_schema_is_the_schema() -> None:
    """The SQL of a first start is what the tool writes from the schema."""
    assert FRESH_SQLITE.read_text() == render(), "run `python tools/fresh_schema.py`"


def test_preparing_twice_changes_nothing(database_url: str) -> None:
    """A current database is left alone."""
    before = _shape(database_url)
    prepare(database_url)
    assert _shape(database_url) == before


def test_a_newer_schema_is_refused(database_url: str) -> None:
    """A database that a later release wrote is not touched, and the remedy is told."""
    conn = _open(database_url)
    conn.run("UPDATE alembic_version SET version_num = '9999'")
    conn.close()
    with pytest.raises(SetupError, match="9999") as refused:
        prepare(database_url)
    assert "upgrade" in (refused.value.hint or "")


def test_an_upgrade_killed_before_any_statement_leaves_a_whole_schema(database_url: str) -> None:
    """Killed at each statement in turn, what is there is one of the schemas, with all its rows;
    the next start goes on from it, and at the end it is the newest.
    """
    fresh = _shape(database_url)
    _empty(database_url)
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.store.kill_migrations", database_url, "0001"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    known: dict[str, object] = {}
    for kill in kills:
        for revision, rows, shape in (kill["before"], kill["after"]):
            assert rows == 1, "a row is lost"
            # One revision has one shape, however often its migration was cut short.
            assert known.setdefault(revision, shape) == shape, (revision, kill["statement"])
    files = (MIGRATIONS / "versions").glob("[0-9]*.py")
    assert sorted(known) == sorted(path.name.partition("_")[0] for path in files)
    assert len(kills) > 2 * len(known)
    assert _shape(database_url) == fresh
