"""The loop that judges rules, on the server that schedules and nowhere else.

Owns when it looks and how what it found is applied: memory, incidents, messages and how far the
log was read are one transaction, which proves that this server still leads. So a server that dies
anywhere leaves either all of it or nothing, and no incident is opened twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from trackyard.access import recipients
from trackyard.core.alerts import METRIC_KINDS, ConditionKind
from trackyard.core.errors import YardError
from trackyard.core.events import Event
from trackyard.notify import inbox
from trackyard.notify.alerts import incidents, records
from trackyard.notify.alerts.looking import KINDS_OF_INTEREST, look, open_world
from trackyard.notify.alerts.world import AlertFindings, AlertState, RulesInForce, choose_kept
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)

#: Seconds between full looks, between looks at the log where others may have written, and the
#: least between two that are woken by commits.
FULL_SECONDS, IDLE_SECONDS, POLL_SECONDS, LEAST_SECONDS = 5.0, 300.0, 2.0, 0.2
#: Writes of one transaction beyond which it runs off the event loop.
FEW = 20
HOUR_MS = 3600 * 1000
#: Kinds of rules that need more than events.
_LOOKING = METRIC_KINDS | {ConditionKind.LOG, ConditionKind.WAIT, ConditionKind.STALL}


class AlertLoop:
    """Judges all rules by what is new."""

    def __init__(
        self,
        database: Database,
        *,
        is_leader: Callable[[], bool],
        prove: Callable[[Tx], None],
        told: Callable[[], None],
    ) -> None:
        self._db = database
        self._is_leader = is_leader
        self._prove = prove
        #: called when there may be something to send
        self._told = told
        self._world: AlertState | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._full_ms = 0
        self._swept_ms = 0

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._db.listen(self._heard)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="yard-alerts")

    async def stop(self) -> None:
        """Stop; what was not judged is judged after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _heard(self, events: list[tuple[int, int, Event]]) -> None:
        if any(event.kind.startswith(KINDS_OF_INTEREST) for _, _, event in events):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait = POLL_SECONDS
            try:
                wait = await self.step()
            except YardError as fault:
                self._world = None
                log.warning("alerts wait: %s", fault.message)
            except Exception:
                self._world = None
                log.exception("a pass over the alerts failed; it is tried again")
            await asyncio.sleep(LEAST_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def step(self) -> float:
        """Look, judge and apply once; return the seconds until the next look."""
        if not self._is_leader():
            self._world = None
            return POLL_SECONDS
        if self._world is None:
            self._world = await self._db.read(open_world, seconds=None)
        world, now_ms = self._world, self._db.clock.time_ms()
        needs_looks = bool(world.rules.kinds & _LOOKING)
        is_full = needs_looks and now_ms - self._full_ms >= FULL_SECONDS * 1000
        found = await self._db.read(
            partial(look, world=world, now_ms=now_ms, full=is_full), seconds=None
        )
        choose_kept(world, found)
        if is_full:
            self._full_ms = now_ms
        has_due = await self._db.peek(partial(_is_due, now_ms=now_ms), journaled=False)
        is_sweep = now_ms - self._swept_ms >= HOUR_MS
        if found.is_empty and not has_due and not is_sweep:
            # How far the log was read is written with the next thing that matters.
            self._accept(world, found)
        else:
            count = len(found.outcomes) + len(found.new_rules) + len(found.kept) // 10
            await self._db.write(partial(self._apply, world, found, is_sweep), is_long=count > FEW)
            self._swept_ms = now_ms if is_sweep else self._swept_ms
            self._accept(world, found)
            self._told()
        is_first_look = bool(world.rules.kinds & _LOOKING) and not needs_looks
        if found.is_more or is_first_look:
            return 0.0
        if needs_looks or world.rules.kinds & _LOOKING:
            return FULL_SECONDS
        return IDLE_SECONDS if self._db.is_sqlite else POLL_SECONDS

    def _accept(self, world: AlertState, found: AlertFindings) -> None:
        """Know from now on what was found."""
        world.cursor = found.cursor
        for key, memory in found.memories.items():
            if memory is None:
                world.memories.pop(key, None)
                world.written.pop(key, None)
                world.by_subject.get(key[1], set()).discard(key[0])
            else:
                world.memories[key] = memory
                world.by_subject.setdefault(key[1], set()).add(key[0])
        for key, memory in found.kept.items():
            if memory is not None:
                world.written[key] = self._full_ms
        if found.logs is not None:
            world.logs = found.logs
        if found.runs_over or found.ended:
            world.watches = None
        for uuid in found.runs_over:
            world.runs.pop(uuid, None)
            world.subjects.pop(uuid, None)
        if found.ended:
            gone = set(found.ended)
            left = [rule for rule in world.rules.by_id.values() if rule.scope not in gone]
            world.rules = RulesInForce.of(left)

    # -- inside the transaction -------------------------------------------------------------

    def _apply(self, world: AlertState, found: AlertFindings, is_sweep: bool, tx: Tx) -> None:
        self._prove(tx)
        records.insert_rules(tx, found.new_rules)
        for rule, subject, outcome, ended in found.outcomes:
            if not records.is_in_force(tx, rule.id):
                continue  # it was removed meanwhile
            if outcome.fires:
                incidents.fire(tx, rule, subject, outcome.sentence)
            else:
                incidents.clear(tx, rule, subject, outcome.sentence, ended=ended)
        records.write_memories(tx, found.kept)
        records.disable_scopes(tx, found.ended)
        for team_id, names, title, link, about in found.mentions:
            users = recipients.members_by_name(tx, team_id, names)
            inbox.add(
                tx, users, team_id=team_id, kind="mention", title=title, link=link, about=about
            )
        incidents.escalate_due(tx, world.rules.by_id)
        if is_sweep:
            momentary = [rule.id for rule in world.rules.by_id.values() if rule.is_momentary]
            incidents.forget_old(tx, momentary)
        tx.run(
            "INSERT INTO alert_cursor (name, after_event) VALUES ('rules', ?)"
            " ON CONFLICT (name) DO UPDATE SET after_event = excluded.after_event",
            (found.cursor,),
        )


def _is_due(reader: ReadConnection, now_ms: int) -> bool:
    row = reader.one(
        "SELECT 1 FROM alert_incidents WHERE state = 'open' AND escalate_at_ms <= ? LIMIT 1",
        (now_ms,),
    )
    return row is not None
