"""What time does to leases: they start, warn, lie idle, are lent, lose nodes and end.

`due` is pure: from the calendar, the clock and what runs it says what is to be done. `apply` does
it, one step of one lease at a time. A server that was down catches up by doing what is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from trackyard.core.lease import LeaseState
from trackyard.leases import life
from trackyard.leases.ending import recalled, released
from trackyard.leases.plan.calendar import NodeQuery
from trackyard.leases.plan.machines import LeasableNode, by_id
from trackyard.leases.plan.world import LeaseWorld
from trackyard.leases.records import LeaseRecord, find_lease, lock_calendar
from trackyard.leases.rules import MINUTE_MS
from trackyard.leases.wishes import NodeChoice
from trackyard.leases.wording import length, names, spoken
from trackyard.store.database import Tx

#: A node that comes back within so long keeps its place.
REPLACE_AFTER_MS = 60_000
#: How often it is written down that a lease is in use.
USED_EVERY_MS = 60_000
_HOLDING = (LeaseState.STARTING, LeaseState.ACTIVE, LeaseState.ERROR)


class DueKind(StrEnum):
    """What is to be done with a lease."""

    START = "start"
    ACTIVATE = "activate"
    FAIL = "fail"
    RECOVER = "recover"
    WARN = "warn"
    TERMINATE = "terminate"
    END = "end"
    LOSE = "lose"
    RESTORE = "restore"
    REPLACE = "replace"
    USE = "use"
    NUDGE = "nudge"
    LEND = "lend"
    RECALL = "recall"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class DueChange:
    """One thing to do with one lease, as it was seen."""

    what: DueKind
    record: LeaseRecord
    #: the node it is about, and the one that takes its place
    node: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What goes on at a lease's nodes now."""

    #: jobs there that the lease admits
    own: int = 0
    #: jobs there that it does not
    foreign: int = 0
    #: jobs there that belong to this lease and no other
    named: int = 0
    #: whether a job of the holder waits for the nodes
    wanted: bool = False


IDLE = Activity()


def due(world: LeaseWorld, activities: Mapping[str, Activity]) -> list[DueChange]:
    """Return the steps that are due, at most one for each lease."""
    known = by_id(world.machines)
    found: list[DueChange] = []
    taken: set[str] = set()
    for record in world.records:
        activity = activities.get(record.row.lease_id, IDLE)
        found += _nodes(record, world, known, taken)
        step = _life(record, world, known, activity) or _use(record, world, activity)
        if step is not None:
            found.append(DueChange(step, record))
    return found


