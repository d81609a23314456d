"""A database of each earlier release ends at today's schema, on SQLite and PostgreSQL; one that
cannot be upgraded is refused and left alone.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from trackyard.core.errors import SetupError
from trackyard.store import migrate
from trackyard.store.connection import PostgresConnection, SqliteConnection
from trackyard.store.migrate import HEAD, MIGRATIONS, prepare, sqlalchemy_url, stamped
from trackyard.store.schema import metadata

ROOT = Path(__file__).resolve().parents[3]
#: What a database of each release looks like; written once, never changed.
FROZEN = ROOT / "tests" / "data" / "schema"
RELEASES = sorted({path.name.partition(".")[0] for path in FROZEN.glob("*.sql")})
#: Two migrations of no release, which go on from the last one.
LATER = """
from alembic import op
import sqlalchemy as sa

revision, down_revision = {revision!r}, {before!r}


def upgrade():
    op.create_table("kept_{revision}", sa.Column("id", sa.Integer, primary_key=True))
    op.add_column("teams", sa.Column("colour_{revision}", sa.Text))
    op.execute("UPDATE teams SET colour_{revision} = name")
    op.create_index("ix_kept_{revision}", "teams", ["colour_{revision}"])
"""


def use_migrations(folder: Path) -> None:
    """Let this process upgrade by the migrations of another folder."""
    migrate.MIGRATIONS = folder
    migrate.HEAD = max(path.name.partition("_")[0] for path in folder.glob("versions/[0-9]*.py"))


def with_later_migrations(folder: Path) -> Path:
    """Return a copy of the migrations that goes on by two."""
    copy = folder / "migrations"
    shutil.copytree(MIGRATIONS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for before, revision in ((HEAD, "9001"), ("9001", "9002")):
        text = LATER.format(revision=revision, before=before)
        (copy / "versions" / f"{revision}_later.py").write_text(text)
    return copy


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


def open_database(url: str) -> SqliteConnection | PostgresConnection:
    if url.startswith("sqlite"):
        return SqliteConnection(Path(url[len("sqlite:///") :]))
    return PostgresConnection(url)


def _empty(conn: SqliteConnection | PostgresConnection) -> None:
    """Drop everything."""
    if isinstance(conn, SqliteConnection):
        conn.run("PRAGMA foreign_keys=OFF")
        for table in [*metadata.tables, "alembic_version"]:
            conn.run(f"DROP TABLE {table}")
        conn.run("PRAGMA foreign_keys=ON")
    else:
        conn.run("DROP SCHEMA public CASCADE")
        conn.run("CREATE SCHEMA public")


def go_back(url: str, release: str) -> None:
    """Make the database what a release left, with a team in it."""
    conn = open_database(url)
    _empty(conn)
    script = stamped((FROZEN / f"{release}.{conn.dialect.name}.sql").read_text(), release)
    if isinstance(conn, SqliteConnection):
        conn.raw().executescript(script)
    else:
        conn.raw().execute(script.encode())
    conn.run("INSERT INTO teams (name, created_ms, settings) VALUES ('kept', 1, '{}')")
    conn.close()


def _set_revision(url: str, revision: str) -> None:
    conn = open_database(url)
    conn.run("UPDATE alembic_version SET version_num = ?", (revision,))
    conn.close()


def _facts(url: str) -> tuple[str | None, list[tuple[object, ...]]]:
    """Return the revision and the teams."""
    conn = open_database(url)
    facts = migrate.current(conn), conn.all("SELECT name FROM teams")
    conn.close()
    return facts


def test_a_fresh_database_has_the_whole_schema(database_url: str) -> None:
    """Every table that the schema states is there, and the revision is the last."""
    assert set(_shape(database_url)) == set(metadata.tables)
    assert _facts(database_url) == (HEAD, [])


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_is_upgraded_to_the_schema(database_url: str, release: str) -> None:
    """An upgraded database and a fresh one have the same tables, keys and indexes.

    Where it fails after a change of the schema: write the migration with tools/new_migration.py.
    """
    fresh = _shape(database_url)
    go_back(database_url, release)
    prepare(database_url)
    assert _shape(database_url) == fresh
    assert _facts(database_url) == (HEAD, [("kept",)])


def test_the_first_release_is_among_the_frozen() -> None:
    """The upgrade is tested from the first release on."""
    assert migrate.FIRST in RELEASES
    assert RELEASES[-1] <= HEAD


def test_the_last_build_before_the_first_release_is_taken_over(database_url: str) -> None:
    """Its schema is the first release's under another number."""
    fresh = _shape(database_url)
    go_back(database_url, migrate.FIRST)
    _set_revision(database_url, "0029")
    prepare(database_url)
    assert _shape(database_url) == fresh
    assert _facts(database_url) == (HEAD, [("kept",)])


def test_preparing_twice_changes_nothing(database_url: str) -> None:
    """A current database is left alone."""
    before = _shape(database_url)
    prepare(database_url)
    assert _shape(database_url) == before


@pytest.mark.parametrize(
    ("revision", "remedy"), [("9999", "upgrade this one"), ("0007", "start anew")]
)
def test_a_schema_it_cannot_upgrade_is_refused(
    database_url: str, revision: str, remedy: str
) -> None:
    """A database of a later release, or of a build before the first, is not touched, and the
    remedy is told.
    """
    _set_revision(database_url, revision)
    before = _shape(database_url)
    with pytest.raises(SetupError, match=revision) as refused:
        prepare(database_url)
    assert remedy in (refused.value.hint or "")
    assert _facts(database_url) == (revision, [])
    assert _shape(database_url) == before


def test_an_upgrade_killed_before_any_statement_leaves_a_whole_schema(
    database_url: str, tmp_path: Path
) -> None:
    """Killed at each statement in turn, what is there is one of the schemas, with all its rows;
    the next start goes on from it, and at the end it is the newest.
    """
    go_back(database_url, migrate.FIRST)
    later = with_later_migrations(tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.integration.store.kill_migrations",
            database_url,
            str(later),
        ],
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
    files = (later / "versions").glob("[0-9]*.py")
    assert sorted(known) == sorted(path.name.partition("_")[0] for path in files)
    assert len(kills) > 2 * len(known)
    assert {"kept_9001", "kept_9002"} <= set(_shape(database_url))
