"""The kinds of jobs usually seen on a cluster, few enough to score every choice against.

Owns TypicalJobs: the demand merged into classes of equal GPUs, so that no size of job drops out
because its CPUs and memory vary. Knows nodes by row, and nothing of what is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.table import Floats, Ints, Mask, NodeTable, Shape

#: Classes that a choice is scored against; more cost time and hardly change it.
MOST_CLASSES = 48
#: Typical jobs weigh by their number times their size to this power.
_SIZE_POWER = -0.2

#: A shape and how many such jobs are usual.
Demand = Sequence[tuple[Shape, float]]


class TypicalJobs:
    """Classes of jobs with their weights, in columns."""

    __slots__ = ("_met", "_step", "able", "cpu", "gpus", "memory", "need_of", "size", "weight")

    def __init__(self, table: NodeTable, demand: Demand, *, most: int = MOST_CLASSES) -> None:
        classes = _classes(demand, most)
        weights = [sum(weight for _, weight in members) for members in classes]
        total = sum(weights) or 1.0
        self.weight: Floats = np.array([weight / total for weight in weights])
        self.gpus: Floats = np.array([float(members[0][0].gpus) for members in classes])
        milli = np.array([float(members[0][0].milli) for members in classes])
        #: thousandths of all its GPUs
        self.size: Floats = self.gpus * milli
        self.cpu: Floats = np.array([_mean(one, attrgetter("cpu")) for one in classes])
        self.memory: Floats = np.array([_mean(one, attrgetter("memory")) for one in classes])
        #: which of the different shares of a GPU, the largest first, each class asks for
        needs, need_of = np.unique(-milli, return_inverse=True)
        self.need_of: Ints = need_of.astype(np.int64)
        self._step = len(needs) + 1
        #: for each free share of a GPU the first of those needs that it meets
        self._met: Ints = np.searchsorted(needs, -np.arange(WHOLE + 1)).astype(np.int64)
        #: for each row which classes could ever run there
        self.able: Mask = np.zeros((table.count, len(classes)), dtype=np.bool_)
        for at, members in enumerate(classes):
            for shape, _ in members:
                self.able[:, at] |= shape.any_mask()

    def __len__(self) -> int:
        return len(self.weight)

    def room(self, gpu: NDArray[np.int32]) -> tuple[Floats, Ints]:
        """Free thousandths on GPUs that meet each need, and how many such GPUs, row by row.

        A last column counts all GPUs.
        """
        count, step = len(gpu), self._step
        met = self._met.take(gpu, mode="clip")
        cells = (met + step * np.arange(count)[:, None]).ravel()
        room = np.bincount(cells, weights=gpu.ravel(), minlength=count * step)
        gpus = np.bincount(cells, minlength=count * step)
        return room.reshape(count, step).cumsum(axis=1), gpus.reshape(count, step).cumsum(axis=1)


def _classes(demand: Demand, most: int) -> list[list[tuple[Shape, float]]]:
    """Merge shapes until at most so many classes are left.

    First those of like CPUs and memory, then all of the same GPUs; of what is still too many
    those with the largest part of all GPUs asked for are kept.
    """
    weighed = [
        (shape, weight * (shape.total_milli / WHOLE) ** _SIZE_POWER)
        for shape, weight in demand
        if shape.gpus and weight > 0
    ]
    classes: dict[tuple[object, ...], list[tuple[Shape, float]]] = {}
    for likeness in (_exact, _alike, _any):
        classes = {}
        for shape, weight in weighed:
            request = shape.request
            same_gpus = (shape.gpus, shape.milli, frozenset(request.gpu_types), request.labels)
            classes.setdefault((same_gpus, likeness(shape)), []).append((shape, weight))
        if len(classes) <= most:
            break

    def share(members: list[tuple[Shape, float]]) -> float:
        return sum(weight * shape.gpus * shape.milli for shape, weight in members)

    kept = sorted(classes.values(), key=lambda members: (-share(members), members[0][0].index))
    return kept[:most]


def _exact(shape: Shape) -> tuple[int, int]:
    return shape.cpu, shape.memory


def _alike(shape: Shape) -> tuple[int, int]:
    """CPUs and memory to the nearest power of two."""
    return shape.cpu.bit_length(), shape.memory.bit_length()


def _any(shape: Shape) -> tuple[int, int]:
    del shape
    return 0, 0


def _mean(members: list[tuple[Shape, float]], of: Callable[[Shape], int]) -> float:
    """The weighted mean, exact where all are equal; at least 1, to divide by."""
    first = of(members[0][0])
    total = sum(weight for _, weight in members)
    beyond = sum(weight * (of(shape) - first) for shape, weight in members)
    return max(first + beyond / total, 1.0)
