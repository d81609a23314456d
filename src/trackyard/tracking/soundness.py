"""Looking for bit rot in the database. Owns what is looked at and how damage is named; files of
runs are the artifacts' own affair.
"""

from __future__ import annotations

import sqlite3
from functools import partial

from trackyard.core.errors import InternalFault, YardError
from trackyard.store.database import Database, ReadConnection
from trackyard.store.faults import is_damaged
from trackyard.tracking.metrics.points import decode_block

#: Blocks read at a time, and complaints of SQLite that are passed on.
_PAGE = 200
_COMPLAINTS = 20
#: What was found damaged, and the block after which to go on, if any are left.
BlocksChecked = tuple[list[str], int | None]


async def check_pages(database: Database) -> list[str]:
    """Have the database read all it holds, and name what it finds damaged."""
    if database.is_sqlite:
        return await database.read(_sqlite_pages, seconds=None)
    found = []
    for table in await database.read(_tables, seconds=None):
        # One at a time: a fault ends the query that met it.
        try:
            await database.read(partial(_read_whole, table=table), seconds=None)
        except YardError as fault:
            found.append(f"table {table}: {_complaint(fault)}")
    return found


async def check_blocks(database: Database, *, after: int, seconds: float) -> BlocksChecked:
    """Decode metric blocks from one on for about so many seconds."""
    until = database.clock.monotonic() + seconds
    found: list[str] = []
    while True:
        try:
            rows = await database.read(partial(_blocks, after=after), seconds=None)
        except YardError as fault:
            return [*found, f"metric points: {_complaint(fault)}"], None
        for block_id, run_id, metric, data in rows:
            after = block_id
            try:
                decode_block(data)
            except InternalFault:
                found.append(f"run {run_id}, metric {metric}: points {block_id} cannot be decoded")
        if len(rows) < _PAGE:
            return found, None
        if database.clock.monotonic() >= until:
            return found, after


def _complaint(fault: YardError) -> str:
    """Return the database's own words about a damaged page; any other fault is raised again."""
    cause = fault.__cause__
    if cause is None or not is_damaged(cause):
        raise fault
    return " ".join(str(cause).split())


def _sqlite_pages(reader: ReadConnection) -> list[str]:
    """Have SQLite go through every page and index."""
    try:
        rows = reader.all(f"PRAGMA integrity_check({_COMPLAINTS})")
    except sqlite3.DatabaseError as fault:
        return [f"the database file: {fault}"]
    words = [" ".join(str(row[0]).split()) for row in rows]
    return [] if words == ["ok"] else [f"the database file: {word}" for word in words]


def _tables(reader: ReadConnection) -> list[str]:
    rows = reader.all(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1"
    )
    return [str(row[0]) for row in rows]


def _read_whole(reader: ReadConnection, table: str) -> None:
    """Read every row with all that is stored beside it, so that PostgreSQL checks its pages."""
    reader.one(f'SELECT sum(length(t::text)) FROM "{table}" t')


def _blocks(reader: ReadConnection, after: int) -> list[tuple[int, str, str, bytes]]:
    rows = reader.all(
        "SELECT b.id, r.uuid, n.name, b.data FROM metric_blocks b"
        " JOIN runs r ON r.id = b.run_id JOIN names n ON n.id = b.name_id"
        f" WHERE b.id > ? ORDER BY b.id LIMIT {_PAGE}",
        (after,),
    )
    return [(row[0], row[1], row[2], bytes(row[3])) for row in rows]
