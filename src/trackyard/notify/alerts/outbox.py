"""Notifications: claimed, sent, retried and listed.

Owns the sending side of `alert_deliveries` and its loop. A message is a row before it is sent, so
that none is lost with the process; several servers of one database share the work by claiming
rows. A receiver can tell a repetition by the delivery's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import msgspec

from trackyard.core.errors import YardError
from trackyard.notify.alerts import incidents, messages
from trackyard.notify.alerts.channels import Channels, OpenedChannel
from trackyard.notify.alerts.sending import send
from trackyard.outbound.client import TOTAL_SECONDS, Answer
from trackyard.outbound.retries import next_try
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)

SENDERS = 4
#: How long the sender of a message has before another may take it.
CLAIM_MS = int(TOTAL_SECONDS * 4 * 1000) + 30_000
POLL_SECONDS, IDLE_SECONDS = 5.0, 300.0
#: Seconds between looks while all that is due waits for an earlier message.
BLOCKED_SECONDS = 2.0
KEEP_MS, LISTED = 30 * 24 * 3600 * 1000, 200
#: Messages that one rule sends to one channel in an hour; more are not sent, and that is noted.
HOUR_MS, MOST_AN_HOUR = 3600 * 1000, 60


class _Due(NamedTuple):
    id: int
    team_id: int | None
    rule_id: str
    channel: str
    what: str
    incidents: list[int]
    tries: int


class DeliveryView(msgspec.Struct, frozen=True):
    """A notification as the delivery log shows it."""

    id: int
    rule_id: str
    channel: str
    channel_kind: str
    #: `opened`, `resolved`, `escalated` or `test`
    what: str
    incidents: list[int]
    #: `pending`, `sending`, `delivered` or `failed`
    state: str
    tries: int
    next_ms: int
    created_ms: int
    ended_ms: int | None
    answer_status: int | None
    error: str


class Outbox:
    """The loop that sends messages."""

    def __init__(self, database: Database, channels: Channels, base: str) -> None:
        self._db = database
        self._channels = channels
        self._base = base
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(SENDERS, thread_name_prefix="yard-alerts")

    def start(self) -> None:
        """Start sending, on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="yard-alert-outbox")

    async def stop(self) -> None:
        """Stop; unsent messages go out after the next start."""
        tasks = [task for task in (self._task, *self._sending) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def wake(self) -> None:
        """Check for due messages now."""
        self._wake.set()

    async def try_out(self, team_id: int | None, channel: str) -> Answer:
        """Send a test message immediately and return the result."""
        now_ms = self._db.clock.time_ms()
        answer = await self._send(
            team_id, channel, "test", [messages.example(now_ms)], f"test-{now_ms}"
        )
        await self._db.write(partial(_note_test, team_id, channel, answer[1], answer[0]))
        return answer[0]

    async def _run(self) -> None:
        if self._db.is_sqlite:
            # One process owns the database: whoever was sending is dead for certain.
            with contextlib.suppress(YardError):
                await self._db.write(_release)
        while True:
            self._wake.clear()
            wait = POLL_SECONDS
            try:
                wait = await self.step()
            except YardError as fault:
                log.warning("messages about alerts wait: %s", fault.message)
            except Exception:
                log.exception("a pass over the messages about alerts failed; it is tried again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def step(self) -> float:
        """Claim due messages, start sending them, and return the seconds until the next check."""
        longest = IDLE_SECONDS if self._db.is_sqlite else POLL_SECONDS
        next_ms = await self._db.peek(_next_due, journaled=False)
        if next_ms is None:
            return longest
        left = (next_ms - self._db.clock.time_ms()) / 1000
        if left > 0:
            return min(longest, max(0.05, left))
        room = SENDERS - len(self._sending)
        if room <= 0:
            return longest  # whoever ends first wakes the loop
        claimed = await self._db.write(partial(_claim, most=room))
        for due in claimed:
            task = asyncio.get_running_loop().create_task(self._deliver(due))
            self._sending.add(task)
            task.add_done_callback(self._ended)
        return 0.05 if claimed else BLOCKED_SECONDS

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._wake.set()

    async def _deliver(self, due: _Due) -> None:
        try:
            about = await self._db.read(lambda reader: incidents.load(reader, due.incidents))
            if not about:
                answer, kind = Answer(status=400, error="its incidents were removed"), ""
            else:
                answer, kind = await self._send(
                    due.team_id, due.channel, due.what, about, f"alert-{due.id}"
                )
            await self._db.write(partial(_note, due, answer, kind))
        except YardError as fault:
            log.warning("message %s was not noted: %s", due.id, fault.message)

    async def _send(
        self,
        team_id: int | None,
        name: str,
        what: str,
        about: list[incidents.Incident],
        delivery: str,
    ) -> tuple[Answer, str]:
        try:
            channel: OpenedChannel | None = await self._channels.opened(team_id, name)
        except YardError as fault:
            return Answer(status=400, error=fault.message), ""
        if channel is None:
            words = f"there is no channel {name} that this rule may use"
            return Answer(status=400, error=words), ""
        job = partial(
            send,
            channel,
            what,
            about,
            delivery=delivery,
            base=self._base,
            now_ms=self._db.clock.time_ms(),
            allowed=self._channels.allowed,
            settings=self._channels.settings,
        )
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, job)
        return answer, channel.kind


# -- inside a transaction -------------------------------------------------------------------------


def _release(tx: Tx) -> None:
    tx.run(
        "UPDATE alert_deliveries SET state = 'pending', next_ms = ? WHERE state = 'sending'",
        (tx.now_ms,),
    )


def _claim(tx: Tx, most: int) -> list[_Due]:
    """Claim the oldest due messages."""
    rows = tx.all(
        "SELECT d.id, d.team_id, d.rule_id, d.channel, d.what, d.incidents, d.tries"
        " FROM alert_deliveries d WHERE d.state IN ('pending', 'sending') AND d.next_ms <= ?"
        # One after the other to a channel, so that nothing is resolved before it was opened.
        " AND NOT EXISTS (SELECT 1 FROM alert_deliveries o WHERE o.rule_id = d.rule_id"
        " AND o.channel = d.channel AND o.id < d.id AND o.state IN ('pending', 'sending'))"
        f" ORDER BY d.next_ms, d.id LIMIT {most}{tx.dialect.for_update}",
        (tx.now_ms,),
    )
    found = []
    for row in rows:
        due = _Due(*(*row[:5], msgspec.json.decode(row[5]), row[6]))
        if due.tries == 0 and _is_flood(tx, due):
            words = f"more than {MOST_AN_HOUR} messages in an hour: raise the rule's cooldown"
            _note(due, Answer(status=429, error=words), "", tx, is_last=True)
            continue
        tx.run(
            "UPDATE alert_deliveries SET state = 'sending', next_ms = ? WHERE id = ?",
            (tx.now_ms + CLAIM_MS, due.id),
        )
        found.append(due)
    return found


def _is_flood(tx: Tx, due: _Due) -> bool:
    row = tx.one(
        "SELECT count(*) FROM alert_deliveries WHERE rule_id = ? AND channel = ?"
        " AND created_ms > ? AND state = 'delivered'",
        (due.rule_id, due.channel, tx.now_ms - HOUR_MS),
    )
    return row is not None and row[0] >= MOST_AN_HOUR


def _note(due: _Due, answer: Answer, kind: str, tx: Tx, *, is_last: bool = False) -> None:
    """Record the outcome of a delivery, and when it is retried."""
    tries = due.tries + 1
    wait = None if is_last else next_try(tries, answer)
    state = "delivered" if answer.is_good else "failed" if wait is None else "pending"
    tx.run(
        "UPDATE alert_deliveries SET state = ?, channel_kind = ?, tries = ?, next_ms = ?,"
        " ended_ms = ?, answer_status = ?, error = ? WHERE id = ?",
        (
            state,
            kind,
            tries,
            tx.now_ms + int((wait or 0) * 1000),
            None if state == "pending" else tx.now_ms,
            answer.status,
            answer.error[:500] or ("" if answer.is_good else answer.body[:500]),
            due.id,
        ),
    )
    tx.run(
        "DELETE FROM alert_deliveries WHERE state IN ('delivered', 'failed') AND created_ms < ?",
        (tx.now_ms - KEEP_MS,),
    )


def _note_test(team_id: int | None, channel: str, kind: str, answer: Answer, tx: Tx) -> None:
    tx.insert(
        "INSERT INTO alert_deliveries (team_id, rule_id, channel, channel_kind, what, incidents,"
        " state, tries, next_ms, created_ms, ended_ms, answer_status, error)"
        " VALUES (?, '', ?, ?, 'test', '[]', ?, 1, ?, ?, ?, ?, ?)",
        (
            team_id,
            channel,
            kind,
            "delivered" if answer.is_good else "failed",
            tx.now_ms,
            tx.now_ms,
            tx.now_ms,
            answer.status,
            answer.error[:500],
        ),
    )


def _next_due(reader: ReadConnection) -> int | None:
    row = reader.one(
        "SELECT min(next_ms) FROM alert_deliveries WHERE state IN ('pending', 'sending')"
    )
    return None if row is None or row[0] is None else int(row[0])


def list_deliveries(
    reader: ReadConnection, team_id: int, *, all_teams: bool
) -> list[DeliveryView]:
    """Return the latest deliveries of a team's rules, newest first; admins also see their own."""
    where = "team_id = ? OR team_id IS NULL" if all_teams else "team_id = ?"
    rows = reader.all(
        "SELECT id, rule_id, channel, channel_kind, what, incidents, state, tries, next_ms,"
        " created_ms, ended_ms, answer_status, error FROM alert_deliveries"
        f" WHERE {where} ORDER BY id DESC LIMIT {LISTED}",
        (team_id,),
    )
    return [_view(row) for row in rows]


def _view(row: Any) -> DeliveryView:
    return DeliveryView(*(*row[:5], msgspec.json.decode(row[5]), *row[6:]))
