"""Deliveries to webhooks: made from the event log, sent, tried again, and listed afterwards.

Owns the table `webhook_deliveries` and the loop. A delivery is a row before it is sent, so that
none is lost with the process; several servers of one database share the work by claiming rows.
Each webhook gets one delivery at a time, in the order of events, as far as none fails.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
import secrets
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import YardError
from trackyard.core.events import Event
from trackyard.notify import webhooks
from trackyard.notify.hook_events import EXAMPLES, KINDS, body_of, translate
from trackyard.notify.webhooks import WebhookRow, Webhooks
from trackyard.outbound.client import TOTAL_SECONDS, Answer, post
from trackyard.outbound.retries import next_try
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)

#: Calls under way at once, and events read in one go for one webhook.
SENDERS, EVENTS_AT_ONCE = 4, 200
#: How long the sender of a delivery has before another may take it.
CLAIM_MS = int(TOTAL_SECONDS * 4 * 1000) + 30_000
#: Seconds between looks where another server may have written, and where none can.
POLL_SECONDS, IDLE_SECONDS = 5.0, 300.0
#: How long the log of deliveries is kept, and how much of it is shown.
KEEP_MS, LISTED = 30 * 24 * 3600 * 1000, 200
_COLUMNS = "d.id, d.event, d.body, d.tries, d.next_ms"


class DeliveryLoop:
    """The loop that tells webhooks what happened."""

    def __init__(self, database: Database, hooks: Webhooks) -> None:
        self._db = database
        self._hooks = hooks
        hooks.on_change = self._look
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(SENDERS, thread_name_prefix="yard-outbound")
        #: whether there may be an active webhook; nothing is read where there is none
        self._has_hooks = True

    def start(self) -> None:
        """Begin to deliver, on the running event loop."""
        self._db.listen(self._heard)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="yard-webhooks")

    async def stop(self) -> None:
        """Stop; what was not sent is sent after the next start."""
        tasks = [task for task in (self._task, *self._sending.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def try_out(self, webhook: WebhookRow, event: str | None) -> dict[str, Any]:
        """Send an example at once and return what came of it, in MLflow's form."""
        chosen = event or webhook.events[0]
        body = body_of(chosen, EXAMPLES.get(chosen, {}), self._db.clock.time_ms())
        answer = await self._send(webhook, str(uuid.uuid4()), body)
        return {
            "success": answer.is_good,
            **({"response_status": answer.status} if answer.status is not None else {}),
            **({"response_body": answer.body} if answer.body else {}),
            **({"error_message": answer.error} if answer.error else {}),
        }

    async def log_of(self, principal: Principal, webhook_id: str) -> list[dict[str, Any]]:
        """Return the last deliveries of a webhook, the newest first."""

        def query(reader: ReadConnection) -> list[dict[str, Any]]:
            webhooks.find(reader, principal, webhook_id)
            rows = reader.all(
                "SELECT id, event, state, tries, next_ms, created_ms, ended_ms, answer_status,"
                " error FROM webhook_deliveries WHERE webhook_id = ?"
                f" ORDER BY created_ms DESC, id LIMIT {LISTED}",
                (webhook_id,),
            )
            names = (
                "id",
                "event",
                "state",
                "tries",
                "next_ms",
                "created_ms",
                "ended_ms",
                "answer_status",
                "error",
            )
            return [dict(zip(names, row, strict=True)) for row in rows]

        return await self._db.read(query)

    # -- the loop ---------------------------------------------------------------------------

    def _heard(self, events: list[tuple[int, int, Event]]) -> None:
        if self._has_hooks and any(event.kind in KINDS for _, _, event in events):
            self._wake.set()

    def _look(self) -> None:
        self._has_hooks = True
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait = POLL_SECONDS
            try:
                wait = await self._pass()
            except YardError as fault:
                log.warning("webhooks wait: %s", fault.message)
            except Exception:
                log.exception("a pass over the webhooks failed; it is tried again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def _pass(self) -> float:
        """Make what is to be sent, send what is due, and return the seconds until the next."""
        longest = IDLE_SECONDS if self._db.is_sqlite else POLL_SECONDS
        if not await self._db.peek(webhooks.active, journaled=False):
            self._has_hooks = False
            return longest
        self._has_hooks = True
        await self._db.write(_make)
        busy = tuple(self._sending)
        room = SENDERS - len(busy)
        due = await self._db.write(partial(_claim, busy=busy, most=room)) if room > 0 else []
        for webhook, delivery in due:
            task = asyncio.get_running_loop().create_task(self._deliver(webhook, delivery))
            self._sending[webhook.id] = task
        if len(self._sending) >= SENDERS:
            return longest  # whoever ends first wakes the loop
        next_ms = await self._db.peek(partial(_next_due, busy=tuple(self._sending)))
        if next_ms is None:
            return longest
        left = (next_ms - self._db.clock.time_ms()) / 1000
        return min(longest, max(0.05, left))

    async def _deliver(self, webhook: WebhookRow, delivery: tuple[Any, ...]) -> None:
        delivery_id, _, body, tries, _ = delivery
        try:
            answer = await self._send(webhook, delivery_id, body)
            await self._db.write(partial(_note, delivery_id, tries + 1, answer))
        except YardError as fault:
            log.warning("delivery %s was not noted: %s", delivery_id, fault.message)
        finally:
            self._sending.pop(webhook.id, None)
            self._wake.set()

    async def _send(self, webhook: WebhookRow, delivery_id: str, body: str) -> Answer:
        secret = await self._hooks.secret_of(webhook)
        now = str(self._db.clock.time_ms() // 1000)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "trackyard-webhooks",
            "X-MLflow-Delivery-Id": delivery_id,
            "X-MLflow-Timestamp": now,
        }
        if secret:
            headers["X-MLflow-Signature"] = sign(secret, delivery_id, now, body)
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, post, webhook.url, body.encode(), headers, self._hooks.allowed
        )


