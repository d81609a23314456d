"""The packing experiment: jobs arrive one by one, stay for ever, and are placed if they fit.

Owns the protocol of the fragmentation study of Weng et al. (ATC 2023): shuffle a list of jobs
by seed, let them arrive until a given percentage of all GPUs was asked for, and see how much of
it was placed. Placement itself is the scheduler's.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trackyard.core.node import Node
from trackyard.core.resources import WHOLE, Style
from trackyard.scheduling.place.capacity import Capacity, Part
from trackyard.scheduling.place.choose import place
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import NodeTable, Shape
from trackyard.simulate.replay import Requests
from trackyard.simulate.trace import Trace, TraceJob

#: Ways to choose a node: the scheduler's own, the tightest fit, and any at random.
PLACEMENTS = ("default", "bestfit", "random")


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """How much was placed."""

    placement: str
    seed: int
    arrived_percent: float
    #: GPUs given away, in percent of all
    allocated_percent: float
    #: GPUs that are free but of no use to a typical job, in percent of all
    fragmented_percent: float
    placed: int
    refused: int


def pack(
    trace: Trace, nodes: tuple[Node, ...], *, placement: str, seed: int, arrive_percent: float
) -> Packed:
    """Let jobs arrive until so many percent of all GPUs were asked for."""
    table = NodeTable(nodes)
    capacity = Capacity(table)
    requests = Requests(nodes)
    shapes = {job.id: table.shape(requests.of(job)) for job in trace.jobs}
    counts = Counter(shape.index for shape in shapes.values())
    by_index = {shape.index: shape for shape in shapes.values()}
    demand = [(by_index[index], float(count)) for index, count in counts.items()]
    fragmentation = Fragmentation(table, demand)
    choose = _chooser(placement, fragmentation, seed)
    total = int(table.gpus.sum()) * WHOLE
    arrived = given = placed = refused = 0
    for job in _arrivals(trace, seed):
        if arrived >= total * arrive_percent / 100:
            break
        shape = shapes[job.id]
        arrived += shape.total_milli
        parts = choose(capacity, shape)
        if parts is None:
            refused += 1
        else:
            capacity.take(shape, parts)
            given += shape.total_milli
            placed += 1
    return Packed(
        placement=placement,
        seed=seed,
        arrived_percent=100 * arrived / total,
        allocated_percent=100 * given / total,
        fragmented_percent=100 * fragmentation.total(capacity) / total,
        placed=placed,
        refused=refused,
    )


def _arrivals(trace: Trace, seed: int) -> Iterator[TraceJob]:
    """All jobs in random order, then more of them drawn at random."""
    # Not for secrets: a seeded draw that anyone can repeat.
    draw = random.Random(seed)  # noqa: S311
    jobs = list(trace.jobs)
    draw.shuffle(jobs)
    yield from jobs
    while True:
        yield draw.choice(jobs)


def _chooser(
    placement: str, fragmentation: Fragmentation, seed: int
) -> Callable[[Capacity, Shape], list[Part] | None]:
    if placement == "random":
        return _random(seed)
    if placement == "bestfit":
        return _bestfit

    def default(capacity: Capacity, shape: Shape) -> list[Part] | None:
        style = Style.LEAST_FRAGMENTATION
        return place(capacity, shape, style=style, fragmentation=fragmentation)

    return default


def _random(seed: int) -> Callable[[Capacity, Shape], list[Part] | None]:
    draw = np.random.default_rng(seed)

    def choose(capacity: Capacity, shape: Shape) -> list[Part] | None:
        rows = np.flatnonzero(capacity.fits(shape, shape.any_mask()))
        if len(rows) < shape.node_count:
            return None
        picked = draw.choice(rows, size=shape.node_count, replace=False)
        return [(int(row), capacity.pick(shape, int(row))) for row in picked]

    return choose


def _bestfit(capacity: Capacity, shape: Shape) -> list[Part] | None:
    """The node that is left with the least CPU and GPU, each against the largest node."""
    rows = np.flatnonzero(capacity.fits(shape, shape.any_mask()))
    if len(rows) < shape.node_count:
        return None
    table = capacity.table
    left = capacity.gpu[rows].sum(axis=1) / (int(table.gpus.max()) * WHOLE)
    left = left + capacity.cpu[rows] / max(int(table.cpu.max()), 1)
    order = np.argsort(left, kind="stable")[: shape.node_count]
    return [(int(rows[at]), capacity.pick(shape, int(rows[at]))) for at in order]
