"""What a judgement on a lease depends on, what it comes to, and when jobs must make room. Pure.

Owns World, Holder, Plan and the turnaround at a lease's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property

from trackyard.leases.plan.calendar import Calendar, PromisedLease, RunningJob
from trackyard.leases.plan.machines import LeasableNode
from trackyard.leases.records import LeaseRecord
from trackyard.leases.rules import MINUTE_MS, LeaseRules
from trackyard.leases.wording import spoken, whose


@dataclass(frozen=True, kw_only=True)
class LeaseWorld:
    """All that a judgement depends on."""

    now_ms: int
    rules: LeaseRules
    machines: Sequence[LeasableNode]
    #: leases that are not over
    records: Sequence[LeaseRecord] = ()
    #: leases that are over and still count against quotas
    past: Sequence[PromisedLease] = ()
    occupants: Sequence[RunningJob] = ()

    @property
    def minute_ms(self) -> int:
        """The minute that has begun."""
        return self.now_ms // MINUTE_MS * MINUTE_MS

    @cached_property
    def promises(self) -> list[PromisedLease]:
        """What is promised."""
        return [record.promise for record in self.records]

    @cached_property
    def calendar(self) -> Calendar:
        """The calendar of this moment."""
        return Calendar(self.machines, self.promises, self.occupants)


@dataclass(frozen=True, kw_only=True)
class LeaseHolder:
    """For whom a lease is, and whether rules of fairness hold for who asks."""

    team: str
    user: str
    is_exempt: bool = False
    sees_all: bool = False
    #: in which sentences name times
    zone: tzinfo = UTC


@dataclass(frozen=True, kw_only=True)
class LeasePlan:
    """What a lease would be."""

    nodes: tuple[str, ...]
    starts_ms: int
    ends_ms: int
    min_nodes: int = 1
    max_nodes: int = 1
    warnings: tuple[str, ...] = ()
    #: strings of leases and the like, for staff
    flags: tuple[str, ...] = field(default=())


# -- turnaround -------------------------------------------------------------------------------


def usable_until(promise: PromisedLease, calendar: Calendar, rules: LeaseRules) -> tuple[int, str]:
    """Return until when a lease's jobs may run, and the lease for which they must make room."""
    known = calendar.known
    until, follower = promise.ends_ms, ""
    for node in promise.nodes:
        machine = known.get(node)
        gap = rules.gap_ms(machine) if machine else rules.gap_minutes * MINUTE_MS
        gap = min(gap, (promise.ends_ms - promise.starts_ms) // 10)
        after = calendar.follower(promise, node, gap)
        # A team's own next lease needs no room made for it.
        if after is not None and after.team != promise.team:
            moment = min(promise.ends_ms, after.starts_ms - gap)
            if not follower or moment < until:
                until, follower = min(until, moment), after.lease_id
    return until, follower


def closing_ms(promise: PromisedLease, calendar: Calendar, rules: LeaseRules) -> int:
    """Return from when on no job of a lease is started, because it would be stopped at once."""
    until, _ = usable_until(promise, calendar, rules)
    last = min(2 * MINUTE_MS, (promise.ends_ms - promise.starts_ms) // 10)
    return min(until, promise.ends_ms - last)


def warnings(world: LeaseWorld, promise: PromisedLease, zone: tzinfo) -> tuple[str, ...]:
    """Say what the holder should know although nothing is in the way."""
    others = [one for one in world.promises if one.lease_id != promise.lease_id]
    calendar = Calendar(world.machines, [*others, promise])
    found = []
    until, follower = usable_until(promise, calendar, world.rules)
    if follower and until < promise.ends_ms:
        after = next(one for one in others if one.lease_id == follower)
        found.append(
            f"{whose(after).capitalize()} follows: jobs on this lease are asked to save"
            f" from {spoken(until, zone)}"
        )
    down = [one for one in world.machines if one.id in promise.nodes and not one.works]
    found += [f"Node {one.id} is {one.state} now" for one in down]
    return tuple(found)
