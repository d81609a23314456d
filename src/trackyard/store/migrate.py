"""Brings a database to the schema this release knows. Refuses one that a newer release wrote."""

from __future__ import annotations

from pathlib import Path

from trackyard.core.errors import SetupError
from trackyard.store.connection import DatabaseConnection, PostgresConnection, SqliteConnection

#: The migration this release ends at; a test compares it with the migrations folder.
HEAD = "0029"
MIGRATIONS = Path(__file__).parent / "migrations"
#: The present schema as SQL, so that a first start need not load SQLAlchemy.
FRESH_SQLITE = Path(__file__).parent / "fresh_sqlite.sql"
#: Serialises several servers that start at once on one PostgreSQL.
_MIGRATION_LOCK = 0x7961_7265


def prepare(url: str) -> None:
    """Create or upgrade the schema at `url`; do nothing when it is current."""
    if url.startswith("sqlite:///"):
        conn: SqliteConnection | PostgresConnection = SqliteConnection(
            Path(url[len("sqlite:///") :])
        )
    else:
        conn = PostgresConnection(url)
        conn.all("SELECT pg_advisory_lock(?)", (_MIGRATION_LOCK,))
    try:
        version = current(conn)
        if version == HEAD:
            return
        if version is None and isinstance(conn, SqliteConnection):
            _create_sqlite(conn)
        else:
            _upgrade(url, version)
    finally:
        conn.close()


def current(conn: DatabaseConnection) -> str | None:
    """Return the schema version the database holds, or None for an empty one."""
    if conn.dialect.name == "sqlite":
        known = conn.one("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'")
    else:
        known = conn.one("SELECT 1 WHERE to_regclass('alembic_version') IS NOT NULL")
    if known is None:
        return None
    row = conn.one("SELECT version_num FROM alembic_version")
    return str(row[0]) if row else None


def sqlalchemy_url(url: str) -> str:
    """Return the address in SQLAlchemy's spelling, with the driver we ship."""
    for scheme in ("postgresql://", "postgres://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url[len(scheme) :]
    return url


def _create_sqlite(conn: SqliteConnection) -> None:
    """Make the present schema in an empty file, whole or not at all."""
    conn.raw().executescript(
        "BEGIN IMMEDIATE;\n"
        + FRESH_SQLITE.read_text()
        + "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY);\n"
        f"INSERT INTO alembic_version VALUES ('{HEAD}');\nCOMMIT;"
    )


def _upgrade(url: str, version: str | None) -> None:
    from sqlalchemy import create_engine, text

    from trackyard.store.schema import metadata

    engine = create_engine(sqlalchemy_url(url))
    try:
        if version is None:
            # An empty database gets the present schema at once; a test proves that the
            # migrations end there too.
            with engine.begin() as conn:
                metadata.create_all(conn)
                conn.execute(
                    text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
                )
                conn.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
            return
        _run_migrations(url, version)
    finally:
        engine.dispose()


def _run_migrations(url: str, version: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", sqlalchemy_url(url).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if version not in known:
        raise SetupError(
            f"the database has schema {version}, which this release does not know"
            f" (it knows {HEAD})",
            hint="a newer Trackyard wrote it: upgrade this one, or restore a backup made before",
        )
    command.upgrade(config, "head")
