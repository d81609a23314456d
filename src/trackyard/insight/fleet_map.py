"""What each GPU was doing over time, and how many jobs waited: the picture of a fleet. Pure.

Owns the cells of the heat map and the curves of the queue. The ledger is the exact account; a
cell shows the class that took most of its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trackyard.core.job import PriorityClass
from trackyard.core.resources import WHOLE
from trackyard.insight.goodput import Interval, LeaseSpan, NodeSpan, UsageHistory
from trackyard.queue.shares.past import PastWait

Floats = NDArray[np.float64]
#: A letter for each state of a cell: held, held and idle, leased, broken, free, not there.
USED, IDLE, LEASED, BROKEN, FREE, ABSENT = "uilbf."
_LETTERS = np.array([USED, IDLE, LEASED, BROKEN, FREE])


class GpuRow(msgspec.Struct):
    """One GPU over time."""

    node: str
    gpu: int
    type: str
    #: a letter for each stretch of time: u held by a job, i held and hardly used, l leased and
    #: idle, b broken or out of service, f free, . not there
    cells: str
    #: how much of the stretch that was, from 0 to 9
    levels: str
    #: percent of the whole time that a job held it
    used_percent: float


class QueueClass(msgspec.Struct):
    """How jobs of one priority class waited."""

    priority: str
    #: jobs waiting at the end of each stretch
    depth: list[int]
    #: jobs that started in the window, and their waits
    started: int
    p50_wait_seconds: float | None
    p90_wait_seconds: float | None


class FleetHistory(msgspec.Struct):
    """The fleet over time."""

    since_ms: int
    until_ms: int
    width_ms: int
    gpus: list[GpuRow]
    queue: list[QueueClass]


def edges_of(since_ms: int, until_ms: int, points: int) -> NDArray[np.int64]:
    """Cut a window into stretches of equal length."""
    width = max(1, -(-(until_ms - since_ms) // points))
    return np.arange(since_ms, until_ms + width, width, dtype=np.int64)


def fleet_map(
    history: UsageHistory, types: dict[str, str], edges: NDArray[np.int64], now_ms: int
) -> list[GpuRow]:
    """Return what each GPU was doing in each stretch."""
    held: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    for attempt in history.attempts:
        ended = now_ms if attempt.ended_ms is None else attempt.ended_ms
        for share in attempt.shares:
            for gpu in share.gpus:
                held[share.node, gpu].append((attempt.admitted_ms, ended, share.gpu_milli))
    leases: dict[str, list[LeaseSpan]] = defaultdict(list)
    for lease in history.leases:
        leases[lease.node].append(lease)
    rows = []
    for node in sorted(history.nodes):
        spans = history.nodes[node]
        leased = _ramp([(one.since_ms, one.until_ms, WHOLE) for one in leases[node]], edges)
        for gpu in range(max((one.gpus for one in spans), default=0)):
            own, idle = held[node, gpu], history.idle.get((node, gpu), ())
            sums = _gpu(spans, gpu, held=own, idle=idle, leased=leased, edges=edges)
            rows.append(_row(node, gpu, types.get(node, ""), sums, edges))
    return rows


def _gpu(
    spans: Sequence[NodeSpan],
    gpu: int,
    *,
    held: list[tuple[int, int, int]],
    idle: Sequence[Interval],
    leased: Floats,
    edges: NDArray[np.int64],
) -> Floats:
    """Return the time of a GPU in each stretch: held, held idle, leased, broken, free."""
    there = [(one.since_ms, one.until_ms, WHOLE) for one in spans if gpu < one.gpus]
    wall = _ramp(there, edges)
    out = _ramp(
        [
            (one.since_ms, one.until_ms, WHOLE)
            for one in spans
            if gpu < one.gpus and (one.is_out or one.is_down)
        ],
        edges,
    )
    used = np.minimum(_ramp(held, edges), wall)
    unused = [
        (max(low, since), min(high, until), milli)
        for since, until in idle
        for low, high, milli in held
        if low < until and since < high
    ]
    lazy = np.minimum(_ramp(unused, edges), used)
    broken = np.minimum(out, wall - used)
    left = wall - used - broken
    lent = np.minimum(np.maximum(leased - used, 0.0), left)
    return np.stack([used - lazy, lazy, lent, broken, left - lent])


def _ramp(intervals: Sequence[tuple[int, int, int]], edges: NDArray[np.int64]) -> Floats:
    """Return the thousandths times milliseconds that intervals cover of each stretch."""
    if not intervals:
        return np.zeros(len(edges) - 1)
    spans = np.array(intervals, dtype=np.int64)
    moments = np.concatenate([spans[:, 0], spans[:, 1]])
    steps = np.concatenate([spans[:, 2], -spans[:, 2]])
    order = np.argsort(moments, kind="stable")
    times = (moments[order] - edges[0]).astype(np.float64)
    level = np.minimum(np.cumsum(steps[order]), WHOLE).astype(np.float64)
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    at = np.interp((edges - edges[0]).astype(np.float64), times, area)
    return np.diff(at)


def _row(node: str, gpu: int, kind: str, sums: Floats, edges: NDArray[np.int64]) -> GpuRow:
    whole = np.diff(edges).astype(np.float64) * WHOLE
    top = sums.argmax(axis=0)
    part = sums.max(axis=0) / whole
    letters = np.where(sums.sum(axis=0) > 0, _LETTERS[top], ABSENT)
    levels = np.clip((part * 10).astype(np.int64), 0, 9)
    wall = float(sums.sum())
    used = float(sums[:2].sum())
    return GpuRow(
        node=node,
        gpu=gpu,
        type=kind,
        cells="".join(letters.tolist()),
        levels="".join(str(level) for level in levels.tolist()),
        used_percent=round(100 * used / wall, 2) if wall else 0.0,
    )


def queue_curves(
    waits: Sequence[PastWait], edges: NDArray[np.int64], since_ms: int, until_ms: int
) -> list[QueueClass]:
    """Return how many jobs waited at the end of each stretch, and how long, by class."""
    by_class: dict[int, list[PastWait]] = defaultdict(list)
    for one in waits:
        by_class[one.priority].append(one)
    found = []
    for priority in sorted(by_class, reverse=True):
        rows = by_class[priority]
        begun = np.sort(np.array([one.submitted_ms for one in rows], dtype=np.int64))
        over = [one.until_ms for one in rows if one.until_ms is not None]
        ended = np.sort(np.array(over, dtype=np.int64))
        ends = np.minimum(edges[1:], until_ms)
        depth = np.searchsorted(begun, ends, "left") - np.searchsorted(ended, ends, "right")
        lengths = [
            (one.until_ms - one.submitted_ms) / 1000
            for one in rows
            if one.until_ms is not None and since_ms <= one.until_ms < until_ms
        ]
        found.append(
            QueueClass(
                priority=PriorityClass(priority).name.lower(),
                depth=np.maximum(depth, 0).tolist(),
                started=len(lengths),
                p50_wait_seconds=_percentile(lengths, 50),
                p90_wait_seconds=_percentile(lengths, 90),
            )
        )
    return found


def _percentile(values: Sequence[float], part: int) -> float | None:
    if not values:
        return None
    found: Any = np.percentile(np.array(values), part)
    return round(float(found), 3)
