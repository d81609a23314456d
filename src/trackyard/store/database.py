"""The database as the rest of the platform sees it: `read`, `peek` and `write`.

Owns the connections, the group-commit writer and the order of events. A write is a function of a
transaction; it is acknowledged only after its group's commit has reached the disk. Knows no table
but `events`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trackyard.core.clock import Clock
from trackyard.core.errors import SetupError, TooBusy, YardError
from trackyard.core.events import Event
from trackyard.store import crashpoints
from trackyard.store.connection import (
    DatabaseConnection,
    PostgresConnection,
    SqliteConnection,
)
from trackyard.store.faults import (
    CommitUnknown,
    SyncFault,
    away,
    explain_read,
    explain_write,
    is_full,
    is_sync_fault,
    no_room,
    not_kept,
    unconfirmed,
)
from trackyard.store.postgres.patience import bound_write
from trackyard.store.readers import Readers
from trackyard.store.sqlite import journal
from trackyard.store.sqlite.changes import EVERYTHING, Changes, WatchedConnection
from trackyard.store.sqlite.checkpoints import keep_short
from trackyard.store.sqlite.reserve import Reserve
from trackyard.store.sqlite.sole_writer import SoleWriter
from trackyard.store.transaction import ReadConnection, Tx

__all__ = ["NOT_QUICK", "Database", "Listener", "ReadConnection", "Tx"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Requests in one commit, and requests that may wait for one before callers are sent away.
GROUP_LIMIT = 256
QUEUE_LIMIT = 20_000
#: Turns of the event loop for which a group waits while it grows.
GATHER_LOOKS = 8
#: Seconds of work after which a group is committed as it is, so that the event loop gets a turn.
SLICE_SECONDS = 0.015
#: Seconds above which a commit leaves the event loop: below it, handing it to a thread costs more.
SLOW_COMMIT = 0.002
#: Seconds after which a read is ended, and for which a write waits for a database to come back.
READ_SECONDS = 10.0
RECONNECT_SECONDS = 8.0
_RETRY_SECONDS = 0.2
#: Serialises event ids across server processes on PostgreSQL: ids become visible in order.
EVENT_LOCK = 0x7961_7264

_EVENT_IDS = (
    "WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(?))"
    " SELECT nextval(pg_get_serial_sequence('events', 'id')) FROM held, generate_series(1, ?)"
)
#: A quick form of a write returns this to say that the careful one must do it.
NOT_QUICK = object()
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Pending:
    operation: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    quick: Callable[[Tx], Any] | None = None
    frees: bool = False
    is_long: bool = False
    #: the task that asked for it, by its name
    asker: str = ""
    result: Any = None
    fault: BaseException | None = None


#: Called after each commit with the ids and events it made visible.
Listener = Callable[[list[tuple[int, int, Event]]], None]


class Database:
    """Readers on their own connections, one writer that commits requests in groups."""

    def __init__(
        self, url: str, *, clock: Clock, readers: int = 4, reserve: Reserve | None = None
    ) -> None:
        self.url = url
        self._reserve = reserve or Reserve(None)
        self.clock = clock
        self.is_sqlite = url.startswith("sqlite:///")
        self._queue: deque[_Pending] = deque()
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._listeners: list[Listener] = []
        #: called when a transaction was undone, so that caches can forget what it taught them
        self.undo_hooks: list[Callable[[], None]] = []
        #: what the writer's transactions change; SQLite only
        self.changes = Changes()
        self.journal = journal.Journal(self.changes)
        #: called after each commit with the inner ids of the runs it changed, before any caller
        #: hears of it: the one place from which caches learn what to forget
        self.commit_hooks: list[Callable[[Collection[int]], None]] = []
        self._sole = SoleWriter()
        #: whether the peeker shows what can no longer be moved, and so serves every reader
        self._has_last_view = False
        #: whether every write of the open group went by its quick form
        self._is_quick_group = False
        self._moving: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[bool]] = set()
        self._commits = ThreadPoolExecutor(1, thread_name_prefix="yard-commit")
        self._mover: asyncio.Task[None] | None = None
        self._readers = Readers(
            readers, lambda: self._connect(readonly=True), is_remote=not self.is_sqlite
        )
        #: who asked for the write that is being run
        self.writing_for = ""
        self._writer = self._connect(readonly=False)
        self._peeker = self._connect(readonly=True)
        #: set once the disk has failed to keep a commit: nothing is written any more
        self._is_broken = False
        #: whether a write has waited for the database in vain, so that the next need not
        self._is_away = False
        #: running mean of what a commit takes
        self._commit_seconds = 0.0
        self.committed_groups = 0
        self.committed_requests = 0

    # -- life -------------------------------------------------------------------------------

    def _connect(self, *, readonly: bool) -> SqliteConnection | PostgresConnection:
        if self.is_sqlite:
            return SqliteConnection(Path(self.url[len("sqlite:///") :]), readonly=readonly)
        return PostgresConnection(self.url, readonly=readonly)

    def start(self) -> None:
        """Begin to take writes on the running event loop."""
        self._wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        if self.is_sqlite:
            self._recover()
            self._reserve.hold()
        self._task = loop.create_task(self._write_loop(), name="yard-writer")
        if self.is_sqlite:
            self._mover = loop.create_task(keep_short(self.url), name="yard-checkpoint")

    def _recover(self) -> None:
        """Move what a crash left in the journal, and see which keys are given out next."""
        entries = journal.replay(self._writer, self.clock.time_ms())
        if entries:
            log.info("moved %d journal entries of an earlier process into their tables", entries)
        self._sole.learn(self._writer)

    def _check_alone(self) -> None:
        """Forget what is known if another process wrote to the file, pointed at it by mistake."""
        if self._sole.was_alone(self._writer):
            return
        self.journal.take_over(self._writer, self.clock.time_ms())
        self._sole.learn(self._writer)
        self.changes.add((EVERYTHING,))
        for hook in self.undo_hooks:
            hook()

    async def close(self) -> None:
        """Commit what is queued, then close every connection."""
        if self._task is not None and not self._closing:
            await asyncio.gather(self._move_waiting(), return_exceptions=True)
        self._closing = True
        if self._moving is not None:
            self._moving.cancel()
        if self._task is not None and self._wake is not None:
            self._wake.set()
            await self._task
        if self._mover is not None:
            self._mover.cancel()
            await asyncio.gather(self._mover, return_exceptions=True)
        self._commits.shutdown(wait=True)
        self._readers.close()
        self._peeker.close()
        self._writer.close()

    def listen(self, listener: Listener) -> None:
        """Call `listener` after each commit that recorded events."""
        self._listeners.append(listener)

    # -- reads ------------------------------------------------------------------------------

    async def read(
        self, query: Callable[[ReadConnection], T], *, seconds: float | None = READ_SECONDS
    ) -> T:
        """Run a query function on a reader connection, off the event loop.

        None for `seconds` lets it take its time: for work that no caller waits for.
        """
        if self.journal.waiting and not await self._move_waiting():
            if self._has_last_view:
                return query(self._peeker)
            return await self._readers.run(lambda _: self._read_over_journal(query), seconds)
        return await self._readers.run(query, seconds)

    async def peek(self, query: Callable[[ReadConnection], T], *, journaled: bool = True) -> T:
        """Run a point look-up at once: on the loop for SQLite, where a thread would cost more.

        A query that looks at no table of the journal's says so, and waits for none of its rows.
        """
        if self.is_sqlite:
            if journaled and self.journal.waiting and not await self._move_waiting():
                return await self.read(query)
            try:
                return query(self._peeker)
            except sqlite3.DatabaseError as fault:
                raise explain_read(fault, None) or fault from fault
        return await self.read(query)

    async def _move_waiting(self) -> bool:
        """Bring rows that wait in the journal into their tables; return whether they are there."""
        try:
            await self.write(_nothing, frees=True)
        except YardError as fault:
            # They stay on disk and are tried again.
            log.warning("cannot move the journal into its tables now: %s", fault.message)
            if self._is_broken and not self._has_last_view:
                self._has_last_view = True
                self._peeker = self._last_view()
                for hook in self.commit_hooks:
                    hook((EVERYTHING,))
            return False
        return True

    def _read_over_journal(self, query: Callable[[ReadConnection], T]) -> T:
        """Run a query on what the tables would hold, where the journal cannot be moved now."""
        conn = self._connect(readonly=False)
        with contextlib.closing(conn):
            return journal.read_over(conn, query, self.clock.time_ms())

    def _last_view(self) -> SqliteConnection | PostgresConnection:
        """Return a connection that shows all that was acknowledged, where no more is written."""
        conn = self._connect(readonly=False)
        conn.begin()
        self.journal.show(conn)
        return conn

    def _move_soon(self) -> None:
        """See to it that no row waits in the journal for long."""
        loop = asyncio.get_running_loop()
        if self.journal.waiting >= journal.ENOUGH_ROWS:
            self._queue_move()
        elif self._moving is None:
            self._moving = loop.call_later(journal.PATIENCE_SECONDS, self._queue_move)

    def _queue_move(self) -> None:
        if self._moving is not None:
            self._moving.cancel()
            self._moving = None
        if self.journal.waiting and not self._closing:
            task = asyncio.get_running_loop().create_task(self._move_waiting())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    # -- writes -----------------------------------------------------------------------------

    def write(
        self,
        operation: Callable[[Tx], T],
        quick: Callable[[Tx], Any] | None = None,
        *,
        frees: bool = False,
        is_long: bool = False,
    ) -> asyncio.Future[T]:
        """Queue a write; the future resolves once the commit is durable.

        `quick` does the same without looking at the database: it checks by what this process
        knows, defers its rows as its last act, or returns NOT_QUICK. SQLite only, where no other
        process writes. `frees` says that it makes room, so that a full disk takes it still.
        `is_long` says that it takes more than a few milliseconds: it runs off the event loop.
        """
        if self._wake is None or self._closing:
            raise TooBusy("the server is shutting down; try again shortly", retry_after=2)
        if len(self._queue) >= QUEUE_LIMIT:
            raise TooBusy("the server has more writes than it can take; slow down", retry_after=5)
        if self._is_broken:
            raise not_kept()
        if self._reserve.is_spent and not frees and not self._reserve.is_back():
            raise no_room()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if not self.is_sqlite:
            bound_write(future)
        task = asyncio.current_task()
        asker, brief = task.get_name() if task else "", quick if self.is_sqlite else None
        self._queue.append(_Pending(operation, future, brief, frees, is_long, asker))
        if not self._wake.is_set():
            self._wake.set()
        return future

    async def _write_loop(self) -> None:
        assert self._wake is not None
        loop = asyncio.get_running_loop()
        while True:
            if not self._queue:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._gather()
            group = self._next_group()
            try:
                if self.is_sqlite and not group[0].is_long:
                    events = self._run_group(group)
                    if self._commit_seconds < SLOW_COMMIT:
                        self._commit()
                    else:
                        await loop.run_in_executor(self._commits, self._commit)
                else:
                    run = self._run_here if self.is_sqlite else self._run_and_commit
                    events = await loop.run_in_executor(self._commits, run, group)
            except BaseException as fault:  # noqa: BLE001 - whatever it was, each gets its own try
                log.warning("a group of %d writes failed together: %s", len(group), fault)
                events = await loop.run_in_executor(self._commits, self._after_fault, group, fault)
            if crashpoints.ARMED:
                crashpoints.reached("after-commit", [event.kind for _, _, event in events])
            self._settle(group, events)

    def _next_group(self) -> list[_Pending]:
        """Take the writes of the next commit; a long one has a commit of its own."""
        group = [self._queue.popleft()]
        while self._queue and len(group) < GROUP_LIMIT:
            if self._queue[0].is_long or group[0].is_long:
                break
            group.append(self._queue.popleft())
        return group

    async def _gather(self) -> None:
        """Let requests that are on their way join the group: a commit costs more than a look."""
        for _ in range(GATHER_LOOKS):
            before = len(self._queue)
            await asyncio.sleep(0)
            if len(self._queue) == before:
                return

    def _settle(self, group: list[_Pending], events: list[tuple[int, int, Event]]) -> None:
        changed = self.changes.take()
        if changed:
            for hook in self.commit_hooks:
                hook(changed)
        if self.journal.waiting:
            self._move_soon()
        self.committed_groups += 1
        self.committed_requests += len(group)
        for pending in group:
            if pending.future.done():
                continue
            if pending.fault is not None:
                pending.future.set_exception(pending.fault)
            else:
                pending.future.set_result(pending.result)
        if events:
            for listener in self._listeners:
                listener(events)

    def _commit(self) -> None:
        """Commit the open transaction and learn how long this disk takes for it."""
        began = self.clock.monotonic()
        if crashpoints.ARMED and crashpoints.due("sync-fault"):
            self._is_broken = True
            raise not_kept()
        try:
            self._writer.commit()
        except sqlite3.Error as fault:
            if not is_sync_fault(fault):
                raise
            log.critical("the disk failed to flush a commit (%s); writes end here", fault)
            self._is_broken = True
            raise not_kept() from fault
        self.journal.committed()
        took = self.clock.monotonic() - began
        self._commit_seconds += (took - self._commit_seconds) * 0.1

    def _run_and_commit(self, group: list[_Pending]) -> list[tuple[int, int, Event]]:
        """Run and commit a group on PostgreSQL, finding out about a commit that got no answer."""
        events = self._run_group(group)
        writer = self._writer
        row = writer.one("SELECT txid_current_if_assigned()")
        try:
            writer.commit()
        except BaseException as fault:
            if row is None or row[0] is None or not _is_lost(writer):
                raise
            log.warning("the database went away during a commit: %s", fault)
            if not self._was_committed(int(row[0])):
                raise
        return events

    def _was_committed(self, transaction: int) -> bool:
        """Ask a database that is back what became of a transaction."""
        deadline = self.clock.monotonic() + RECONNECT_SECONDS
        while self.clock.monotonic() < deadline:
            try:
                row = self._ensure_writer().one("SELECT txid_status(?)", (transaction,))
            except YardError:
                break
            except Exception as fault:  # noqa: BLE001 - it went away again: ask again
                log.warning("cannot ask about a commit yet: %s", fault)
                row = ("in progress",)
            if row is not None and row[0] in ("committed", "aborted"):
                return bool(row[0] == "committed")
            time.sleep(_RETRY_SECONDS)
        raise unconfirmed()

    def _run_group(self, group: list[_Pending]) -> list[tuple[int, int, Event]]:
        """Run every operation of a group in one open transaction."""
        writer = self._ensure_writer()
        now_ms = self.clock.time_ms()
        writer.begin()
        watched: DatabaseConnection = writer
        if self.is_sqlite:
            self._check_alone()
            watched = WatchedConnection(writer, self.changes)
        events: list[Event] = []
        self._is_quick_group = True
        until = self.clock.monotonic() + SLICE_SECONDS
        for at, pending in enumerate(group):
            if self._put_back(group, at, until):
                break
            self.writing_for = pending.asker
            tx = Tx(watched, now_ms, later=self.journal.add, new_id=self._sole.new_id)
            if pending.quick is not None and self._run_quick(pending, tx):
                events.extend(tx.events)
                continue
            self._is_quick_group = False
            if not self.journal.is_empty():
                self.journal.move(writer, now_ms)
            before = writer.changes()
            try:
                pending.result = pending.operation(tx)
                pending.fault = None
            except YardError as refusal:
                if writer.changes() != before:
                    raise  # it wrote before it refused: run the group one by one
                pending.fault = refusal
                continue
            events.extend(tx.events)
        if crashpoints.ARMED:
            crashpoints.reached("before-commit", [event.kind for event in events])
        return self._append(writer, now_ms, events)

    def _put_back(self, group: list[_Pending], at: int, until: float) -> bool:
        """Leave the rest of a group to the next one if this one has held the loop for long."""
        if at == 0 or not self.is_sqlite or self.clock.monotonic() <= until:
            return False
        self._queue.extendleft(reversed(group[at:]))
        del group[at:]
        return True

    def _append(
        self, writer: DatabaseConnection, now_ms: int, events: Iterable[Event]
    ) -> list[tuple[int, int, Event]]:
        """Write the group's events last, so that their ids follow commit order."""
        if self.is_sqlite:
            return self._append_here(writer, now_ms, events)
        made = list(events)
        if not made:
            return []
        # The lock comes first, and with it the order of the ids.
        ids = writer.all(_EVENT_IDS, (EVENT_LOCK, len(made)))
        written = [(int(row[0]), now_ms, event) for row, event in zip(ids, made, strict=True)]
        rows = [(number, *_event_row(now_ms, event)) for number, _, event in written]
        writer.many(journal.INSERT_EVENT, rows)
        return written

    def _run_quick(self, pending: _Pending, tx: Tx) -> bool:
        """Try a write's quick form; return whether that settled it."""
        assert pending.quick is not None
        try:
            result = pending.quick(tx)
        except YardError as refusal:
            pending.fault = refusal
            return True
        if result is NOT_QUICK:
            tx.events.clear()
            return False
        pending.result, pending.fault = result, None
        return True

    def _append_here(
        self, writer: DatabaseConnection, now_ms: int, events: Iterable[Event]
    ) -> list[tuple[int, int, Event]]:
        """Write a group's events on SQLite, into the journal if all else of the group is there."""
        written = [(self._sole.new_id("events"), now_ms, event) for event in events]
        rows = [(number, *_event_row(now_ms, event)) for number, _, event in written]
        if rows and self._is_quick_group:
            self.journal.add_events(rows)
        elif rows:
            writer.many(journal.INSERT_EVENT, rows)
        self.journal.write(writer)
        return written

    def _after_fault(
        self, group: list[_Pending], fault: BaseException
    ) -> list[tuple[int, int, Event]]:
        """Give each operation a transaction of its own, unless none may be tried again."""
        self._undo()
        events: list[tuple[int, int, Event]] = []
        hopeless = fault if isinstance(fault, SyncFault | CommitUnknown) else None
        for pending in group:
            if hopeless is not None:
                pending.fault = type(hopeless)(hopeless.message, retry_after=hopeless.retry_after)
                continue
            try:
                events.extend(self._run_alone(pending))
            except (SyncFault, CommitUnknown) as ended:
                self._undo()
                hopeless = pending.fault = ended
            except YardError as refusal:
                self._undo()
                pending.fault = refusal
            except BaseException as broken:
                self._undo()
                log.error("write failed: %s", broken, exc_info=broken)
                pending.fault = explain_write(broken)
        return events

    def _run_alone(self, pending: _Pending) -> list[tuple[int, int, Event]]:
        """Run one write; what makes room gets a second try in the space kept back for it."""
        if not self.is_sqlite:
            return self._run_and_commit([pending])
        try:
            return self._run_here([pending])
        except sqlite3.OperationalError as fault:
            if not (pending.frees and is_full(fault) and self._reserve.spend()):
                raise
            self._undo()
            return self._run_here([pending])

    def _run_here(self, group: list[_Pending]) -> list[tuple[int, int, Event]]:
        events = self._run_group(group)
        self._commit()
        return events

    def _undo(self) -> None:
        self.journal.undone()
        self._sole.doubt()
        for hook in self.undo_hooks:
            hook()
        try:
            self._writer.rollback()
        except Exception as fault:  # noqa: BLE001 - the connection is replaced next
            log.warning("rollback failed: %s", fault)

    def _ensure_writer(self) -> SqliteConnection | PostgresConnection:
        """Return the writer's connection, waiting a while for a database that has gone away."""
        if not _is_lost(self._writer):
            return self._writer
        deadline = self.clock.monotonic() + (0 if self._is_away else RECONNECT_SECONDS)
        while True:
            try:
                self._writer = self._connect(readonly=False)
            except SetupError as fault:
                if self.clock.monotonic() >= deadline:
                    self._is_away = True
                    raise away() from fault
                time.sleep(_RETRY_SECONDS)
            else:
                self._is_away = False
                return self._writer


def _event_row(now_ms: int, event: Event) -> tuple[Any, ...]:
    data = _encode(event.data).decode()
    return now_ms, event.team_id, event.actor, event.kind, event.subject, event.subject_id, data


def _nothing(_: Tx) -> None:
    """Write nothing: whatever waits is moved before a careful write, even before this one."""


def _is_lost(conn: SqliteConnection | PostgresConnection) -> bool:
    return isinstance(conn, PostgresConnection) and conn.closed()
