"""Writes the next migration by comparing the schema with an up-to-date, empty database.

Usage: python tools/new_migration.py NUMBER "what it does"
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alembic import command
from alembic.config import Config

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = ROOT / "src" / "trackyard" / "store" / "migrations"


def main(number: str, message: str) -> None:
    """Bring an empty SQLite file to the last migration, then write the difference as a new one."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
        config.set_main_option("sqlalchemy.url", f"sqlite:///{folder}/empty.db")
        command.upgrade(config, "head")
        command.revision(config, message, autogenerate=True, rev_id=number)
    print("run `python tools/fresh_schema.py`")
    print(f"set HEAD in src/trackyard/store/migrate.py to {number!r}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
