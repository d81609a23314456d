"""Reads and writes of several callers at one database: nobody stops the others."""

import asyncio
import threading

import pytest

from trackyard.store import database as module
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.store.turns import CALLER


async def read_as(caller: str, database: Database, query: object) -> object:
    CALLER.set(caller)
    return await database.read(query)  # type: ignore[arg-type]


async def test_a_single_read_passes_two_hundred_of_another_caller(database: Database) -> None:
    """The heavy reads do not end before the light one has: it can only have passed them."""
    free = threading.Event()

    def heavy(_: ReadConnection) -> str:
        assert free.wait(120)
        return "heavy"

    waiting = [
        asyncio.create_task(read_as("heavy", database, heavy), name="heavy") for _ in range(200)
    ]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(120):
            light = asyncio.create_task(
                read_as("light", database, lambda reader: reader.one("SELECT 1"))
            )
            assert tuple(await light) == (1,)  # type: ignore[arg-type]
        assert not any(task.done() for task in waiting)
    finally:
        free.set()
        await asyncio.gather(*waiting)


async def test_a_long_write_leaves_the_loop_to_others(database: Database) -> None:
    """While it runs, the loop turns and readers read; what it wrote is there as a whole."""
    free, begun = threading.Event(), threading.Event()

    def change(tx: Tx) -> None:
        tx.run("INSERT INTO settings (key, value) VALUES ('a', '1')")
        begun.set()
        assert free.wait(120)
        tx.run("INSERT INTO settings (key, value) VALUES ('b', '1')")

    def count(reader: ReadConnection) -> int:
        row = reader.one("SELECT count(*) FROM settings WHERE key IN ('a', 'b')")
        assert row is not None
        return int(row[0])

    writing = database.write(change, is_long=True)
    async with asyncio.timeout(120):
        while not begun.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)
    assert await database.read(count) == 0
    free.set()
    await writing
    assert await database.read(count) == 2


async def test_a_group_that_takes_long_is_cut(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes that wait together are committed a few at a time once they hold the loop."""
    if not database.is_sqlite:
        return  # its writes never run on the loop
    monkeypatch.setattr(module, "SLICE_SECONDS", -1.0)
    before = database.committed_groups
    order: list[int] = []

    def change(number: int) -> object:
        def run(tx: Tx) -> None:
            tx.run("INSERT INTO settings (key, value) VALUES (?, '1')", (str(number),))
            order.append(number)

        return run

    await asyncio.gather(*[database.write(change(number)) for number in range(20)])  # type: ignore[arg-type]
    assert order == list(range(20))
    assert database.committed_groups - before == 20
