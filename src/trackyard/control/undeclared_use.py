"""What jobs take without having asked: seen in the engine, charged, and ended where that is ruled.

Owns claims of the source `watch`. An engine that can tell what its jobs really hold has a method
`usage()`; what goes beyond the attempt's own gang and its claims becomes a claim of its own, on
the nodes where it was seen. Something must be seen twice before it counts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trackyard.control.dispatch import Dispatcher
from trackyard.control.launching import environment_of
from trackyard.core.errors import SetupError
from trackyard.core.job import JobState
from trackyard.core.ports import EngineError, ExitCause
from trackyard.core.resources import WHOLE, NodeShare, Placement, ResourceRequest
from trackyard.fleet.nodes import load_nodes, scheduler_nodes
from trackyard.queue.attempts import demand as claims
from trackyard.queue.attempts.demand import WATCH, DemandRequest
from trackyard.queue.records import (
    AttemptRow,
    decode_placement,
    encode_placement,
    job_by_inner,
    load_attempts,
    load_spec,
)
from trackyard.queue.submit.gang_shapes import GangChoice, ask_of
from trackyard.queue.transitions import (
    admit,
    ask_stop,
    change_attempt,
    grant,
    job_event,
    release_claim,
)
from trackyard.store.database import Database, Tx

log = logging.getLogger(__name__)

KEY = "watch"
CHARGE, STOP = "charge", "stop"
#: Less than this is rounding.
_LITTLE = 0.01

#: node -> resource -> amount
Held = dict[str, dict[str, float]]
Usage = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeclaredUseRule:
    """What becomes of jobs that take GPUs they did not ask for."""

    #: charge, or stop after the grace
    action: str = CHARGE
    grace_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.action not in (CHARGE, STOP):
            raise SetupError(
                f"undeclared = {self.action!r} is not known", hint=f"use {CHARGE} or {STOP}"
            )


@dataclass(slots=True)
class _Seen:
    """What an attempt was last seen to take beyond its due."""

    extra: Held
    since_ms: int
    is_told: bool = False


@dataclass(slots=True)
class UndeclaredUseWatch:
    """Looks at what runs; one look at a time."""

    database: Database
    dispatcher: Dispatcher
    wake: Callable[[], None]
    rule: UndeclaredUseRule = field(default_factory=UndeclaredUseRule)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _is_looking: bool = False
    #: whether an earlier look, perhaps another server's, left something charged
    _has_charged: bool = True

    async def look(self) -> None:
        """Compare what the engine's jobs hold with what they were given."""
        tell = getattr(self.dispatcher.engine, "usage", None)
        if tell is None or self._is_looking:
            return
        self._is_looking = True
        try:
            usage: Usage = await self.dispatcher.call(tell)
        except EngineError as fault:
            log.warning("the engine does not tell what its jobs hold: %s", fault)
            return
        finally:
            self._is_looking = False
        if usage or self._seen or self._has_charged:
            changed = await self.database.write(lambda tx: self._compare(tx, usage))
            if changed:
                self.wake()

    def _compare(self, tx: Tx, usage: Usage) -> bool:
        self.dispatcher.leadership.prove(tx)
        rows = load_attempts(tx, "state IN ('starting', 'running', 'stopping') AND settled = 0")
        live = {row.attempt_id: row for row in rows}
        for gone in [name for name in self._seen if name not in live]:
            del self._seen[gone]
        charged = {
            row[0]
            for row in tx.all(
                "SELECT a.attempt_id FROM claims c JOIN attempts a ON a.id = c.attempt"
                " WHERE c.source = ? AND c.released_ms IS NULL",
                (WATCH,),
            )
        }
        self._has_charged = bool(charged)
        concerned = [name for name in live if name in {*usage, *self._seen, *charged}]
        changed = [self._judge(tx, live[name], usage.get(name, {})) for name in concerned]
        return any(changed)

    def _judge(self, tx: Tx, attempt: AttemptRow, used: Mapping[str, Mapping[str, float]]) -> bool:
        extra = beyond(used, given(tx, attempt))
        before = self._seen.pop(attempt.attempt_id, None)
        found = claims.find(tx, attempt, KEY)
        if not extra:
            if found is not None:
                release_claim(tx, found.job, "It holds no more than it asked for.")
            return found is not None
        since = before.since_ms if before is not None else tx.now_ms
        seen = self._seen[attempt.attempt_id] = _Seen(extra, since)
        # Once may be a moment between two of its own steps: what was there both times counts.
        lasting = {} if before is None else _both(before.extra, extra)
        if before is None or not lasting:
            return False
        if _move_gang(tx, attempt, used):
            del self._seen[attempt.attempt_id]
            return True
        seen.is_told = before.is_told
        self._has_charged = True
        changed = self._charge(tx, attempt, lasting, found)
        self._rule_on(tx, attempt, seen, lasting)
        return changed

    def _charge(
        self, tx: Tx, attempt: AttemptRow, extra: Held, found: claims.ClaimStatus | None
    ) -> bool:
        mine = None if found is None else found.job.id
        placement = _place(tx, extra, mine)
        if found is not None and found.placement == placement:
            return False
        if found is not None:
            release_claim(tx, found.job, "What it holds has changed.")
        if placement is None:
            return found is not None
        gpus = sum(one.get("GPU", 0.0) for one in extra.values())
        amounts = {name: sum(one.get(name, 0.0) for one in extra.values()) for name in ("CPU",)}
        wants = ask_of({"GPU": math.ceil(gpus) if gpus > 1 else gpus, **amounts})
        share = placement.shares[0]
        request = ResourceRequest(
            nodes=len(placement.shares),
            gpus=len(share.gpus),
            gpu_milli=share.gpu_milli,
            cpu_milli=share.cpu_milli,
        )
        made = claims.ask(
            tx,
            attempt,
            DemandRequest(key=KEY, workers=1, generation=tx.now_ms),
            wants,
            GangChoice(1, request, fits_now=True),
            source=WATCH,
        )
        environment = environment_of(load_spec(tx, made.job.spec_id), {})
        grant(tx, admit(tx, made.job, placement, environment=environment, backfilled=False))
        return True

    def _rule_on(self, tx: Tx, attempt: AttemptRow, seen: _Seen, lasting: Held) -> None:
        gpus = sum(one.get("GPU", 0.0) for one in lasting.values())
        if gpus < _LITTLE:
            return
        job = job_by_inner(tx, attempt.job, lock=True)
        where = ", ".join(sorted(lasting))
        what = "1 GPU" if gpus == 1 else f"{gpus:g} GPUs"
        if not seen.is_told:
            seen.is_told = True
            ends = ""
            if self.rule.action == STOP:
                left = f"{self.rule.grace_seconds:g} s"
                ends = f" It is stopped unless it gives them back within {left}."
            job_event(
                tx,
                "claim.seen",
                job,
                attempt=attempt.number,
                gpus=gpus,
                nodes=sorted(lasting),
                sentence=f"It holds {what} on {where} that it did not ask for; its team"
                f" is charged.{ends}",
            )
        over = (tx.now_ms - seen.since_ms) / 1000 > self.rule.grace_seconds
        if self.rule.action == STOP and over and job.state != JobState.STOPPING:
            ask_stop(
                tx,
                job,
                reason=ExitCause.STOPPED,
                grace_seconds=load_spec(tx, job.spec_id).grace_seconds,
                actor="system",
                sentence=f"It held {what} that it did not ask for. Declare them:"
                " `yard submit --gang`, or metadata trackyard.gang.",
            )


