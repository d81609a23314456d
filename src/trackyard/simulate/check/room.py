"""What is free on the nodes, counted plainly, and when a job would find room.

Owns Room and the foreseen ends of running jobs. It repeats on purpose, in the simplest way, what
the scheduler computes fast: the one is checked against the other. Leases are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trackyard.core.job import Job
from trackyard.core.node import Node
from trackyard.core.resources import WHOLE, Placement, ResourceRequest
from trackyard.scheduling import ActiveJob, Snapshot

#: A job that outlives its foreseen end is given as long again as it is late, at least this long.
_SOONEST_SECONDS = 1.0


@dataclass(slots=True)
class _Space:
    node: Node
    gpus: list[int]
    cpu: int
    memory: int
    tenants: int = 0
    closed: int = 0


class Room:
    """The nodes of a cluster with what is free on each."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._spaces = {
            node.id: _Space(node, [WHOLE] * len(node.gpus), node.cpu_milli, node.memory_bytes)
            for node in nodes
        }

    def take(self, placement: Placement, sign: int = 1) -> None:
        """Give a placement away, or with -1 take it back."""
        for share in placement.shares:
            space = self._spaces.get(share.node)
            if space is None:
                continue
            for gpu in share.gpus:
                space.gpus[gpu] -= sign * share.gpu_milli
            space.cpu -= sign * share.cpu_milli
            space.memory -= sign * share.memory_bytes
            space.tenants += sign
            space.closed += sign if placement.exclusive else 0

    def faults(self) -> Iterable[str]:
        """Say what was given away twice."""
        for name, space in self._spaces.items():
            for gpu, free in enumerate(space.gpus):
                if free < 0:
                    yield f"GPU {gpu} of node {name} is given to more than it holds"
            if space.cpu < 0:
                yield f"node {name} has given away {-space.cpu / WHOLE:g} CPUs that it lacks"
            if space.memory < 0:
                yield f"node {name} has given away more memory than it has"
            if space.closed and space.tenants > 1:
                yield f"node {name} is shared with a job that has it to itself"

    def fits(self, request: ResourceRequest, avoid: tuple[str, ...] = ()) -> bool:
        """Say whether a request finds room now."""
        rows = [
            space.node
            for space in self._spaces.values()
            if space.node.id not in avoid and _takes(space, request)
        ]
        if not request.same:
            return len(rows) >= request.nodes
        values = [node.label(request.same) for node in rows if node.label(request.same)]
        return any(values.count(value) >= request.nodes for value in set(values))


def _takes(space: _Space, request: ResourceRequest) -> bool:
    if not can_hold(space.node, request) or space.closed:
        return False
    if request.exclusive and space.tenants:
        return False
    if space.cpu < request.cpu_milli or space.memory < request.memory_bytes:
        return False
    if not request.gpus:
        return True
    return sum(free >= request.gpu_milli for free in space.gpus) >= request.gpus


def can_hold(node: Node, request: ResourceRequest) -> bool:
    """Say whether a node in service could hold a part of a request when idle."""
    return (
        node.state.takes_work
        and len(node.gpus) >= request.gpus
        and node.cpu_milli >= request.cpu_milli
        and node.memory_bytes >= request.memory_bytes
        and (not request.gpus or not request.gpu_types or node.gpu_type in request.gpu_types)
        and all(pair in node.labels for pair in request.labels)
    )


def foreseen_end(one: ActiveJob, snapshot: Snapshot) -> float:
    """Return when a running job is taken to end, by what the queue may know."""
    now, job = snapshot.now, one.job
    if one.stops_at is not None:
        return max(one.stops_at, now)
    limit, estimate = job.time_limit_seconds, job.estimate_seconds
    if estimate is not None:
        end = one.started_at + estimate - one.attained_seconds
        end = end if limit is None else min(end, one.started_at + limit)
    elif limit is not None:
        end = one.started_at + limit
    else:
        ran = one.attained_seconds + now - one.started_at
        end = now + snapshot.durations.bound_seconds(job, ran)
    if end > now:
        return end
    return now + max(now - end, _SOONEST_SECONDS)


def earliest(
    job: Job,
    nodes: Iterable[Node],
    held: Mapping[str, tuple[float, Placement]],
    now: float,
    avoid: tuple[str, ...] = (),
) -> float | None:
    """Return when a job finds room if each holder leaves at its time and nobody else comes."""
    room = Room(nodes)
    for _, placement in held.values():
        room.take(placement)
    if room.fits(job.request, avoid):
        return now
    for end, placement in sorted(held.values(), key=lambda pair: pair[0]):
        room.take(placement, -1)
        if room.fits(job.request, avoid):
            return max(end, now)
    return None
