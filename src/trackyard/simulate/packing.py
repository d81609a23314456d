"""The packing experiment: jobs arrive one by one, stay for ever, and are placed if they fit.

Owns the protocol of the fragmentation study of Weng et al. (ATC 2023): shuffle a list of jobs
by seed, let them arrive until a given percentage of all GPUs was asked for, and see how much of
it was placed. Placement itself is the scheduler's, with the settings of a live pass: what is
usual is learned from the jobs that have arrived, and not from the rest of the list.
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
from trackyard.simulate.replay import ReplayRequests
from trackyard.simulate.trace import JobTrace, TraceJob

#: Ways to choose a node: the scheduler's own, the tightest fit, and any at random.
PLACEMENTS = ("default", "bestfit", "random")
#: Jobs that arrive between two passes; each pass learns what is usual from all that came so far.
_BATCH = 128

#: Picks the parts of one job, or None where it does not fit.
Chooser = Callable[[Capacity, Shape, Fragmentation], list[Part] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingResult:
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
    trace: JobTrace, nodes: tuple[Node, ...], *, placement: str, seed: int, arrive_percent: float
) -> PackingResult:
    """Let jobs arrive until so many percent of all GPUs were asked for."""
    table = NodeTable(nodes)
    capacity = Capacity(table)
    requests = ReplayRequests(nodes)
    choose = _CHOOSERS[placement](seed)
    seen: Counter[Shape] = Counter()
    fragmentation = Fragmentation(table, [])
    total = int(table.gpus.sum()) * WHOLE
    arrived = given = placed = 0
    arrivals = _arrivals(trace, seed)
    while arrived < total * arrive_percent / 100:
        shapes: list[Shape] = []
        while len(shapes) < _BATCH and arrived < total * arrive_percent / 100:
            shapes.append(table.shape(requests.of(next(arrivals))))
            arrived += shapes[-1].total_milli
        seen.update(shapes)
        fragmentation = Fragmentation(table, _demand(seen))
        for shape in shapes:
            parts = choose(capacity, shape, fragmentation)
            if parts is not None:
                capacity.take(shape, parts)
                given += shape.total_milli
                placed += 1
    return PackingResult(
        placement=placement,
        seed=seed,
        arrived_percent=100 * arrived / total,
        allocated_percent=100 * given / total,
        fragmented_percent=100 * fragmentation.total(capacity) / total,
        placed=placed,
        refused=seen.total() - placed,
    )


def _arrivals(trace: JobTrace, seed: int) -> Iterator[TraceJob]:
    """All jobs in random order, then more of them drawn at random."""
    # Not for secrets: a seeded draw that anyone can repeat.
    draw = random.Random(seed)  # noqa: S311
    jobs = list(trace.jobs)
    draw.shuffle(jobs)
    yield from jobs
    while True:
        yield draw.choice(jobs)


def _demand(seen: Counter[Shape]) -> list[tuple[Shape, float]]:
    """What came so far, in one order: sums of fractions depend on it."""
    listed = sorted(seen.items(), key=lambda pair: pair[0].index)
    return [(shape, float(count)) for shape, count in listed]


def _default(seed: int) -> Chooser:
    """As the scheduler chooses where a policy says nothing else."""
    del seed

    def choose(
        capacity: Capacity, shape: Shape, fragmentation: Fragmentation
    ) -> list[Part] | None:
        style = Style.LEAST_FRAGMENTATION
        return place(capacity, shape, style=style, fragmentation=fragmentation)

    return choose


def _random(seed: int) -> Chooser:
    draw = np.random.default_rng(seed)

    def choose(
        capacity: Capacity, shape: Shape, fragmentation: Fragmentation
    ) -> list[Part] | None:
        del fragmentation
        rows = np.flatnonzero(capacity.fits(shape, shape.any_mask()))
        if len(rows) < shape.node_count:
            return None
        picked = draw.choice(rows, size=shape.node_count, replace=False)
        return [(int(row), capacity.pick(shape, int(row))) for row in picked]

    return choose


def _bestfit(seed: int) -> Chooser:
    """The node that is left with the least CPU and GPU, each against the largest node."""
    del seed

    def choose(
        capacity: Capacity, shape: Shape, fragmentation: Fragmentation
    ) -> list[Part] | None:
        del fragmentation
        rows = np.flatnonzero(capacity.fits(shape, shape.any_mask()))
        if len(rows) < shape.node_count:
            return None
        table = capacity.table
        left = capacity.free[rows] / (int(table.gpus.max()) * WHOLE)
        left = left + capacity.cpu[rows] / max(int(table.cpu.max()), 1)
        order = np.argsort(left, kind="stable")[: shape.node_count]
        return [(int(rows[at]), capacity.pick(shape, int(rows[at]))) for at in order]

    return choose


_CHOOSERS: dict[str, Callable[[int], Chooser]] = {
    "default": _default,
    "bestfit": _bestfit,
    "random": _random,
}
