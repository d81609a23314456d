"""The journal: what waits in it reaches its tables once, whatever happens in between."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from trackyard.core.clock import SystemClock
from trackyard.core.errors import SetupError
from trackyard.store.connection import SqliteConnection
from trackyard.store.database import NOT_QUICK, Database, ReadConnection, Tx
from trackyard.store.migrate import prepare
from trackyard.store.sqlite import journal
from trackyard.store.sqlite.journal import Journal, rejected, replay


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "yard.db"
    prepare(f"sqlite:///{file}")
    return file


@pytest.fixture
def conn(path: Path) -> SqliteConnection:
    return SqliteConnection(path)


def event(name: str, number: int | None = None) -> tuple[int, int, None, str, str, str, str, str]:
    """Return a row that needs no other."""
    return (number or ord(name[-1]), 1, None, "a", "user.created", "user", name, "{}")


def names(conn: ReadConnection | Tx) -> list[str]:
    return [
        row[0] for row in conn.all("SELECT subject_id FROM events WHERE actor = 'a' ORDER BY id")
    ]


def commit(book: Journal, conn: SqliteConnection) -> None:
    book.write(conn)
    conn.commit()
    book.committed()


def test_rows_wait_on_disk_and_are_moved_by_the_next_start(conn: SqliteConnection) -> None:
    book = Journal()
    conn.begin()
    book.add(journal.EVENT, [event("a"), event("b")], run=1)
    commit(book, conn)
    assert names(conn) == []
    assert book.waiting == 2
    assert replay(conn, 1) == 1
    assert names(conn) == ["a", "b"]
    assert replay(conn, 1) == 0


def test_moved_rows_leave_the_journal_in_the_same_transaction(conn: SqliteConnection) -> None:
    book = Journal()
    conn.begin()
    book.add(journal.EVENT, [event("a")], run=1)
    commit(book, conn)
    conn.begin()
    book.add(journal.EVENT, [event("b")], run=1)
    book.move(conn, 1)
    book.add(journal.EVENT, [event("c")], run=1)
    commit(book, conn)
    assert names(conn) == ["a", "b"]
    assert book.waiting == 1
    assert replay(conn, 1) == 1
    assert names(conn) == ["a", "b", "c"]


def test_an_undone_move_leaves_the_rows_where_they_were(conn: SqliteConnection) -> None:
    book = Journal()
    conn.begin()
    book.add(journal.EVENT, [event("a")], run=1)
    commit(book, conn)
    conn.begin()
    book.add(journal.EVENT, [event("never")], run=1)
    book.move(conn, 1)
    conn.rollback()
    book.undone()
    assert names(conn) == []
    assert not book.is_empty()
    conn.begin()
    book.move(conn, 1)
    commit(book, conn)
    assert names(conn) == ["a"]
    assert book.is_empty()


def test_the_latest_of_a_metric_is_the_same_folded_or_one_by_one(conn: SqliteConnection) -> None:
    rows = [
        (1, 7, 1, 10, 0.5, 0.5, 0.5, "first"),
        (1, 7, 3, 10, None, None, None, "nan"),
        (1, 7, 2, 99, 9.0, 9.0, 9.0, "older"),
        (1, 7, 3, 10, 0.25, 0.1, 0.25, "higher"),
        (1, 8, 0, 1, None, None, None, "alone"),
    ]
    conn.raw().execute("PRAGMA foreign_keys=OFF")
    conn.many(journal.UPSERT_LATEST, rows)
    one_by_one = conn.all("SELECT * FROM metric_latest ORDER BY name_id")
    conn.run("DELETE FROM metric_latest")
    conn.begin()
    book = Journal()
    book.add(journal.LATEST, rows, run=1)
    book.move(conn, 1)
    commit(book, conn)
    assert conn.all("SELECT * FROM metric_latest ORDER BY name_id") == one_by_one
    assert one_by_one[0][2:] == (3, 10, 0.25, 0.1, 9.0, "higher")


def test_a_metric_waits_once_however_often_it_was_logged(conn: SqliteConnection) -> None:
    conn.raw().execute("PRAGMA foreign_keys=OFF")
    book = Journal()
    for step in range(5):
        conn.begin()
        book.add(journal.LATEST, [(1, 7, step, step, 0.5, 0.5, 0.5 + step, f"at {step}")], run=1)
        commit(book, conn)
    assert book.waiting == 1
    conn.begin()
    book.add(journal.LATEST, [(1, 7, 2, 9, 0.1, 0.1, 0.1, "late")], run=1)
    book.move(conn, 1)
    commit(book, conn)
    assert conn.all("SELECT * FROM metric_latest") == [(1, 7, 4, 4, 0.5, 0.1, 4.5, "at 4")]
    assert conn.one("SELECT count(*) FROM journal") == (0,)


def test_a_statement_of_a_newer_release_is_refused_and_kept(conn: SqliteConnection) -> None:
    conn.run("INSERT INTO journal (data) VALUES (?)", (journal._encode({99: [[1]]}),))
    with pytest.raises(SetupError, match="newer release"):
        replay(conn, 1)
    assert conn.one("SELECT count(*) FROM journal") == (1,)


def put(conn: SqliteConnection, *entries: bytes) -> None:
    conn.many("INSERT INTO journal (data) VALUES (?)", [(entry,) for entry in entries])


def set_aside(conn: SqliteConnection) -> list[tuple[bytes, str]]:
    return conn.all("SELECT data, reason FROM rejected_writes ORDER BY id")


@pytest.mark.parametrize(
    "garbage", [b"", b"\xc1", b"\x93\x01", journal._encode({8: 5}), journal._encode({"x": []})]
)
def test_an_entry_nobody_can_read_is_set_aside_and_the_others_are_moved(
    conn: SqliteConnection, garbage: bytes
) -> None:
    good = [journal._encode({journal.EVENT: [event(name)]}) for name in ("a", "b")]
    put(conn, good[0], garbage, good[1])
    assert replay(conn, 7) == 3
    assert names(conn) == ["a", "b"]
    assert conn.one("SELECT count(*) FROM journal") == (0,)
    ((data, reason),) = set_aside(conn)
    assert data == garbage
    assert "journal entry 2 cannot be read" in reason
    assert rejected(conn) == 1


def test_a_row_that_fits_no_table_is_set_aside_alone(conn: SqliteConnection) -> None:
    """One group's entry holds the rows of many callers; theirs are moved."""
    rows = {
        journal.EVENT: [event("a"), ["too", "short"], 5, event("b")],
        journal.TAG: [(77, 78, "of no run")],
        journal.LATEST: [(1, 2, 3)],
        7: [("a reply", "of an earlier release", "p", "b", 1)],
    }
    put(conn, journal._encode(rows))
    assert replay(conn, 7) == 1
    assert names(conn) == ["a", "b"]
    assert len(set_aside(conn)) == 4
    assert [msgspec.msgpack.decode(data) for data, _ in set_aside(conn)] == [
        {journal.TAG: [[77, 78, "of no run"]]},
        {journal.LATEST: [[1, 2, 3]]},
        {journal.EVENT: [["too", "short"]]},
        {journal.EVENT: [5]},
    ]


