"""Reads that take too long, databases that go away, disks that fail: what a caller is told, and
what is there afterwards.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from trackyard.core.clock import SystemClock
from trackyard.core.errors import TooBusy
from trackyard.store import crashpoints, database
from trackyard.store.connection import PostgresConnection
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.store.faults import CommitUnknown, SyncFault

ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT (x + 1) % 1000 FROM n)"
    " SELECT count(*) FROM n"
)


def put(key: str) -> Callable[[Tx], None]:
    def change(tx: Tx) -> None:
        tx.run("INSERT INTO settings (key, value) VALUES (?, 'x')", (key,))

    return change


def keys(reader: ReadConnection) -> list[str]:
    return [row[0] for row in reader.all("SELECT key FROM settings ORDER BY key")]


async def test_a_read_without_end_is_ended(database: Database) -> None:
    """A statement over its time answers 503 with a sentence, and the connection serves on."""
    began = time.monotonic()
    with pytest.raises(TooBusy, match="took over") as refusal:
        await database.read(lambda reader: reader.one(ENDLESS), seconds=0.3)
    assert time.monotonic() - began < 30
    assert refusal.value.status == 503
    assert refusal.value.retry_after
    assert await database.read(lambda reader: reader.one("SELECT 1")) == (1,)
    long = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300000)"
    counted = await database.read(
        lambda reader: reader.one(f"{long} SELECT count(*) FROM n"), seconds=None
    )
    assert counted == (300000,)


@pytest.fixture
async def postgres(postgres_server: Any) -> AsyncIterator[Database]:
    """An open PostgreSQL database of one's own."""
    name = postgres_server.create()
    opened = Database(postgres_server.url(name), clock=SystemClock())
    opened.start()
    yield opened
    await opened.close()
    postgres_server.drop(name)


def cut(opened: Database) -> None:
    """End every connection to a database, as a restart or a broken network would."""
    with psycopg.connect(opened.url, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_cut_connections_are_replaced_unnoticed(postgres: Database) -> None:
    """After every connection was cut, reads and writes go on without an error."""
    await asyncio.gather(*(postgres.read(keys) for _ in range(8)))
    for number in range(3):
        await postgres.write(put(f"k{number}"))
        cut(postgres)
        found = await asyncio.gather(*(postgres.read(keys) for _ in range(8)))
        assert all(len(one) == number + 1 for one in found)
        cut(postgres)
        await asyncio.gather(*(postgres.write(put(f"k{number}-{n}")) for n in range(20)))
        await postgres.write(lambda tx: tx.run("DELETE FROM settings WHERE key LIKE 'k_-%'"))


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_commit_without_an_answer_is_looked_up(
    postgres: Database, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Cut before or after the commit took effect, a write is there once and acknowledged."""
    real = PostgresConnection.commit
    cuts = []

    def commit(self: PostgresConnection) -> None:
        if cuts:
            real(self)
            return
        cuts.append(moment)
        if moment == "after":
            real(self)
        cut(postgres)
        real(self)

    monkeypatch.setattr(PostgresConnection, "commit", commit)
    await asyncio.gather(*(postgres.write(put(f"k{n}")) for n in range(5)))
    assert cuts == [moment]
    assert await postgres.read(keys) == [f"k{n}" for n in range(5)]


async def test_a_commit_nobody_can_tell_is_not_acknowledged(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database stays away, an unconfirmed write is refused with words that say so."""
    real_commit, real_connect = PostgresConnection.commit, Database._connect
    monkeypatch.setattr(database, "RECONNECT_SECONDS", 0.3)

    def commit(self: PostgresConnection) -> None:
        cut(postgres)
        monkeypatch.setattr(Database, "_connect", lambda self, readonly: refuse())
        real_commit(self)

    def refuse() -> PostgresConnection:
        return PostgresConnection("postgresql://postgres@127.0.0.1:1/none")

    monkeypatch.setattr(PostgresConnection, "commit", commit)
    with pytest.raises(CommitUnknown, match="may be there or not"):
        await postgres.write(put("k"))
    with pytest.raises(TooBusy, match="away"):
        await postgres.write(put("l"))
    with pytest.raises(TooBusy, match="away"):
        await postgres.read(keys)
    monkeypatch.setattr(PostgresConnection, "commit", real_commit)
    monkeypatch.setattr(Database, "_connect", real_connect)
    await postgres.write(put("m"))
    assert await postgres.read(keys) == ["m"]


@pytest.fixture
def crash_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Arm a crash point for this process."""

    def arm(point: str, count: int) -> None:
        monkeypatch.setattr(crashpoints, "ARMED", True)
        monkeypatch.setattr(crashpoints, "_point", point)
        monkeypatch.setattr(crashpoints, "_detail", "")
        monkeypatch.setattr(crashpoints, "_left", count)

    return arm


async def test_a_failed_flush_is_never_acknowledged(
    sqlite_template: Any, tmp_path: Any, crash_point: Callable[[str, int], None]
) -> None:
    """Once the disk has failed to flush, every write is refused, and reads go on."""
    path = tmp_path / "yard.db"
    path.write_bytes(sqlite_template.read_bytes())
    opened = Database(f"sqlite:///{path}", clock=SystemClock())
    opened.start()
    crash_point("sync-fault", 2)
    await opened.write(put("a"))
    done = await asyncio.gather(
        *(opened.write(put(f"b{n}")) for n in range(5)), return_exceptions=True
    )
    assert all(isinstance(one, SyncFault) for one in done)
    for _ in range(3):
        with pytest.raises(SyncFault, match="check the disk"):
            await opened.write(put("c"))
    assert await opened.read(keys) == ["a"]
    await opened.close()
    again = Database(f"sqlite:///{path}", clock=SystemClock())
    again.start()
    await again.write(put("d"))
    assert await again.read(keys) == ["a", "d"]
    await again.close()
