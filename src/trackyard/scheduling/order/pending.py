"""One waiting job with what the pass derived from it once: shape, foreseen lengths and its
place in time.

Owns Pending and how its lengths are found. Knows nothing of lines, capacity or teams.
"""

from __future__ import annotations

from math import inf

from trackyard.scheduling.durations import DurationModel, level_of
from trackyard.scheduling.place.table import Shape
from trackyard.scheduling.policy import Order
from trackyard.scheduling.snapshot import Waiting


class Pending:
    """A waiting job, measured."""

    __slots__ = ("bound", "length", "sequence", "shape", "waiting")

    def __init__(
        self, waiting: Waiting, *, shape: Shape, sequence: int, length: float, bound: float
    ) -> None:
        self.waiting = waiting
        self.shape = shape
        self.sequence = sequence
        #: what the order compares: seconds, or GPU-seconds under the default order
        self.length = length
        #: seconds within which it is foreseen to end, for backfill; infinite when nothing is known
        self.bound = bound


def measure(
    waiting: Waiting, *, shape: Shape, sequence: int, order: Order, durations: DurationModel
) -> Pending:
    """Foresee a waiting job's lengths under an order."""
    job = waiting.job
    if job.estimate_seconds is not None:
        rest = max(job.estimate_seconds - waiting.attained_seconds, 0.0)
        bound = rest if job.time_limit_seconds is None else min(rest, job.time_limit_seconds)
        length = rest * size_of(shape) if order is Order.DEFAULT else rest
        return Pending(waiting, shape=shape, sequence=sequence, length=length, bound=bound)
    bound = job.time_limit_seconds if job.time_limit_seconds is not None else inf
    length = 0.0
    if order is Order.DEFAULT:
        rank = durations.rows(job)[level_of(waiting.attained_seconds)]
        length = min(rank, bound) * size_of(shape)
    elif order is Order.SHORTEST:
        length = durations.expected_seconds(job)
    if bound == inf:
        bound = durations.bound_seconds(job, waiting.attained_seconds)
    return Pending(waiting, shape=shape, sequence=sequence, length=length, bound=bound)


def size_of(shape: Shape) -> float:
    """GPUs that a job ties up, the weight of its length; a job without GPUs counts as a tenth."""
    return max(shape.total_milli / 1000.0, 0.1)