def test_what_was_acknowledged_is_set_aside_and_what_was_not_is_refused(
    conn: SqliteConnection,
) -> None:
    book = Journal()
    conn.begin()
    book.add(journal.EVENT, [event("a"), event("a")], run=1)
    commit(book, conn)
    conn.begin()
    book.add(journal.EVENT, [event("b")], run=1)
    book.move(conn, 7)
    commit(book, conn)
    assert names(conn) == ["a", "b"]
    assert len(set_aside(conn)) == 1
    conn.begin()
    book.add(journal.EVENT, [event("b")], run=1)
    with pytest.raises(sqlite3.IntegrityError):
        book.move(conn, 7)
    conn.rollback()
    book.undone()
    assert len(set_aside(conn)) == 1


async def test_readers_see_what_waits_and_careful_writes_come_after_it(path: Path) -> None:
    database = Database(f"sqlite:///{path}", clock=SystemClock())
    database.start()
    try:

        def careful(tx: Tx) -> str:
            raise AssertionError("the quick form was enough")

        def quick(tx: Tx) -> str:
            tx.later(journal.EVENT, [event("q")], run=1)
            return "done"

        assert await database.write(careful, quick) == "done"
        look = sqlite3.connect(path)
        assert look.execute("SELECT count(*) FROM journal").fetchone() == (1,)
        assert look.execute("SELECT count(*) FROM events WHERE actor = 'a'").fetchone() == (0,)
        found = await database.read(names)
        assert found == ["q"]

        assert await database.write(careful, quick) == "done"
        seen = await database.write(names)
        assert seen == ["q"]
        assert look.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    finally:
        await database.close()


async def test_readers_see_what_waits_though_it_cannot_be_moved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full queue or disk refuses to move it; what was acknowledged is shown all the same."""
    database = Database(f"sqlite:///{path}", clock=SystemClock())
    database.start()

    def quick(tx: Tx) -> None:
        tx.later(journal.EVENT, [event("q")], run=1)

    await database.write(quick, quick)
    with monkeypatch.context() as patch:
        patch.setattr("trackyard.store.database.QUEUE_LIMIT", 0)
        assert await database.read(names) == ["q"]
        assert await database.peek(names) == ["q"]
        assert database.journal.waiting == 1
    assert await database.read(names) == ["q"]
    assert database.journal.waiting == 0
    await database.close()


async def test_a_quick_form_that_gives_up_leaves_it_to_the_careful_one(path: Path) -> None:
    database = Database(f"sqlite:///{path}", clock=SystemClock())
    database.start()
    try:
        assert await database.write(lambda _: "careful", lambda _: NOT_QUICK) == "careful"
    finally:
        await database.close()


async def test_closing_leaves_nothing_in_the_journal(path: Path) -> None:
    database = Database(f"sqlite:///{path}", clock=SystemClock())
    database.start()

    def quick(tx: Tx) -> None:
        tx.later(journal.EVENT, [event("q")], run=1)

    await database.write(quick, quick)
    await database.close()
    conn = SqliteConnection(path)
    assert names(conn) == ["q"]
    assert conn.one("SELECT count(*) FROM journal") == (0,)


async def test_two_processes_on_one_file_lose_and_double_nothing(path: Path) -> None:
    """Nobody should do it; whoever does gets every event once, with an id of its own."""
    url = f"sqlite:///{path}"
    one, two = (Database(url, clock=SystemClock()) for _ in range(2))
    one.start()
    two.start()
    try:
        for number in range(6):
            writer = (one, two)[number % 2]

            def quick(tx: Tx, number: int = number) -> None:
                row = event(f"q{number}", tx.new_id("events"))
                tx.later(journal.EVENT, [row], run=1)
                tx.event(
                    "user.created", team_id=None, actor="b", subject="user", subject_id=str(number)
                )

            await writer.write(quick, quick)
    finally:
        await one.close()
        await two.close()
    conn = SqliteConnection(path)
    assert names(conn) == [f"q{number}" for number in range(6)]
    told = conn.all("SELECT subject_id FROM events WHERE actor = 'b' ORDER BY id")
    assert [row[0] for row in told] == [str(number) for number in range(6)]