def _life(
    record: LeaseRecord, world: LeaseWorld, known: Mapping[str, LeasableNode], activity: Activity
) -> DueKind | None:
    row, now, state = record.row, world.now_ms, record.state
    works = [node for node in record.nodes if node in known and known[node].works]
    if state is LeaseState.PENDING:
        return DueKind.START if now >= row.starts_ms else None
    if state is LeaseState.STARTING:
        if not works:
            return DueKind.FAIL
        return DueKind.ACTIVATE if not activity.foreign or now >= row.ends_ms else None
    if state is LeaseState.TERMINATING:
        return DueKind.END if not activity.named else None
    if state not in (LeaseState.ACTIVE, LeaseState.ERROR):
        return None
    if now >= row.ends_ms:
        return DueKind.TERMINATE
    if state is LeaseState.ERROR:
        return DueKind.RECOVER if works else None
    warn = min(world.rules.warn_minutes * MINUTE_MS, (row.ends_ms - row.starts_ms) // 4)
    return DueKind.WARN if row.warned_ms is None and now >= row.ends_ms - warn else None


def _use(record: LeaseRecord, world: LeaseWorld, activity: Activity) -> DueKind | None:
    """Return the steps that follow from a lease's use or disuse."""
    row, now, rules = record.row, world.now_ms, world.rules
    if record.state is not LeaseState.ACTIVE or record.is_pool:
        return None
    if row.lent_ms is not None and (activity.wanted or activity.own):
        return DueKind.RECALL
    if activity.own or activity.wanted:
        stale = row.used_ms is None or now - row.used_ms >= USED_EVERY_MS
        return DueKind.USE if stale or row.nudged_ms is not None else None
    idle = now - max(row.used_ms or 0, row.started_ms or row.starts_ms)
    patience = rules.release_idle_minutes * MINUTE_MS
    if patience and row.used_ms is None and idle >= patience:
        return DueKind.RELEASE
    if row.nudged_ms is None:
        return DueKind.NUDGE if idle >= rules.idle_minutes * MINUTE_MS else None
    if row.lent_ms is None and rules.lend_minutes is not None:
        return DueKind.LEND if now - row.nudged_ms >= rules.lend_minutes * MINUTE_MS else None
    return None


def _nodes(
    record: LeaseRecord, world: LeaseWorld, known: Mapping[str, LeasableNode], taken: set[str]
) -> Iterator[DueChange]:
    """Say which nodes are lost, back, or to be replaced."""
    row = record.row
    soon = row.starts_ms <= world.now_ms + world.rules.heal_minutes * MINUTE_MS
    is_due = record.state in _HOLDING or (record.state is LeaseState.PENDING and soon)
    if not is_due or world.now_ms >= row.ends_ms:
        return
    for bound in record.bound:
        works = bound.node_id in known and known[bound.node_id].works
        if works:
            if bound.lost_ms is not None:
                yield DueChange(DueKind.RESTORE, record, bound.node_id)
            continue
        if bound.lost_ms is None:
            yield DueChange(DueKind.LOSE, record, bound.node_id)
        elif world.now_ms - bound.lost_ms >= REPLACE_AFTER_MS:
            instead = _stand_in(record, bound.node_id, world, taken)
            if instead:
                taken.add(instead)
                yield DueChange(DueKind.REPLACE, record, bound.node_id, instead)


def _stand_in(record: LeaseRecord, lost: str, world: LeaseWorld, taken: set[str]) -> str:
    """Return a free node in which the holder would miss nothing."""
    has_parts = any(one.parent_id == record.row.lease_id for one in world.records)
    old = next((one for one in world.machines if one.id == lost), None)
    if old is None or has_parts:
        return ""
    asked = record.asked
    ask = NodeQuery(
        type=asked.type,
        where=NodeChoice(where=asked.where).condition(),
        team=record.team,
        only_user=record.only_user,
        parent=record.parent_id,
        ignore=record.row.lease_id,
    )
    start, calendar = max(world.now_ms, record.row.starts_ms), world.calendar
    fit = [
        machine
        for machine in calendar.candidates(ask)
        if machine.works
        and machine.id not in taken
        and machine.id not in record.nodes
        and machine.can_stand_in_for(old)
        and calendar.is_free(machine.id, start, record.row.ends_ms, ask)
    ]
    best = min(fit, key=lambda one: (one.gpu_count, one.gpu_memory_bytes, one.id), default=None)
    return best.id if best is not None else ""


# -- doing it ---------------------------------------------------------------------------------


def apply(tx: Tx, todo: Sequence[DueChange], world: LeaseWorld) -> int:
    """Do what is due, leaving out leases that changed meanwhile; return how many steps it was."""
    lock_calendar(tx)
    done = 0
    fresh: dict[str, LeaseRecord] = {}
    for one in todo:
        lease_id = one.record.row.lease_id
        record = fresh.get(lease_id) or find_lease(tx, lease_id, None)
        if lease_id not in fresh and record.row.version != one.record.row.version:
            continue
        fresh[lease_id] = _do(tx, replace(one, record=record), world)
        done += 1
    return done


def _do(tx: Tx, one: DueChange, world: LeaseWorld) -> LeaseRecord:
    if one.what in (DueKind.LOSE, DueKind.RESTORE, DueKind.REPLACE):
        return _change_node(tx, one, world)
    if one.what in (DueKind.USE, DueKind.NUDGE, DueKind.LEND, DueKind.RECALL, DueKind.RELEASE):
        return _change_use(tx, one, world)
    return _change_life(tx, one)


def _change_life(tx: Tx, one: DueChange) -> LeaseRecord:
    record, row, nodes = one.record, one.record.row, names(one.record.nodes)
    if one.what is DueKind.START:
        late = tx.now_ms - row.starts_ms
        words = f"Its time has come on {nodes}"
        words += f", {length(late)} late: the server was away." if late >= MINUTE_MS else "."
        return life.step(tx, record, LeaseState.STARTING, event="lease.starting", sentence=words)
    if one.what is DueKind.ACTIVATE:
        words = f"{nodes} is {row.user_name}'s until {spoken(row.ends_ms)}."
        return life.step(
            tx,
            record,
            LeaseState.ACTIVE,
            event="lease.started",
            sentence=words,
            columns={"started_ms": tx.now_ms},
        )
    if one.what is DueKind.FAIL:
        words = f"None of {nodes} works; it starts as soon as one does."
        return life.step(tx, record, LeaseState.ERROR, event="lease.failed", sentence=words)
    if one.what is DueKind.RECOVER:
        started = row.started_ms or tx.now_ms
        return life.step(
            tx,
            record,
            LeaseState.UPDATING,
            LeaseState.ACTIVE,
            event="lease.started",
            sentence=f"A node of {nodes} works; it is active until {spoken(row.ends_ms)}.",
            columns={"started_ms": started},
        )
    if one.what is DueKind.WARN:
        what = "its jobs save and stop then" if row.before_end == "drain" else "stop your jobs"
        return life.step(
            tx,
            record,
            event="lease.ending",
            sentence=f"It ends in {length(row.ends_ms - tx.now_ms)}, at {spoken(row.ends_ms)};"
            f" {what}, or extend it.",
            columns={"warned_ms": tx.now_ms},
        )
    if one.what is DueKind.TERMINATE:
        return life.step(
            tx,
            record,
            LeaseState.TERMINATING,
            event="lease.terminating",
            sentence=f"Its time on {nodes} is over; its jobs save and make room.",
            columns={"lent_ms": None},
        )
    words = row.sentence or f"It ended at {spoken(row.ends_ms)}, as planned."
    return life.step(
        tx,
        record,
        LeaseState.TERMINATED,
        event="lease.ended",
        sentence=words,
        columns={"ended_ms": min(tx.now_ms, row.ends_ms), "sentence": words, "lent_ms": None},
    )


def _change_node(tx: Tx, one: DueChange, world: LeaseWorld) -> LeaseRecord:
    record, known = one.record, by_id(world.machines)
    state = known[one.node].state.value if one.node in known else "gone"
    if one.what is DueKind.LOSE:
        record = life.mark_lost(tx, record, one.node, tx.now_ms)
        return life.step(
            tx,
            record,
            event="lease.degraded",
            sentence=f"Node {one.node} is {state}; an equal one takes its place if one is free.",
            data={"node": one.node},
            columns={"degraded": 1},
        )
    if one.what is DueKind.RESTORE:
        record = life.mark_lost(tx, record, one.node, None)
        words, event = f"Node {one.node} works again.", "lease.restored"
    else:
        life.unbind(tx, record.row.id, [one.node])
        life.bind(tx, record.row.id, [one.instead])
        record = replace(record, bound=find_lease(tx, record.row.lease_id, None).bound)
        words = f"Node {one.instead} takes the place of {one.node}, which is {state}."
        event = "lease.replaced"
    degraded = int(any(bound.lost_ms is not None for bound in record.bound))
    return life.step(
        tx,
        record,
        event=event,
        sentence=words,
        data={"node": one.node, "instead": one.instead},
        columns={"degraded": degraded},
    )


def _change_use(tx: Tx, one: DueChange, world: LeaseWorld) -> LeaseRecord:
    record, row = one.record, one.record.row
    if one.what is DueKind.USE:
        return life.note(tx, record, used_ms=tx.now_ms, nudged_ms=None)
    if one.what is DueKind.RECALL:
        return recalled(tx, record, actor=life.SYSTEM)
    idle = length(tx.now_ms - max(row.used_ms or 0, row.started_ms or row.starts_ms))
    if one.what is DueKind.RELEASE:
        why = f"Nobody used it for {idle}, so it was released"
        return released(tx, record, actor=life.SYSTEM, why=why)
    gpus = sum(one.gpu_count for one in world.machines if one.id in record.nodes)
    what = f"{gpus} GPUs" if gpus else names(record.nodes)
    if one.what is DueKind.NUDGE:
        lend = world.rules.lend_minutes
        then = "" if lend is None else f" From {length(lend * MINUTE_MS)} on they are lent."
        return life.step(
            tx,
            record,
            event="lease.idle",
            sentence=f"{what} idle for {idle}; release them with"
            f" `yard lease release {row.name}`?{then}",
            data={"gpus": gpus},
            columns={"nudged_ms": tx.now_ms},
        )
    return life.step(
        tx,
        record,
        event="lease.lent",
        sentence=f"{what} idle for {idle} are lent to preemptible jobs; your next job calls them"
        " back at once.",
        columns={"lent_ms": tx.now_ms},
    )
