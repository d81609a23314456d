"""What Alembic runs: connect, then apply the pending migrations in one transaction each."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import Connection, Engine, create_engine, event

from trackyard.store import crashpoints
from trackyard.store.schema import metadata


def run() -> None:
    """Apply the pending migrations."""
    url = context.config.get_main_option("sqlalchemy.url")
    assert url is not None
    engine = create_engine(url)
    if url.startswith("sqlite"):
        _make_transactional(engine)
    if crashpoints.ARMED:
        event.listen(engine, "before_cursor_execute", _maybe_die)
    with engine.connect() as conn:
        context.configure(
            connection=conn,
            target_metadata=metadata,
            transaction_per_migration=True,
            render_as_batch=False,
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


def _make_transactional(engine: Engine) -> None:
    """Let SQLite undo a migration that was cut short: its driver begins none before DDL."""

    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin)


def _maybe_die(*_: Any) -> None:
    crashpoints.reached("migration-statement")


run()
