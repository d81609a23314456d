"""The calendar: which node is promised to whom, what is free, which slots fit. Pure.

Owns conflicts, the choice of nodes and the search for slots. Times are milliseconds. Knows no
database, no rule of fairness and no wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trackyard.leases.plan.machines import LeasableNode, by_id
from trackyard.leases.plan.where import Condition
from trackyard.leases.rules import MINUTE_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class PromisedLease:
    """A lease that is not over, as the calendar sees it."""

    lease_id: str
    name: str
    user: str
    team: str
    nodes: tuple[str, ...]
    starts_ms: int
    ends_ms: int
    #: the pool it was handed out from
    parent: str = ""
    is_pool: bool = False

    def overlaps(self, start_ms: int, end_ms: int) -> bool:
        """Say whether the promise and a span share a moment."""
        return self.starts_ms < end_ms and start_ms < self.ends_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningJob:
    """A job that runs on nodes now."""

    job_id: str
    name: str
    user: str
    team: str
    nodes: tuple[str, ...]
    #: when it is over at the latest; None: nobody knows
    ends_ms: int | None
    preemptible: bool
    grace_ms: int = 30_000
    lease: str = ""

    def blocks(self, start_ms: int, ask: NodeQuery) -> bool:
        """Say whether it keeps such a lease from starting then."""
        if self.preemptible or ask.covers(self):
            return False
        return self.ends_ms is None or self.ends_ms > start_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeQuery:
    """Which nodes someone wants, and how many."""

    #: these very nodes
    nodes: tuple[str, ...] = ()
    #: a kind of node, as people call it
    type: str = ""
    where: Condition | None = None
    min_nodes: int = 1
    max_nodes: int = 1
    team: str = ""
    #: the only one who may use them; empty: the whole team
    only_user: str = ""
    #: the pool they are taken from, and the lease that is being changed
    parent: str = ""
    ignore: str = ""

    def covers(self, one: RunningJob) -> bool:
        """Say whether a running job may stay, because it is the holder's own."""
        return one.team == self.team and self.only_user in ("", one.user)

    def wants(self, machine: LeasableNode) -> bool:
        """Say whether a machine is one of those wanted."""
        if self.nodes and machine.id not in self.nodes:
            return False
        if self.type and not machine.is_type(self.type):
            return False
        return self.where is None or self.where.matches(machine)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A span in which enough of the wanted nodes are free."""

    starts_ms: int
    ends_ms: int
    nodes: tuple[str, ...]
    #: how long the nodes stay free; None: no end in sight
    free_until_ms: int | None


@dataclass(slots=True)
class Calendar:
    """All promises and what runs now."""

    machines: Sequence[LeasableNode]
    promises: Sequence[PromisedLease] = ()
    occupants: Sequence[RunningJob] = ()
    _by_node: dict[str, list[PromisedLease]] = field(default_factory=dict)
    _pools: dict[str, PromisedLease] = field(default_factory=dict)
    #: the machines by their ids
    known: dict[str, LeasableNode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = by_id(self.machines)
        for promise in sorted(self.promises, key=lambda one: (one.starts_ms, one.lease_id)):
            if promise.is_pool:
                self._pools[promise.lease_id] = promise
            for node in promise.nodes:
                self._by_node.setdefault(node, []).append(promise)

    # -- what is in the way -----------------------------------------------------------------

    def conflicts(
        self, node: str, start_ms: int, end_ms: int, ask: NodeQuery
    ) -> list[PromisedLease]:
        """Return the promises on a node that a span would break, first ones first."""
        return [
            promise
            for promise in self._by_node.get(node, ())
            if promise.overlaps(start_ms, end_ms)
            and promise.lease_id not in (ask.ignore, ask.parent)
            # What a pool has handed out is in the way of others, not of the pool itself.
            and not (ask.ignore and promise.parent == ask.ignore)
        ]

    def blockers(self, node: str, start_ms: int, ask: NodeQuery) -> list[RunningJob]:
        """Return the jobs on a node that would still run then and may not be drained."""
        return [one for one in self.occupants if node in one.nodes and one.blocks(start_ms, ask)]

    def is_free(self, node: str, start_ms: int, end_ms: int, ask: NodeQuery) -> bool:
        """Say whether a node can be promised for a span."""
        return (
            self._in_pool(node, start_ms, end_ms, ask)
            and not self.conflicts(node, start_ms, end_ms, ask)
            and not self.blockers(node, start_ms, ask)
        )

    def _in_pool(self, node: str, start_ms: int, end_ms: int, ask: NodeQuery) -> bool:
        if not ask.parent:
            return True
        pool = self._pools.get(ask.parent)
        return (
            pool is not None
            and node in pool.nodes
            and pool.starts_ms <= start_ms
            and end_ms <= pool.ends_ms
        )

    def free_until(self, node: str, at_ms: int, ask: NodeQuery) -> int | None:
        """Return when the next promise on a node begins."""
        later = [
            one.starts_ms
            for one in self._by_node.get(node, ())
            if one.starts_ms >= at_ms and one.lease_id not in (ask.ignore, ask.parent)
        ]
        pool = self._pools.get(ask.parent)
        if pool is not None:
            later.append(pool.ends_ms)
        return min(later, default=None)

    def follower(self, promise: PromisedLease, node: str, within_ms: int) -> PromisedLease | None:
        """Return the promise on a node that begins within so long after this one ends."""
        found = [
            one
            for one in self._by_node.get(node, ())
            if one.lease_id not in (promise.lease_id, promise.parent)
            and one.parent != promise.lease_id
            and promise.ends_ms <= one.starts_ms < promise.ends_ms + max(1, within_ms)
        ]
        return found[0] if found else None

    # -- choosing ---------------------------------------------------------------------------

    def candidates(self, ask: NodeQuery) -> list[LeasableNode]:
        """Return the machines that are wanted, whatever is free."""
        pool = self._pools.get(ask.parent)
        inside = None if pool is None else set(pool.nodes)
        return [
            machine
            for machine in self.machines
            if ask.wants(machine) and (inside is None or machine.id in inside)
        ]

    def choose(self, ask: NodeQuery, start_ms: int, end_ms: int) -> tuple[str, ...]:
        """Return the nodes to promise: as many as wanted, fewest scraps left; empty: too few."""
        free = [
            machine
            for machine in self.candidates(ask)
            if self.is_free(machine.id, start_ms, end_ms, ask)
            and (machine.works or machine.id in ask.nodes)
        ]
        if len(free) < ask.min_nodes:
            return ()
        free.sort(key=lambda machine: self._cost(machine, start_ms, end_ms, ask))
        return tuple(machine.id for machine in free[: ask.max_nodes])

    def _cost(
        self, machine: LeasableNode, start_ms: int, end_ms: int, ask: NodeQuery
    ) -> tuple[object, ...]:
        """What taking this node spoils: drained jobs, bigger machines, gaps nobody can use."""
        drains = sum(machine.id in one.nodes and not ask.covers(one) for one in self.occupants)
        earlier = [
            one.ends_ms
            for one in self._by_node.get(machine.id, ())
            if one.ends_ms <= start_ms and one.lease_id != ask.parent
        ]
        after = self.free_until(machine.id, end_ms, ask)
        scraps = (start_ms - max(earlier)) if earlier else 0
        scraps += 0 if after is None else after - end_ms
        return (
            not machine.works,
            drains,
            machine.gpu_count,
            machine.gpu_memory_bytes,
            scraps,
            len(self._by_node.get(machine.id, ())),
            machine.id,
        )

    # -- slots ------------------------------------------------------------------------------

    def slots(
        self,
        ask: NodeQuery,
        *,
        length_ms: int,
        from_ms: int,
        until_ms: int,
        near_ms: int | None = None,
        most: int = 3,
    ) -> list[Slot]:
        """Return spans of a length in which enough nodes are free, those nearest first."""
        names = {machine.id for machine in self.candidates(ask)}
        moments = self._moments(names, length_ms, from_ms, until_ms)
        wanted = from_ms if near_ms is None else near_ms
        found: list[Slot] = []
        for moment in sorted(moments, key=lambda one: (abs(one - wanted), one)):
            nodes = self.choose(ask, moment, moment + length_ms)
            if not nodes:
                continue
            ends = [self.free_until(node, moment + length_ms, ask) for node in nodes]
            known = [end for end in ends if end is not None]
            found.append(
                Slot(
                    starts_ms=moment,
                    ends_ms=moment + length_ms,
                    nodes=nodes,
                    free_until_ms=min(known, default=None),
                )
            )
            if len(found) >= most:
                break
        return found

    def _moments(self, names: set[str], length_ms: int, from_ms: int, until_ms: int) -> set[int]:
        """Return when something could begin: now, after something ends, or just before it."""
        moments = {from_ms}
        for promise in self.promises:
            if names & set(promise.nodes):
                moments |= {promise.ends_ms, promise.starts_ms, promise.starts_ms - length_ms}
        for one in self.occupants:
            if one.ends_ms is not None and names & set(one.nodes):
                moments.add(-(-one.ends_ms // MINUTE_MS) * MINUTE_MS)
        return {moment for moment in moments if from_ms <= moment <= until_ms}


def machines_of(machines: Sequence[LeasableNode], nodes: Iterable[str]) -> list[LeasableNode]:
    """Return the machines behind node ids; unknown ones are left out."""
    wanted = set(nodes)
    return [machine for machine in machines if machine.id in wanted]
