"""Writes the SQL that makes an empty SQLite file current, from the schema in the package.

A first start runs that file instead of loading SQLAlchemy, which would take longer than all
the rest. A test compares the file with the schema. Usage: python tools/fresh_schema.py
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from trackyard.store.migrate import FRESH_SQLITE
from trackyard.store.schema import metadata


def render() -> str:
    """Return the statements, in the order in which tables refer to one another."""
    dialect = sqlite.dialect()
    lines = ["-- Written by tools/fresh_schema.py; do not edit."]
    for table in metadata.sorted_tables:
        lines.append(str(CreateTable(table).compile(dialect=dialect)).strip() + ";")
        lines += [
            str(CreateIndex(index).compile(dialect=dialect)).strip() + ";"
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    text = "\n".join(lines) + "\n"
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    Path(FRESH_SQLITE).write_text(render())
    print(f"wrote {FRESH_SQLITE.name}")
