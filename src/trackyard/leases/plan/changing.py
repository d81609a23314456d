"""What a change of a lease comes to: later or earlier, longer or shorter, other nodes. Pure.

Owns the order in which a change is judged and the words of its refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, NoReturn

from trackyard.core.lease import LeaseState
from trackyard.leases.plan.calendar import NodeQuery, PromisedLease
from trackyard.leases.plan.choosing import nearest, pick
from trackyard.leases.plan.planning import check_fair, check_length, check_span
from trackyard.leases.plan.world import LeaseHolder, LeasePlan, LeaseWorld, warnings
from trackyard.leases.records import LeaseRecord
from trackyard.leases.rules import HOUR_MS, MINUTE_MS
from trackyard.leases.wishes import LeaseChange, LeaseExtension, LeaseShrinking, NewLease
from trackyard.leases.wording import names, promise_fact, refusal, span, spoken, whose

# -- changes ----------------------------------------------------------------------------------


def extend(
    world: LeaseWorld, record: LeaseRecord, wish: LeaseExtension, holder: LeaseHolder
) -> LeasePlan:
    """Judge a later end."""
    zone, row = holder.zone, record.row
    _check_still(record, zone)
    end = row.ends_ms + (wish.minutes or 0) * MINUTE_MS if wish.ends_ms is None else wish.ends_ms
    if end <= row.ends_ms:
        raise refusal(
            "zero_length",
            f"Lease {row.name} ends at {spoken(row.ends_ms, zone)} already",
            "Give a later end, or use `yard lease shrink`",
        )
    opens = row.ends_ms - int(world.rules.extend_window_hours * HOUR_MS)
    if record.state is LeaseState.ACTIVE and world.now_ms < opens and not holder.is_exempt:
        raise refusal(
            "extend_too_early",
            f"A lease may be extended in its last {world.rules.extend_window_hours:g} hours,"
            f" this one from {spoken(opens, zone)}",
            "Ask again then",
        )
    check_length(world, end - max(row.starts_ms, world.minute_ms), holder)
    ask = _ask_of(record)
    calendar = world.calendar
    in_way = {
        promise.lease_id: promise
        for node in record.nodes
        for promise in calendar.conflicts(node, row.ends_ms, end, ask)
    }
    pool = next((one for one in world.records if one.row.lease_id == ask.parent), None)
    if in_way or (pool is not None and end > pool.row.ends_ms):
        _refuse_extension(world, record, end, in_way, holder)
    flags = check_fair(world, _changed(record, ends_ms=end), holder)
    return _plan(record, world, zone, ends_ms=end, flags=flags)


def _refuse_extension(
    world: LeaseWorld,
    record: LeaseRecord,
    end: int,
    in_way: dict[str, PromisedLease],
    holder: LeaseHolder,
) -> NoReturn:
    zone = holder.zone
    row, calendar, ask = record.row, world.calendar, _ask_of(record)
    until = [calendar.free_until(node, row.ends_ms, ask) for node in record.nodes]
    free = min((moment for moment in until if moment is not None), default=row.ends_ms)
    reach = (
        f"It can be extended until {spoken(free, zone)}"
        if free > row.ends_ms
        else "Take one of the free slots for the rest"
    )
    nobody = f"Pool {record.parent_name} ends before then"
    first = min(in_way.values(), key=lambda one: one.starts_ms, default=None)
    sentence = nobody
    if first is not None:
        when = span(first.starts_ms, first.ends_ms, zone)
        nodes = [node for node in record.nodes if node in first.nodes]
        sentence = f"{names(nodes)} is promised to {whose(first)} {when}"
    rest = (row.ends_ms, end)
    raise refusal(
        "followed",
        sentence,
        reach,
        conflicts=[
            promise_fact(one, [node for node in record.nodes if node in one.nodes])
            for one in in_way.values()
        ],
        slots=nearest(world, replace(_like(record), ignore=""), rest, holder),
    )


def shrink(
    world: LeaseWorld, record: LeaseRecord, wish: LeaseShrinking, holder: LeaseHolder
) -> LeasePlan:
    """Judge an earlier end, a later start or fewer nodes."""
    zone, row = holder.zone, record.row
    _check_still(record, zone)
    end = row.ends_ms - (wish.minutes or 0) * MINUTE_MS if wish.ends_ms is None else wish.ends_ms
    start = row.starts_ms if wish.starts_ms is None else wish.starts_ms
    _check_start(record, start, zone)
    if start < row.starts_ms or end > row.ends_ms:
        raise refusal(
            "zero_length",
            f"That is not less than {span(row.starts_ms, row.ends_ms, zone)}",
            "Use `yard lease extend` for a later end, `yard lease move` for an earlier start",
        )
    if end <= max(start, world.now_ms):
        raise refusal(
            "zero_length",
            f"Nothing would be left of lease {row.name} after {spoken(end, zone)}",
            "Use `yard lease release` to give it back",
        )
    foreign = [node for node in wish.nodes if node not in record.nodes]
    if foreign:
        raise refusal(
            "unknown_node",
            f"Lease {row.name} does not hold {names(foreign)}",
            f"It holds {names(record.nodes)}",
        )
    nodes = tuple(node for node in record.nodes if node not in wish.nodes)
    if not nodes:
        raise refusal(
            "zero_length",
            f"No node would be left of lease {row.name}",
            "Use `yard lease release` to give it back",
        )
    _check_parts(world, record, nodes, (start, end), zone)
    return _plan(record, world, zone, nodes=nodes, starts_ms=start, ends_ms=end)


def move(
    world: LeaseWorld, record: LeaseRecord, wish: LeaseChange, holder: LeaseHolder
) -> LeasePlan:
    """Judge another time or other nodes; a start alone keeps the length."""
    zone, row = holder.zone, record.row
    _check_still(record, zone, only_rename=_is_rename(wish))
    if wish.name is not None and wish.name != row.name:
        taken = [
            one for one in world.records if (one.team, one.row.name) == (record.team, wish.name)
        ]
        if taken:
            raise refusal(
                "name_taken",
                f"Team {record.team} has a lease {wish.name} already",
                "Choose another name",
            )
    if _is_rename(wish):
        return _plan(record, world, zone)
    start = row.starts_ms if wish.starts_ms is None else wish.starts_ms
    end = row.ends_ms + (start - row.starts_ms) if wish.ends_ms is None else wish.ends_ms
    _check_start(record, start, zone)
    if record.state is LeaseState.PENDING:
        check_span(world, (start, end), holder)
    elif end != row.ends_ms:
        later = end > row.ends_ms
        verb = "extend" if later else "shrink"
        raise refusal(
            "started",
            f"Lease {row.name} has started; its end is not moved",
            f"Use `yard lease {verb}`",
        )
    nodes = _moved_nodes(world, record, wish, (start, end), holder)
    _check_parts(world, record, nodes, (start, end), zone)
    changed = _changed(record, nodes=nodes, starts_ms=start, ends_ms=end)
    flags = check_fair(world, changed, holder)
    return _plan(record, world, zone, nodes=nodes, starts_ms=start, ends_ms=end, flags=flags)


def _moved_nodes(
    world: LeaseWorld,
    record: LeaseRecord,
    wish: LeaseChange,
    times: tuple[int, int],
    holder: LeaseHolder,
) -> tuple[str, ...]:
    """Keep its nodes where they are free then; else take others that were asked for as well."""
    if wish.nodes:
        ask = _ask_of(record, nodes=tuple(dict.fromkeys(wish.nodes)))
        return pick(world, ask, times, holder)
    same = _ask_of(record, nodes=record.nodes)
    kept = world.calendar.choose(same, *times)
    if kept:
        return kept
    return pick(world, _like(record), times, holder)


def _is_rename(wish: LeaseChange) -> bool:
    return wish.starts_ms is None and wish.ends_ms is None and not wish.nodes


def _check_still(record: LeaseRecord, zone: tzinfo, *, only_rename: bool = False) -> None:
    """Refuse to change what is over or on its way from one state to the next."""
    row, state = record.row, record.state
    if state.is_over and not (only_rename and state is LeaseState.TERMINATED):
        raise refusal(
            "over",
            f"Lease {row.name} is over since {spoken(row.ended_ms or row.ends_ms, zone)}",
            "Make a new one with `yard lease add`",
        )
    if not state.is_stable:
        raise refusal(
            "started", f"Lease {row.name} is {state} this moment", "Try again in a minute"
        )


def _check_start(record: LeaseRecord, start: int, zone: tzinfo) -> None:
    if record.state is not LeaseState.PENDING and start != record.row.starts_ms:
        raise refusal(
            "started",
            f"Lease {record.row.name} has started at {spoken(record.row.starts_ms, zone)};"
            " its start stays",
            "Change its end with `yard lease extend` or `yard lease shrink`",
        )


def _check_parts(
    world: LeaseWorld,
    record: LeaseRecord,
    nodes: Sequence[str],
    times: tuple[int, int],
    zone: tzinfo,
) -> None:
    """A pool keeps what it has handed out."""
    start, end = times
    for part in world.records:
        if part.parent_id != record.row.lease_id:
            continue
        left = set(part.nodes) - set(nodes)
        if left or part.row.starts_ms < start or part.row.ends_ms > end:
            raise refusal(
                "outside_pool",
                f"{whose(part.promise).capitalize()} is part of this pool,"
                f" {span(part.row.starts_ms, part.row.ends_ms, zone)} on {names(part.nodes)}",
                "Release or move that part first",
                conflicts=[promise_fact(part.promise, sorted(left) or part.nodes)],
            )


def _ask_of(record: LeaseRecord, nodes: tuple[str, ...] | None = None) -> NodeQuery:
    """Ask for a lease's own nodes."""
    wanted = record.nodes if nodes is None else nodes
    return NodeQuery(
        nodes=wanted,
        min_nodes=len(wanted),
        max_nodes=len(wanted),
        team=record.team,
        only_user=record.only_user,
        parent=record.parent_id,
        ignore=record.row.lease_id,
    )


