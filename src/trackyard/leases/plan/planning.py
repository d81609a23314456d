"""What a new lease comes to: the nodes and times it would get, or why it cannot be. Pure.

Owns the order in which a request is judged and the rules of length, quota and fairness. Reads a
World, writes nothing; a dry run and the real thing are the same call.
"""

from __future__ import annotations

from collections.abc import Sequence

from trackyard.leases.plan import fairness
from trackyard.leases.plan.calendar import NodeQuery, PromisedLease
from trackyard.leases.plan.choosing import pick
from trackyard.leases.plan.world import LeaseHolder, LeasePlan, LeaseWorld, warnings
from trackyard.leases.records import LeaseRecord
from trackyard.leases.rules import DAY_MS, MINUTE_MS
from trackyard.leases.wishes import NewLease
from trackyard.leases.wording import length, refusal, span, spoken

# -- a new lease ------------------------------------------------------------------------------


def new(
    world: LeaseWorld, wish: NewLease, holder: LeaseHolder, parent: LeaseRecord | None = None
) -> LeasePlan:
    """Judge a new lease."""
    zone = holder.zone
    least, most = wish.bounds()
    start, end = _times(world, wish)
    check_span(world, (start, end), holder)
    taken = [one for one in world.records if (one.team, one.row.name) == (holder.team, wish.name)]
    if taken:
        raise refusal(
            "name_taken",
            f"Team {holder.team} has a lease {wish.name} already,"
            f" {span(taken[0].row.starts_ms, taken[0].row.ends_ms, zone)}",
            "Choose another name",
        )
    ask = NodeQuery(
        nodes=tuple(dict.fromkeys(wish.nodes)),
        type=wish.type,
        where=wish.condition(),
        min_nodes=least,
        max_nodes=most,
        team=holder.team,
        only_user=holder.user if wish.personal else "",
        parent=parent.row.lease_id if parent else "",
    )
    nodes = pick(world, ask, (start, end), holder)
    promise = PromisedLease(
        lease_id="",
        name=wish.name,
        user=holder.user,
        team=holder.team,
        nodes=nodes,
        starts_ms=start,
        ends_ms=end,
        parent=ask.parent,
        is_pool=wish.pool,
    )
    flags = () if wish.pool else check_fair(world, promise, holder)
    return LeasePlan(
        nodes=nodes,
        starts_ms=start,
        ends_ms=end,
        min_nodes=least,
        max_nodes=most,
        warnings=(*warnings(world, promise, zone), *flags),
        flags=flags,
    )


def _times(world: LeaseWorld, wish: NewLease) -> tuple[int, int]:
    start = world.minute_ms if wish.starts_ms is None else wish.starts_ms
    if wish.ends_ms is not None:
        return start, wish.ends_ms
    # "Now" is the minute that has begun, so that three hours from now read as three hours.
    return start, start + (wish.minutes or 0) * MINUTE_MS


def check_span(world: LeaseWorld, times: tuple[int, int], holder: LeaseHolder) -> None:
    """Refuse times that no lease can have."""
    (start, end), zone = times, holder.zone
    if end <= start:
        raise refusal(
            "zero_length",
            f"The lease would end at {spoken(end, zone)}, not after its start"
            f" at {spoken(start, zone)}",
            "Give it at least a minute, with --for or a later --end",
        )
    if start < world.minute_ms:
        raise refusal(
            "past_start",
            f"The start {spoken(start, zone)} is past; it is {spoken(world.now_ms, zone)} now",
            "Start it now or later",
        )
    check_length(world, end - max(start, world.minute_ms), holder)
    ahead = int(world.rules.ahead_days * DAY_MS)
    if start > world.now_ms + ahead and not holder.is_exempt:
        raise refusal(
            "too_far_ahead",
            f"The start lies over {world.rules.ahead_days:g} days ahead",
            f"Ask again from {spoken(start - ahead, zone)}, or ask an admin",
        )


def check_length(world: LeaseWorld, asked_ms: int, holder: LeaseHolder) -> None:
    """Refuse what is longer than anyone may have."""
    longest = world.rules.longest_ms(holder.team)
    if asked_ms > longest and not holder.is_exempt:
        raise refusal(
            "too_long",
            f"A lease lasts at most {length(longest)}; this one would last {length(asked_ms)}",
            "Take it shorter and extend it towards its end, or ask an admin",
        )


# -- fairness ---------------------------------------------------------------------------------


def check_fair(world: LeaseWorld, promise: PromisedLease, holder: LeaseHolder) -> tuple[str, ...]:
    """Refuse what is over quota or hoards; return what is reported."""
    rules = world.rules
    others = [one for one in world.promises if one.lease_id != promise.lease_id]
    if not holder.is_exempt:
        _check_quota(world, [*world.past, *others], promise, holder)
        for held in fairness.hoarded(others, promise, machines=world.machines):
            if held.of >= rules.hoard_from_nodes and held.share > rules.hoard_share:
                most = int(rules.hoard_share * held.of)
                raise refusal(
                    "hoarding",
                    f"Team {holder.team} would hold {held.nodes} of {held.of} nodes of class"
                    f" {held.node_class} at once; {most} is the most",
                    "Take fewer nodes, another time, or release a lease first",
                )
    flags = []
    classes = {one.node_class for one in world.machines if one.id in promise.nodes}
    for node_class in sorted(classes):
        share = fairness.stacked_share(
            [*others, promise],
            holder.team,
            node_class,
            now_ms=world.now_ms,
            machines=world.machines,
            rules=rules,
        )
        if share >= rules.stacking_share:
            flags.append(
                f"Leases of team {holder.team} on {node_class} follow one another over"
                f" {share:.0%} of the coming {rules.stacking_days:g} days; staff is told"
            )
    return tuple(flags)


def _check_quota(
    world: LeaseWorld,
    promises: Sequence[PromisedLease],
    promise: PromisedLease,
    holder: LeaseHolder,
) -> None:
    quota = world.rules.quota_of(holder.team)
    if quota is None:
        return
    period = int(world.rules.quota_days * DAY_MS)
    own = [one for one in promises if one.team == holder.team]
    # The fullest period is one that ends with a lease: each that touches this one is looked at.
    ends = {promise.ends_ms} | {
        one.ends_ms for one in own if promise.starts_ms < one.ends_ms <= promise.ends_ms + period
    }
    cost = fairness.units(
        promise.nodes,
        promise.starts_ms,
        promise.ends_ms,
        machines=world.machines,
        rules=world.rules,
    )
    for end in sorted(ends):
        total = fairness.used_units(
            [*own, promise],
            holder.team,
            until_ms=end,
            machines=world.machines,
            rules=world.rules,
        )
        if total > quota + 1e-9:
            left = max(0.0, quota - (total - cost))
            raise refusal(
                "over_quota",
                f"It costs {cost:g} service units; team {holder.team} has {left:g} of {quota:g}"
                f" left for the {world.rules.quota_days:g} days up to {spoken(end, holder.zone)}",
                "Take it shorter or with fewer nodes, release another lease, or ask an admin",
            )