def sign(secret: str, delivery_id: str, timestamp: str, body: str) -> str:
    """Return a delivery's signature, as MLflow's receivers check it."""
    signed = f"{delivery_id}.{timestamp}.{body}".encode()
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


# -- inside a transaction -------------------------------------------------------------------------


def _make(tx: Tx) -> None:
    """Make deliveries of the events since the last look, and forget old ones."""
    marks = ",".join("?" * len(KINDS))
    for webhook, team_id, after in webhooks.active(tx):
        rows = tx.all(
            "SELECT id, time_ms, kind, subject_id, data FROM events WHERE team_id = ? AND id > ?"
            f" AND kind IN ({marks}) ORDER BY id LIMIT {EVENTS_AT_ONCE}",
            (team_id, after, *KINDS),
        )
        for event_id, time_ms, kind, subject, data in rows:
            found = translate(tx, team_id, kind, subject, msgspec.json.decode(data))
            if found is not None and found[0] in webhook.events:
                tx.run(
                    "INSERT INTO webhook_deliveries (id, webhook_id, event, body, state, tries,"
                    " next_ms, created_ms, error) VALUES (?, ?, ?, ?, 'pending', 0, ?, ?, '')",
                    (
                        _new_id(event_id),
                        webhook.id,
                        found[0],
                        body_of(*found, time_ms),
                        tx.now_ms,
                        tx.now_ms,
                    ),
                )
        if rows:
            webhooks.told(tx, webhook.id, rows[-1][0])
    tx.run(
        "DELETE FROM webhook_deliveries WHERE state <> 'pending' AND created_ms < ?",
        (tx.now_ms - KEEP_MS,),
    )


def _new_id(event_id: int) -> str:
    """Return an id that nobody guesses and that sorts in the order of events."""
    return str(uuid.UUID(int=(event_id << 64) | secrets.randbits(64)))


def _claim(tx: Tx, busy: tuple[str, ...], most: int) -> list[tuple[WebhookRow, tuple[Any, ...]]]:
    """Take the oldest due delivery of each webhook that nobody is sending to."""
    found: list[tuple[WebhookRow, tuple[Any, ...]]] = []
    for webhook, _, _ in webhooks.active(tx):
        if webhook.id in busy or len(found) >= most:
            continue
        row = tx.one(
            f"SELECT {_COLUMNS} FROM webhook_deliveries d WHERE d.webhook_id = ?"
            " AND d.state = 'pending' AND d.next_ms <= ?"
            f" ORDER BY d.created_ms, d.id LIMIT 1{tx.dialect.for_update}",
            (webhook.id, tx.now_ms),
        )
        if row is not None:
            tx.run(
                "UPDATE webhook_deliveries SET next_ms = ? WHERE id = ?",
                (tx.now_ms + CLAIM_MS, row[0]),
            )
            found.append((webhook, row))
    return found


def _note(delivery_id: str, tries: int, answer: Answer, tx: Tx) -> None:
    """Note what came of a delivery, and when it is tried again."""
    wait = next_try(tries, answer)
    state = "delivered" if answer.is_good else "failed" if wait is None else "pending"
    tx.run(
        "UPDATE webhook_deliveries SET state = ?, tries = ?, next_ms = ?, ended_ms = ?,"
        " answer_status = ?, error = ? WHERE id = ?",
        (
            state,
            tries,
            tx.now_ms + int((wait or 0) * 1000),
            None if state == "pending" else tx.now_ms,
            answer.status,
            answer.error[:500] or ("" if answer.is_good else answer.body[:500]),
            delivery_id,
        ),
    )


def _next_due(reader: ReadConnection, busy: tuple[str, ...]) -> int | None:
    """Return when the next delivery is due, but for webhooks that are being sent to."""
    marks = f" AND w.id NOT IN ({','.join('?' * len(busy))})" if busy else ""
    row = reader.one(
        "SELECT min(d.next_ms) FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id"
        f" WHERE d.state = 'pending' AND w.status = 'ACTIVE'{marks}",
        busy,
    )
    return None if row is None or row[0] is None else int(row[0])