def _like(record: LeaseRecord) -> NodeQuery:
    """Ask for what the lease once asked for."""
    asked = record.asked
    wish = NewLease(name="x", nodes=list(asked.nodes), type=asked.type, where=asked.where)
    return NodeQuery(
        nodes=tuple(asked.nodes),
        type=asked.type,
        where=wish.condition(),
        min_nodes=record.row.min_nodes,
        max_nodes=max(record.row.min_nodes, len(record.nodes)),
        team=record.team,
        only_user=record.only_user,
        parent=record.parent_id,
        ignore=record.row.lease_id,
    )


def _changed(record: LeaseRecord, **changes: Any) -> PromisedLease:
    return replace(record.promise, **changes)


def _plan(
    record: LeaseRecord,
    world: LeaseWorld,
    zone: tzinfo,
    *,
    nodes: tuple[str, ...] | None = None,
    starts_ms: int | None = None,
    ends_ms: int | None = None,
    flags: tuple[str, ...] = (),
) -> LeasePlan:
    row = record.row
    plan = LeasePlan(
        nodes=record.nodes if nodes is None else nodes,
        starts_ms=row.starts_ms if starts_ms is None else starts_ms,
        ends_ms=row.ends_ms if ends_ms is None else ends_ms,
        min_nodes=min(row.min_nodes, len(nodes or record.nodes)),
        max_nodes=row.max_nodes,
        flags=flags,
    )
    promise = _changed(record, nodes=plan.nodes, starts_ms=plan.starts_ms, ends_ms=plan.ends_ms)
    return replace(plan, warnings=(*warnings(world, promise, zone), *flags))