def given(tx: Tx, attempt: AttemptRow) -> Held:
    """Return what an attempt may hold beside its own command: its gang and its claims."""
    found = claimed(tx, attempt)
    spec = load_spec(tx, job_by_inner(tx, attempt.job).spec_id)
    if spec.gang or attempt.members > 1:
        _sum(found, attempt.where)
    return found


def claimed(tx: Tx, attempt: AttemptRow) -> Held:
    """Return what an attempt asked for later and was given."""
    found: Held = {}
    for claim in claims.open_claims(tx, attempt):
        standing = claims.standing(tx, claim)
        if claim.source != WATCH and standing.placement is not None:
            _sum(found, standing.placement)
    return found


def beyond(used: Mapping[str, Mapping[str, float]], allowed: Held) -> Held:
    """Return what is used and not allowed, by node."""
    found: Held = {}
    for node, amounts in used.items():
        for name in ("GPU", "CPU"):
            over = amounts.get(name, 0.0) - allowed.get(node, {}).get(name, 0.0)
            if over > _LITTLE:
                found.setdefault(node, {})[name] = round(over, 3)
    return found


def _both(first: Held, second: Held) -> Held:
    """Return what is in both of two looks."""
    found: Held = {}
    for node, amounts in first.items():
        for name, value in amounts.items():
            least = min(value, second.get(node, {}).get(name, 0.0))
            if least > _LITTLE:
                found.setdefault(node, {})[name] = least
    return found


