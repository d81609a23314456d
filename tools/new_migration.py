"""Writes the next migration: what the schema says beyond the last release and its migrations.

Usage: python tools/new_migration.py NUMBER "what it does"
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.config import Config

from trackyard.store.migrate import FIRST, MIGRATIONS, stamped

FROZEN = Path(__file__).resolve().parent.parent / "tests" / "data" / "schema"


def main(number: str, message: str) -> None:
    """Bring a database of the first release to the last migration; write the difference."""
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(f"{folder}/first.db")
        database.executescript(stamped((FROZEN / f"{FIRST}.sqlite.sql").read_text(), FIRST))
        database.close()
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
        config.set_main_option("sqlalchemy.url", f"sqlite:///{folder}/first.db")
        command.upgrade(config, "head")
        command.revision(config, message, autogenerate=True, rev_id=number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
