"""Who holds how much: service units, hoarding, strings of leases. Pure.

Owns the sums and what they are compared with. Says nothing and refuses nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackyard.leases.plan.calendar import PromisedLease, machines_of
from trackyard.leases.plan.machines import LeasableNode
from trackyard.leases.rules import DAY_MS, HOUR_MS, LeaseRules


@dataclass(frozen=True, kw_only=True, slots=True)
class PeakHolding:
    """What a team would hold of a class of nodes at its busiest moment."""

    node_class: str
    nodes: int
    of: int

    @property
    def share(self) -> float:
        """The part of all nodes of the class."""
        return self.nodes / self.of if self.of else 0.0


def units(
    nodes: Iterable[str],
    start_ms: int,
    end_ms: int,
    *,
    machines: Sequence[LeasableNode],
    rules: LeaseRules,
) -> float:
    """Return what nodes cost for a span, in service units."""
    hours = max(0, end_ms - start_ms) / HOUR_MS
    return hours * sum(rules.units_an_hour(machine) for machine in machines_of(machines, nodes))


def used_units(
    promises: Iterable[PromisedLease],
    team: str,
    *,
    until_ms: int,
    machines: Sequence[LeasableNode],
    rules: LeaseRules,
) -> float:
    """Return what a team's leases cost within the period that ends then."""
    since = until_ms - int(rules.quota_days * DAY_MS)
    return sum(
        units(
            promise.nodes,
            max(promise.starts_ms, since),
            min(promise.ends_ms, until_ms),
            machines=machines,
            rules=rules,
        )
        for promise in promises
        if promise.team == team and not promise.is_pool and promise.overlaps(since, until_ms)
    )


def hoarded(
    promises: Sequence[PromisedLease], wanted: PromisedLease, *, machines: Sequence[LeasableNode]
) -> list[PeakHolding]:
    """Return, for each class of the wanted nodes, the most its team would hold at one time."""
    others = [
        one
        for one in promises
        if one.team == wanted.team
        and one.lease_id != wanted.lease_id
        and not one.is_pool
        and one.overlaps(wanted.starts_ms, wanted.ends_ms)
    ]
    moments = {wanted.starts_ms, *(max(one.starts_ms, wanted.starts_ms) for one in others)}
    found = []
    for node_class in sorted({one.node_class for one in machines_of(machines, wanted.nodes)}):
        kind = {machine.id for machine in machines if machine.node_class == node_class}
        most = max(
            len(
                kind
                & {
                    node
                    for one in (wanted, *others)
                    if one.overlaps(moment, moment + 1)
                    for node in one.nodes
                }
            )
            for moment in moments
        )
        found.append(PeakHolding(node_class=node_class, nodes=most, of=len(kind)))
    return found


def stacked_share(
    promises: Sequence[PromisedLease],
    team: str,
    node_class: str,
    *,
    now_ms: int,
    machines: Sequence[LeasableNode],
    rules: LeaseRules,
) -> float:
    """Return which part of the coming weeks a team's string of leases covers on a class.

    Leases that overlap count once; a single lease is no string.
    """
    kind = {machine.id for machine in machines if machine.node_class == node_class}
    own = sorted(
        (one.starts_ms, one.ends_ms)
        for one in promises
        if one.team == team and not one.is_pool and kind & set(one.nodes)
    )
    joined: list[list[int]] = []
    for start, end in own:
        if joined and start < joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    if len(joined) < 2:
        return 0.0
    window_end = max(joined[-1][1], now_ms + int(rules.stacking_days * DAY_MS))
    covered = sum(end - start for start, end in joined)
    return covered / max(1, window_end - joined[0][0])
