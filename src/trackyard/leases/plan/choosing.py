"""Which nodes a lease gets, or what is in the way and where the nearest free slots are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from trackyard.leases.plan.calendar import Calendar, NodeQuery, PromisedLease, RunningJob
from trackyard.leases.plan.machines import LeasableNode, by_id
from trackyard.leases.plan.world import LeaseHolder, LeaseWorld
from trackyard.leases.rules import DAY_MS, MINUTE_MS
from trackyard.leases.wording import (
    job_fact,
    names,
    promise_fact,
    refusal,
    slot_fact,
    span,
    spoken,
    whose,
)

#: How far ahead slots are looked for.
LOOK_AHEAD_DAYS = 30


# -- choosing nodes ---------------------------------------------------------------------------


def pick(
    world: LeaseWorld, ask: NodeQuery, times: tuple[int, int], holder: LeaseHolder
) -> tuple[str, ...]:
    """Return the nodes for a lease, or refuse with what is in the way."""
    start, end = times
    known = by_id(world.machines)
    for node in ask.nodes:
        if node not in known:
            close = get_close_matches(node, known, n=1)
            raise refusal(
                "unknown_node",
                f"There is no node {node}" + (f"; did you mean {close[0]}" if close else ""),
                "`yard nodes` lists the nodes",
            )
    calendar = world.calendar
    wanted = calendar.candidates(ask)
    if len(wanted) < ask.min_nodes:
        _refuse_hardware(world, ask, wanted)
    nodes = calendar.choose(ask, start, end)
    if not nodes:
        _refuse_busy(world, calendar, ask, times, holder)
    down = [known[node] for node in nodes if not known[node].works]
    if down and start <= world.now_ms + world.rules.heal_minutes * MINUTE_MS:
        raise refusal(
            "not_working",
            f"Node {down[0].id} is {down[0].state}" + (f": {down[0].note}" * bool(down[0].note)),
            "Choose another node, or ask an admin when it comes back",
            slots=nearest(world, ask, times, holder),
        )
    return nodes


def _refuse_hardware(
    world: LeaseWorld, ask: NodeQuery, wanted: Sequence[LeasableNode]
) -> NoReturn:
    words = []
    if ask.parent:
        words.append("in the pool")
    if ask.nodes:
        words.append("named")
    if ask.type:
        words.append(f"of type {ask.type}")
    if ask.where is not None:
        words.append("that fulfil the expression")
    count = len(wanted)
    found = f"There {'is' if count == 1 else 'are'} {count or 'no'} node{'s' * (count != 1)}"
    present = sorted({machine.node_class for machine in world.machines})
    raise refusal(
        "no_such_hardware",
        f"{found} {' and '.join(words)}; the lease needs {ask.min_nodes}",
        f"There are nodes of class {names(present) or 'none'}; `yard nodes` shows what they have",
    )


def _refuse_busy(
    world: LeaseWorld,
    calendar: Calendar,
    ask: NodeQuery,
    times: tuple[int, int],
    holder: LeaseHolder,
) -> NoReturn:
    (start, end), zone = times, holder.zone
    wanted = [one for one in calendar.candidates(ask) if one.works or one.id in ask.nodes]
    in_way: dict[str, tuple[PromisedLease, list[str]]] = {}
    jobs: dict[str, RunningJob] = {}
    for machine in wanted:
        for promise in calendar.conflicts(machine.id, start, end, ask):
            in_way.setdefault(promise.lease_id, (promise, []))[1].append(machine.id)
        for one in calendar.blockers(machine.id, start, ask):
            jobs[one.job_id] = one
    slots = nearest(world, ask, times, holder)
    instead = "Take one of the free slots, or other nodes"
    remedy = instead if slots else "Take other nodes, or a shorter time"
    conflicts = [promise_fact(promise, nodes) for promise, nodes in in_way.values()]
    if in_way:
        promise, nodes = min(in_way.values(), key=lambda one: one[0].starts_ms)
        when = span(promise.starts_ms, promise.ends_ms, zone)
        sentence = f"{names(nodes)} is promised to {whose(promise)} {when}"
        if len(wanted) > 1:
            free = sum(calendar.is_free(one.id, start, end, ask) for one in wanted)
            sentence = f"{free} of {ask.min_nodes} nodes are free then; {sentence}"
        raise refusal("overlap", sentence, remedy, conflicts=conflicts, slots=slots)
    if jobs:
        facts = [
            job_fact(
                one,
                effect="blocks",
                at_ms=one.ends_ms,
                sentence="may not be preempted",
                team=holder.team,
                sees_all=holder.sees_all,
            )
            for one in jobs.values()
        ]
        first, fact = next(iter(jobs.values())), facts[0]
        ends = f"until {spoken(first.ends_ms, zone)}" if first.ends_ms else "with no known end"
        whose_job = f"job {fact['name'] or 'of another team'}"
        raise refusal(
            "busy",
            f"{names(first.nodes)} runs {whose_job}, which may not be preempted, {ends}",
            remedy,
            jobs=facts,
            slots=slots,
        )
    pool = next((one for one in world.records if one.row.lease_id == ask.parent), None)
    if pool is not None:
        raise refusal(
            "outside_pool",
            f"Pool {pool.row.name} lasts {span(pool.row.starts_ms, pool.row.ends_ms, zone)}",
            "Stay within its time",
            slots=slots,
        )
    sick = [f"{one.id} is {one.state}" for one in calendar.candidates(ask) if not one.works]
    raise refusal(
        "not_working",
        f"Too few of the nodes that fit work: {names(sick)}",
        "Choose other nodes, or ask an admin when they come back",
        slots=slots,
    )


def nearest(
    world: LeaseWorld, ask: NodeQuery, times: tuple[int, int], holder: LeaseHolder
) -> list[dict[str, Any]]:
    """Return the free slots of that length nearest to a time."""
    start, end = times
    found = world.calendar.slots(
        ask,
        length_ms=end - start,
        from_ms=world.minute_ms + MINUTE_MS,
        until_ms=world.now_ms + LOOK_AHEAD_DAYS * DAY_MS,
        near_ms=start,
    )
    return [slot_fact(slot, holder.zone) for slot in found]
