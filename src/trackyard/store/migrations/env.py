"""What Alembic runs: connect, then apply the pending migrations in one transaction each."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine

from trackyard.store.schema import metadata


def run() -> None:
    """Apply the pending migrations."""
    url = context.config.get_main_option("sqlalchemy.url")
    assert url is not None
    engine = create_engine(url)
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


run()
