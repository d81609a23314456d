"""Freezes the schema of a release, once, for the tests that upgrade databases of that release.

Writes tests/data/schema/REVISION.DIALECT.sql for both databases. Usage, at a release that ends at
a new revision: python tools/freeze_schema.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from trackyard.store.fresh import fresh_schema
from trackyard.store.migrate import HEAD

FROZEN = Path(__file__).resolve().parent.parent / "tests" / "data" / "schema"


def main() -> None:
    """Write what an empty database gets today, unless this revision was frozen before."""
    for dialect in ("sqlite", "postgresql"):
        path = FROZEN / f"{HEAD}.{dialect}.sql"
        if path.exists():
            sys.exit(f"{path.name} is frozen: a change of the schema is a new migration")
        path.write_text(fresh_schema(dialect))
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
