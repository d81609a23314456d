"""Rows that are safe on disk before they are in their tables. SQLite only.

A small write is acknowledged once its rows lie in `journal`, one entry for a whole group of
requests. They reach their tables in bulk: before anything reads, before a write that might look at
them, and otherwise within a moment. A start after a crash finds them here. So a log call costs one
appended row, not a page of each index it touches, and a table hears of a metric's latest value
once, however often it was logged in between.

Owns `journal`, `rejected_writes` and the statements that may wait. Their numbers are written to
disk and never change their meaning. What may wait must not be able to fail later: whoever defers a
row has checked it. A row that cannot be read or that its table refuses all the same is set aside
in `rejected_writes`, so that it holds up no other row and no start.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from trackyard.core.errors import SetupError
from trackyard.store.connection import DatabaseConnection
from trackyard.store.sqlite.changes import Changes
from trackyard.store.transaction import ReadConnection, Values

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Rows by the number of their statement.
Rows = dict[int, list[Values]]
#: Rows of latest values by run and name.
Latest = dict[tuple[int, int], Values]

RUN: Final = 1
TAG: Final = 2
PARAM: Final = 3
LATEST: Final = 4
POINTS: Final = 5
RUN_STATE: Final = 6
EVENT: Final = 8
#: Rows of earlier releases that nothing reads any more.
RETIRED: Final = frozenset((7,))

INSERT_RUN = (
    "INSERT INTO runs (id, uuid, experiment_id, team_id, name, user_name, status, start_ms,"
    " lifecycle, artifact_uri) VALUES (?, ?, ?, ?, ?, ?, 'RUNNING', ?, 'active', ?)"
)
UPSERT_TAG = (
    "INSERT INTO tags (run_id, name_id, value) VALUES (?, ?, ?)"
    " ON CONFLICT (run_id, name_id) DO UPDATE SET value = excluded.value"
)
UPSERT_LATEST = (
    "INSERT INTO metric_latest AS m (run_id, name_id, step, time_ms, value, least, most,"
    " wire) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, name_id) DO UPDATE SET"
    " step = CASE WHEN {newer} THEN excluded.step ELSE m.step END,"
    " time_ms = CASE WHEN {newer} THEN excluded.time_ms ELSE m.time_ms END,"
    " value = CASE WHEN {newer} THEN excluded.value ELSE m.value END,"
    " wire = CASE WHEN {newer} THEN excluded.wire ELSE m.wire END,"
    " least = CASE WHEN m.least IS NULL OR excluded.least < m.least THEN excluded.least"
    " ELSE m.least END,"
    " most = CASE WHEN m.most IS NULL OR excluded.most > m.most THEN excluded.most"
    " ELSE m.most END"
).format(
    newer="(excluded.step, excluded.time_ms, coalesce(excluded.value, 0))"
    " >= (m.step, m.time_ms, coalesce(m.value, 0))"
)
INSERT_POINTS = (
    "INSERT INTO metric_log (run_id, attempt, rank, points, data) VALUES (?, ?, ?, ?, ?)"
)
INSERT_EVENT = (
    "INSERT INTO events (id, time_ms, team_id, actor, kind, subject, subject_id, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)

#: In the order in which they are carried out; those of one number keep their own order.
STATEMENTS: dict[int, str] = {
    RUN: INSERT_RUN,
    TAG: UPSERT_TAG,
    PARAM: "INSERT INTO params (run_id, name_id, value) VALUES (?, ?, ?)"
    " ON CONFLICT (run_id, name_id) DO NOTHING",
    LATEST: UPSERT_LATEST,
    POINTS: INSERT_POINTS,
    RUN_STATE: "UPDATE runs SET status = coalesce(?, status), end_ms = coalesce(?, end_ms)"
    " WHERE id = ?",
    EVENT: INSERT_EVENT,
}

#: Rows that may wait before they are moved, and seconds for which the first of them may.
ENOUGH_ROWS = 8_000
PATIENCE_SECONDS = 0.25

#: What a row itself is to blame for; a full or failing disk is not among it.
_ROW_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
    TypeError,
    ValueError,
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[int, list[Any]]).decode


class Journal:
    """The rows on their way: those of the open transaction, and those on disk before it."""

    def __init__(self, changes: Changes | None = None) -> None:
        self._changes = changes or Changes()
        #: entry of `journal` -> its rows by statement, but for the latest values
        self._kept: dict[int, Rows] = {}
        #: the latest values of all entries, one row a metric
        self._latest: Latest = {}
        #: rows of the open transaction, nowhere yet
        self._fresh: Rows = {}
        #: inner ids of the runs that the rows on disk are about, and those of the open transaction
        self._kept_runs: set[int] = set()
        self._fresh_runs: set[int] = set()
        self._moved = False
        #: the entry that the open transaction has written
        self._entry = 0
        #: rows that are to be moved
        self.waiting = 0

    def add(self, number: int, rows: Iterable[Values], *, run: int) -> None:
        """Take rows of the open transaction, which change a run given by its inner id."""
        self._fresh_runs.add(run)
        self._take(number, rows)

    def add_events(self, rows: Iterable[Values]) -> None:
        """Take the events of the open transaction."""
        self._take(EVENT, rows)

    def _take(self, number: int, rows: Iterable[Values]) -> None:
        found = self._fresh.get(number)
        if found is None:
            self._fresh[number] = list(rows)
        else:
            found.extend(rows)

    def is_empty(self) -> bool:
        """Tell whether the tables hold everything, as the open transaction sees them."""
        return not self._fresh and (self._moved or not self._kept)

    def move(self, conn: DatabaseConnection, now_ms: int) -> None:
        """Put every row into its table, within the open transaction."""
        if self._moved or not self._kept:
            _carry_out(conn, self._fresh)
        else:
            self._move_all(conn, now_ms)
            conn.many("DELETE FROM journal WHERE id = ?", [(entry,) for entry in self._kept])
            self._moved = True
            # They change as their readers see them, though they were announced before.
            self._changes.add(self._kept_runs)
        self._changes.add(self._fresh_runs)
        self._fresh.clear()

    def _move_all(self, conn: DatabaseConnection, now_ms: int) -> None:
        """Move what was acknowledged with what was not yet; only the former may be set aside."""
        kept = _merged(self._kept.values())
        conn.run("SAVEPOINT rows")
        try:
            _carry_out(conn, _merged([kept, self._fresh]), dict(self._latest))
        except _ROW_FAULTS:
            conn.run("ROLLBACK TO rows")
            kept[LATEST] = list(self._latest.values())
            _carry_out_one_by_one(conn, kept, now_ms)
            _carry_out(conn, self._fresh)
        conn.run("RELEASE rows")

    def write(self, conn: DatabaseConnection) -> None:
        """Lay down what has not been moved, as the last thing before a commit."""
        if self._fresh:
            self._changes.add(self._fresh_runs)
            row = (_encode(self._fresh),)
            self._entry = conn.insert("INSERT INTO journal (data) VALUES (?)", row)

    def committed(self) -> None:
        """Learn that the transaction is on disk."""
        if self._moved:
            self._kept.clear()
            self._kept_runs.clear()
            self._latest.clear()
            self.waiting = 0
            self._moved = False
        if self._fresh:
            known = len(self._latest)
            _fold(self._latest, self._fresh.pop(LATEST, ()))
            self._kept[self._entry] = self._fresh
            self.waiting += sum(map(len, self._fresh.values())) + len(self._latest) - known
            self._fresh = {}
            self._kept_runs |= self._fresh_runs
        self._fresh_runs.clear()

    def undone(self) -> None:
        """Learn that the transaction never was."""
        self._fresh = {}
        self._fresh_runs.clear()
        self._moved = False

    def show(self, conn: DatabaseConnection) -> None:
        """Put what is on disk in the journal into its tables, in a transaction nobody commits."""
        _carry_out(conn, _merged(self._kept.values()), dict(self._latest))

    def take_over(self, conn: DatabaseConnection, now_ms: int) -> None:
        """Move, within the open transaction, whatever anybody has left in the journal.

        For a file that another process writes to as well: what it has moved of ours meanwhile is
        no longer there, so it is not moved twice.
        """
        _move_entries(conn, now_ms)
        self._moved = True


def replay(conn: DatabaseConnection, now_ms: int) -> int:
    """Move what an earlier process left behind, in one transaction; return how many entries."""
    conn.begin()
    try:
        entries = _move_entries(conn, now_ms)
        conn.commit()
    except BaseException:
        conn.rollback()
        raise
    return entries


def read_over(conn: DatabaseConnection, query: Callable[[ReadConnection], T], now_ms: int) -> T:
    """Run a query on what the tables would hold if the journal were moved, and leave all as is."""
    conn.begin()
    try:
        _move_entries(conn, now_ms)
        return query(conn)
    finally:
        conn.rollback()


def rejected(conn: ReadConnection) -> int:
    """Return how many writes were set aside because nothing could be done with them."""
    row = conn.one("SELECT count(*) FROM rejected_writes")
    return int(row[0]) if row is not None else 0


def _move_entries(conn: DatabaseConnection, now_ms: int) -> int:
    """Move every entry on disk into the tables, setting aside what is not fit for them."""
    entries = conn.all("SELECT id, data FROM journal ORDER BY id")
    for entry, data in entries:
        try:
            rows = _decode(data)
        except msgspec.DecodeError as fault:
            _reject(conn, data, f"journal entry {entry} cannot be read: {fault}", now_ms)
        else:
            _carry_out_or_reject(conn, rows, now_ms)
    if entries:
        conn.run("DELETE FROM journal")
    return len(entries)


def _carry_out_or_reject(conn: DatabaseConnection, rows: Rows, now_ms: int) -> None:
    """Put rows into their tables together; if one does not fit, one by one without it."""
    conn.run("SAVEPOINT rows")
    try:
        _carry_out(conn, rows)
    except _ROW_FAULTS:
        conn.run("ROLLBACK TO rows")
        _carry_out_one_by_one(conn, rows, now_ms)
    conn.run("RELEASE rows")


def _carry_out_one_by_one(conn: DatabaseConnection, rows: Rows, now_ms: int) -> None:
    for number, statement in STATEMENTS.items():
        for row in rows.get(number, ()):
            try:
                conn.run(statement, row)
            except _ROW_FAULTS as fault:
                reason = f"a row of statement {number} does not fit its table: {fault}"
                _reject(conn, _encode({number: [row]}), reason, now_ms)


def _reject(conn: DatabaseConnection, data: bytes, reason: str, now_ms: int) -> None:
    number = conn.insert(
        "INSERT INTO rejected_writes (data, reason, created_ms) VALUES (?, ?, ?)",
        (data, reason, now_ms),
    )
    log.error("a write was set aside as row %d of rejected_writes: %s", number, reason)


def _merged(parts: Iterable[Rows]) -> Rows:
    merged: Rows = {}
    for part in parts:
        for number, rows in part.items():
            merged.setdefault(number, []).extend(rows)
    return merged


def _carry_out(conn: DatabaseConnection, rows: Rows, latest: Latest | None = None) -> None:
    """Put rows into their tables; `latest` are values to which those among the rows are added."""
    unknown = rows.keys() - STATEMENTS.keys() - RETIRED
    if unknown:
        raise SetupError(
            "this database holds writes of a newer release that this one cannot read",
            hint="start it with the release that wrote them, or upgrade",
        )
    folded: Latest = {} if latest is None else latest
    _fold(folded, rows.get(LATEST, ()))
    for number, statement in STATEMENTS.items():
        if number == LATEST:
            conn.many(statement, [folded[key] for key in sorted(folded)])
        elif number in rows:
            conn.many(statement, rows[number])


def _fold(folded: Latest, rows: Iterable[Values]) -> None:
    """Take in rows of latest values by the rule of the statement."""
    for row in rows:
        run, name_id, step, time_ms, value, low, high, wire = row
        key = (run, name_id)
        before = folded.get(key)
        if before is None:
            folded[key] = row
            continue
        _, _, last_step, last_ms, last, least, most, _ = before
        if low is None or (least is not None and least < low):
            low = least
        if high is None or (most is not None and most > high):
            high = most
        is_newer = step > last_step or (
            step == last_step and (time_ms, value or 0.0) >= (last_ms, last or 0.0)
        )
        folded[key] = (
            (run, name_id, step, time_ms, value, low, high, wire)
            if is_newer
            else (*before[:5], low, high, before[7])
        )
