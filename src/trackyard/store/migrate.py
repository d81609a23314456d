"""Brings a database to the schema this release knows. Refuses one that it cannot upgrade: of a
newer release, or of a build from before the first one.
"""

from __future__ import annotations

from pathlib import Path

from trackyard.core.errors import SetupError
from trackyard.store.connection import DatabaseConnection, PostgresConnection, SqliteConnection
from trackyard.store.fresh import fresh_schema
from trackyard.store.transaction import ReadConnection

MIGRATIONS = Path(__file__).parent / "migrations"
#: The revision of the first release's schema, and the same schema as builds before it numbered it.
FIRST, LAST_BEFORE_FIRST = "0030", "0029"
#: The revision this release ends at: that of the last file.
HEAD = max(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))
#: Serialises several servers that start at once on one PostgreSQL.
_MIGRATION_LOCK = 0x7961_7265


def prepare(url: str) -> None:
    """Create or upgrade the schema at `url`; do nothing when it is current."""
    conn = _connect(url)
    try:
        revision = current(conn)
        if revision is None:
            _create(conn)
            return
        if revision == LAST_BEFORE_FIRST:
            # Nothing but the number has changed since.
            conn.run("UPDATE alembic_version SET version_num = ?", (FIRST,))
            revision = FIRST
        if revision != HEAD:
            _upgrade(url, revision)
    finally:
        conn.close()


def _connect(url: str) -> SqliteConnection | PostgresConnection:
    if url.startswith("sqlite:///"):
        return SqliteConnection(Path(url[len("sqlite:///") :]))
    conn = PostgresConnection(url)
    conn.all("SELECT pg_advisory_lock(?)", (_MIGRATION_LOCK,))
    return conn


def current(conn: DatabaseConnection | ReadConnection) -> str | None:
    """Return the revision the database is at, or None for an empty one."""
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


def stamped(schema: str, revision: str) -> str:
    """Return statements that make a schema and say its revision."""
    return (
        schema
        + "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY);\n"
        + f"INSERT INTO alembic_version VALUES ('{revision}');\n"
    )


def _create(conn: SqliteConnection | PostgresConnection) -> None:
    """Give an empty database today's schema, whole or not at all."""
    script = stamped(fresh_schema(conn.dialect.name), HEAD)
    if isinstance(conn, SqliteConnection):
        conn.raw().executescript(f"BEGIN IMMEDIATE;\n{script}COMMIT;")
    else:
        conn.raw().execute(f"BEGIN;\n{script}COMMIT;".encode())


def _upgrade(url: str, revision: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("sqlalchemy.url", sqlalchemy_url(url).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision not in known:
        raise _refusal(revision)
    command.upgrade(config, "head")


def _refusal(revision: str) -> SetupError:
    if revision < FIRST:
        return SetupError(
            f"the database has schema {revision}, of a build from before the first release, which"
            " this release cannot upgrade",
            hint=f"start the last build from before the first release once, which brings it to"
            f" {LAST_BEFORE_FIRST}, and then this one; or start anew with another --home or"
            " --database",
        )
    return SetupError(
        f"the database has schema {revision}, which this release does not know (it knows {HEAD})",
        hint="a newer Trackyard wrote it: upgrade this one, or restore a backup made before",
    )