def _move_gang(tx: Tx, attempt: AttemptRow, used: Mapping[str, Mapping[str, float]]) -> bool:
    """Hold a declared gang where its workers really sit, if they are no more than declared.

    Nothing pins what a script places by itself, so Ray may choose other nodes than the queue.
    """
    spec = load_spec(tx, job_by_inner(tx, attempt.job).spec_id)
    own = {
        node: amounts
        for node, amounts in beyond(used, claimed(tx, attempt)).items()
        if amounts.get("GPU", 0.0) > _LITTLE
    }
    gpus = sum(amounts["GPU"] for amounts in own.values())
    left = attempt.where.gpu_milli_total / WHOLE - gpus
    if not spec.gang or not own or left < -_LITTLE:
        return False
    taken = _taken(tx, attempt.job)
    shares = [
        _share(node, amounts, taken.get(node, {}), _devices(tx, node))
        for node, amounts in sorted(own.items())
    ]
    if any(len(share.gpus) < math.ceil(own[share.node]["GPU"] - _LITTLE) for share in shares):
        return False
    for share in attempt.where.shares:
        if share.node not in own and len(share.gpus) <= left + _LITTLE:
            shares.append(share)
            left -= len(share.gpus) * share.gpu_milli / WHOLE
    placement = Placement(shares=tuple(shares))
    if placement == attempt.where:
        return False
    change_attempt(tx, attempt, placement=encode_placement(placement))
    return True


def _sum(found: Held, placement: Placement) -> None:
    for share in placement.shares:
        held = found.setdefault(share.node, {"GPU": 0.0, "CPU": 0.0})
        held["GPU"] += len(share.gpus) * share.gpu_milli / WHOLE
        held["CPU"] += share.cpu_milli / WHOLE


def _place(tx: Tx, extra: Held, mine: int | None) -> Placement | None:
    """Put what was seen onto devices that nobody else holds; the rest is left out."""
    taken = _taken(tx, -1 if mine is None else mine)
    shares = [
        _share(node, amounts, taken.get(node, {}), _devices(tx, node))
        for node, amounts in sorted(extra.items())
    ]
    kept = tuple(share for share in shares if share.gpus or share.cpu_milli)
    return Placement(shares=kept) if kept else None


def _taken(tx: Tx, mine: int) -> dict[str, dict[int, int]]:
    """Return what others than this job hold of each GPU."""
    taken: dict[str, dict[int, int]] = {}
    rows = tx.all(
        "SELECT placement FROM attempts WHERE state IN ('starting', 'running', 'stopping')"
        " AND job != ?",
        (mine,),
    )
    for (text,) in rows:
        for share in decode_placement(text).shares:
            held = taken.setdefault(share.node, {})
            for index in share.gpus:
                held[index] = held.get(index, 0) + share.gpu_milli
    return taken


def _share(
    node: str, amounts: Mapping[str, float], taken: Mapping[int, int], devices: list[int]
) -> NodeShare:
    wanted = round(amounts.get("GPU", 0.0) * WHOLE)
    milli = wanted if 0 < wanted < WHOLE else WHOLE
    free = [index for index in devices if WHOLE - taken.get(index, 0) >= milli]
    return NodeShare(
        node=node,
        gpus=tuple(free[: math.ceil(wanted / WHOLE)]),
        gpu_milli=milli,
        cpu_milli=round(amounts.get("CPU", 0.0) * WHOLE),
    )


def _devices(tx: Tx, node: str) -> list[int]:
    for known in scheduler_nodes(load_nodes(tx)):
        if known.id == node:
            return [gpu.index for gpu in known.gpus]
    return []
