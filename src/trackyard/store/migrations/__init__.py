"""Forward-only migrations, run by Alembic; each in one transaction."""
