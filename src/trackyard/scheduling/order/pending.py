"""One waiting job with what the pass derived from it once: shape, foreseen lengths and its
place in time.

Owns Pending and how its lengths are found. Knows nothing of lines, capacity or teams.
"""

from __future__ import annotations

from trackyard.scheduling.forecast.durations import DurationModel, level_of
from trackyard.scheduling.place.table import Shape
from trackyard.scheduling.policy import QueueOrder
from trackyard.scheduling.snapshot import WaitingJob


class PendingJob:
    """A waiting job, measured."""

    __slots__ = ("bound", "length", "sequence", "shape", "waiting")

    def __init__(
        self, waiting: WaitingJob, shape: Shape, sequence: int, length: float, bound: float
    ) -> None:
        self.waiting = waiting
        self.shape = shape
        self.sequence = sequence
        #: what the order compares: seconds, or GPU-seconds under the default order
        self.length = length
        #: seconds within which it is foreseen to end, for backfill; infinite when nothing is known
        self.bound = bound


class Measurer:
    """Foresees lengths; what was learned is looked up once for jobs that have it in common."""

    def __init__(self, durations: DurationModel) -> None:
        self._durations = durations
        self._rows: dict[tuple[object, ...], tuple[float, ...]] = {}

    def __call__(
        self, waiting: WaitingJob, shape: Shape, sequence: int, order: QueueOrder
    ) -> PendingJob:
        """Measure a waiting job under an order."""
        job = waiting.job
        limit = job.time_limit_seconds
        if job.estimate_seconds is not None:
            rest = max(job.estimate_seconds - waiting.attained_seconds, 0.0)
            bound = rest if limit is None else min(rest, limit)
            length = rest * size_of(shape) if order is QueueOrder.DEFAULT else rest
            return PendingJob(waiting, shape, sequence, length, bound)
        length = 0.0
        if order is QueueOrder.DEFAULT:
            length = self._rank(waiting, shape)
            if limit is not None and limit < length:
                length = limit
            length *= shape.size
        elif order is QueueOrder.SHORTEST:
            length = self._durations.expected_seconds(job)
        if limit is None:
            limit = self._durations.bound_seconds(job, waiting.attained_seconds)
        return PendingJob(waiting, shape, sequence, length, limit)

    def _rank(self, waiting: WaitingJob, shape: Shape) -> float:
        job = waiting.job
        if not job.preemptible:
            # It runs to its end once it has started, however long that turns out to be.
            return self._durations.expected_seconds(job)
        alike = (job.team, job.user, job.name, job.command, job.group, shape.total_milli)
        rows = self._rows.get(alike)
        if rows is None:
            rows = self._rows[alike] = self._durations.rows(job)
        attained = waiting.attained_seconds
        if attained:
            return rows[level_of(attained)]
        return min(rows[0], self._durations.expected_seconds(job))


def size_of(shape: Shape) -> float:
    """GPUs that a job ties up, the weight of its length; a job without GPUs counts as a tenth."""
    return shape.size
