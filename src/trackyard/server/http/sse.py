"""Live updates: one stream per tab, fed by commits. Owns subscribers and resumption; knows no
route.

Events of the log carry their id, so a client that comes back with Last-Event-ID misses nothing.
Notices of new metric points are light and carry none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from trackyard.core.events import Event
from trackyard.store.database import Database, ReadConnection
from trackyard.store.event_log import newest_id, read_events
from trackyard.tracking.watched import points_after

log = logging.getLogger(__name__)

QUEUE = 1000
#: Events that are read at a time for a stream that resumes, or from other server processes.
PAGE = 1000
#: Seconds between two notices about one run's points, and between signs of life.
POINTS_EVERY = 0.5
PING_EVERY = 15.0
#: How often PostgreSQL is asked for events that other server processes wrote.
POLL_EVERY = 1.0

#: The id of an event, if it has one, and its text.
Message = tuple[int | None, bytes]
_encode = msgspec.json.Encoder().encode


class Subscriber:
    """One open stream."""

    __slots__ = ("lost", "team_id", "waiting", "wake")

    def __init__(self, team_id: int) -> None:
        self.team_id = team_id
        self.waiting: deque[Message] = deque()
        self.wake = asyncio.Event()
        self.lost = False

    def offer(self, messages: Sequence[Message]) -> None:
        """Queue messages; a reader too slow for them is told to read again."""
        if len(self.waiting) + len(messages) > QUEUE:
            self.lost = True
        else:
            self.waiting.extend(messages)
        self.wake.set()

    def clear(self) -> None:
        """Drop what waits: it is read from the log instead."""
        self.lost = False
        self.waiting.clear()

    def take(self, after: int) -> tuple[bytes, int]:
        """Return what waits beyond an event, as one piece, and the last event in it."""
        parts = []
        for event_id, message in self.waiting:
            if event_id is None or event_id > after:
                after = event_id or after
                parts.append(message)
        self.waiting.clear()
        return b"".join(parts), after


class Hub:
    """Hands committed events to the streams of their team."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._subscribers: set[Subscriber] = set()
        self._touched: dict[tuple[int, str], None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._last_id = 0
        #: the newest row of points at the last look but one, and at the last
        self._points_seen = (0, 0)
        self.closing = False
        if database.is_sqlite:
            database.listen(self._committed)

    def start(self) -> None:
        """Begin to hand out notices, and to poll where other processes write too."""
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._flush_points(), name="yard-points"))
        if not self._db.is_sqlite:
            self._tasks.append(loop.create_task(self._poll(), name="yard-poll"))

    async def stop(self) -> None:
        """End every stream."""
        self.closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for subscriber in self._subscribers:
            subscriber.wake.set()

    def points(self, team_id: int, run_id: str) -> None:
        """Note that a run has new points."""
        if self._subscribers:
            self._touched[(team_id, run_id)] = None

    def _committed(self, events: list[tuple[int, int, Event]]) -> None:
        if not self._subscribers:
            return
        if len(events) > QUEUE:
            # More than any stream could take: each reads the log, a page at a time.
            teams = {event.team_id for _, _, event in events}
            for subscriber in self._subscribers:
                if subscriber.team_id in teams:
                    subscriber.lost = True
                    subscriber.wake.set()
            return
        self._deliver([shape(*one) for one in events])

    def _deliver(self, events: list[dict[str, Any]]) -> None:
        """Hand events to all who listen: each is put into words once, and queued with the rest."""
        teams: dict[int | None, list[Message]] = {one.team_id: [] for one in self._subscribers}
        for event in events:
            if (messages := teams.get(event["team_id"])) is not None:
                messages.append((event["id"], _message(event["id"], _encode(event))))
        for subscriber in self._subscribers:
            if messages := teams[subscriber.team_id]:
                subscriber.offer(messages)

    async def _flush_points(self) -> None:
        while True:
            await asyncio.sleep(POINTS_EVERY)
            touched, self._touched = self._touched, {}
            by_team: dict[int, list[str]] = {}
            for team_id, run_id in touched:
                by_team.setdefault(team_id, []).append(run_id)
            for team_id, runs in by_team.items():
                message = _message(None, _encode({"kind": "points", "runs": runs[:1000]}))
                for subscriber in self._subscribers:
                    if subscriber.team_id == team_id:
                        subscriber.offer([(None, message)])

    async def _poll(self) -> None:
        """Fetch what any process has written, for as long as the server lives."""
        while True:
            try:
                if self._subscribers and self._last_id:
                    await self._deliver_new()
                    await self._note_points()
                else:
                    await self._skip_to_newest()
            except Exception as fault:  # noqa: BLE001 - a database that is away comes back
                log.warning("cannot fetch new events now: %s", fault)
            await asyncio.sleep(POLL_EVERY)

    async def _skip_to_newest(self) -> None:
        """Begin after what is there now, unless someone listens already."""
        newest = await self._db.read(newest_id)
        if not (self._subscribers and self._last_id):
            self._last_id = newest

    async def _note_points(self) -> None:
        """Note which runs got points by any process; those seen at the last look once more, for
        rows become visible out of their order.
        """
        before, last = self._points_seen
        newest, found = await self._db.read(partial(points_after, after=before, most=PAGE))
        self._points_seen = (last or newest, newest)
        for team_id, run_id in found if before else ():
            self._touched[(team_id, run_id)] = None

    async def _deliver_new(self) -> None:
        is_more = True
        while is_more:
            rows = await self._db.read(
                partial(read_events, team_id=None, since=self._last_id, limit=PAGE)
            )
            if rows:
                self._last_id = rows[-1]["id"]
                self._deliver(rows)
            is_more = len(rows) == PAGE

    async def stream(self, team_id: int, since: int | None) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events of a team, first those after `since`, then as they happen."""
        subscriber = Subscriber(team_id)
        self._subscribers.add(subscriber)
        try:
            if not self._last_id and not self._db.is_sqlite:
                await self._skip_to_newest()
            yield b"retry: 2000\n\n"
            last, is_behind = since or 0, since is not None
            while not self.closing:
                if is_behind:
                    page = await self._db.read(partial(_page, team_id=team_id, since=last))
                    is_behind, last = page.is_full, page.last
                    if page.text:
                        yield page.text
                    continue
                if subscriber.lost:
                    subscriber.clear()
                    is_behind = last > 0
                    yield b"event: reload\ndata: {}\n\n"
                    continue
                piece, last = subscriber.take(last)
                yield piece or b": alive\n\n"
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PING_EVERY):
                        await subscriber.wake.wait()
                subscriber.wake.clear()
        finally:
            self._subscribers.discard(subscriber)


def shape(event_id: int, time_ms: int, event: Event) -> dict[str, Any]:
    """Return an event as JSON shows it."""
    return {
        "id": event_id,
        "time_ms": time_ms,
        "team_id": event.team_id,
        "actor": event.actor,
        "kind": event.kind,
        "subject": event.subject,
        "subject_id": event.subject_id,
        "data": event.data,
    }


class _Page(NamedTuple):
    """A page of a team's events as one piece of a stream."""

    text: bytes
    last: int
    is_full: bool


def _page(reader: ReadConnection, team_id: int, since: int) -> _Page:
    rows = read_events(reader, team_id, since=since, limit=PAGE)
    text = b"".join(_message(event["id"], _encode(event)) for event in rows)
    return _Page(text, rows[-1]["id"] if rows else since, len(rows) == PAGE)


def _message(event_id: int | None, data: bytes) -> bytes:
    head = b"" if event_id is None else b"id: %d\n" % event_id
    return head + b"data: " + data + b"\n\n"
