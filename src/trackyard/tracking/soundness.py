"""Looking for bit rot in the database. Owns what is looked at and how damage is named; files of
runs are the artifacts' own affair.
"""

from __future__ import annotations

import sqlite3
from functools import partial

from trackyard.core.errors import InternalFault
from trackyard.store.database import Database, Reader
from trackyard.tracking.points import decode_block

#: Blocks read at a time, and complaints of SQLite that are passed on.
_PAGE = 200
_COMPLAINTS = 20


async def find_damage(database: Database) -> list[str]:
    """Read the whole database and name what is not as it was written."""
    found = await database.read(_pages, seconds=None)
    last = 0
    while True:
        rows = await database.read(partial(_blocks, after=last), seconds=None)
        for block_id, run_id, metric, data in rows:
            last = block_id
            try:
                decode_block(data)
            except InternalFault:
                found.append(f"{run_id}, metric {metric}")
        if len(rows) < _PAGE:
            return found


def _pages(reader: Reader) -> list[str]:
    """Have SQLite go through every page and index; PostgreSQL has checksums of its own."""
    if reader.dialect.name != "sqlite":
        return []
    try:
        rows = reader.all(f"PRAGMA integrity_check({_COMPLAINTS})")
    except sqlite3.DatabaseError as fault:
        return [f"the database file: {fault}"]
    words = [" ".join(str(row[0]).split()) for row in rows]
    return [] if words == ["ok"] else [f"the database file: {word}" for word in words]


def _blocks(reader: Reader, after: int) -> list[tuple[int, str, str, bytes]]:
    rows = reader.all(
        "SELECT b.id, r.uuid, n.name, b.data FROM metric_blocks b"
        " JOIN runs r ON r.id = b.run_id JOIN names n ON n.id = b.name_id"
        f" WHERE b.id > ? ORDER BY b.id LIMIT {_PAGE}",
        (after,),
    )
    return [(row[0], row[1], row[2], bytes(row[3])) for row in rows]
