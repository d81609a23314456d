"""How much of what is free could still be used by the jobs usually seen here.

Owns Fragmentation: for each node the free GPU thousandths that typical jobs could not use,
because of the GPUs' remaining shares, the type, or the CPUs and memory left beside them. The
best place for a job is where this grows least. It follows fragmentation gradient descent (Weng
et al., ATC 2023) with three changes: a node also counts as usable only as far as its CPUs and
memory reach, large jobs weigh less than by their number, and GPU types that some jobs insist on
are spared by the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.table import Floats, Ints, Mask, NodeTable, Shape
from trackyard.scheduling.place.typical import MOST_CLASSES, Demand, TypicalJobs

#: How far the reach of CPUs and memory counts, against the GPUs alone.
_REACH = 0.2
#: How much a GPU type that some insist on is spared by the others; found on the openb trace.
_PRESSURE_WEIGHT = 0.3
#: Rows scored in one choice, the fullest of those that fit.
MOST_ROWS = 48


class Fragmentation:
    """Scores places for one capacity by the growth of unusable room.

    What it costs is bounded by its two limits, whatever waits. They are those of a live pass
    wherever none are given, so that replays and benches choose as the product does.
    """

    def __init__(
        self,
        table: NodeTable,
        demand: Demand,
        *,
        most_classes: int = MOST_CLASSES,
        most_rows: int = MOST_ROWS,
    ) -> None:
        #: rows that are scored in one choice, the fullest ones
        self.most_rows = most_rows
        self._typical = TypicalJobs(table, demand, most=most_classes)
        self.is_blind = not len(self._typical)
        self.pressure = _pressure(table, demand)
        self._now = np.full(table.count, -1.0)
        self._now_version: Ints = np.full(table.count, -1, dtype=np.int64)
        self._growth: dict[int, tuple[Floats, Ints]] = {}

    def growth(self, capacity: Capacity, shape: Shape, rows: Ints) -> Floats:
        """Return by how much unusable room would grow on each of these rows."""
        if shape.index not in self._growth:
            nothing = np.full(capacity.table.count, -1, dtype=np.int64)
            self._growth[shape.index] = (np.zeros(capacity.table.count), nothing)
        known, seen = self._growth[shape.index]
        stale = rows[seen[rows] != capacity.version[rows]]
        if len(stale):
            self._score(capacity, shape, stale)
            seen[stale] = capacity.version[stale]
        result: Floats = known[rows]
        return result

    def _score(self, capacity: Capacity, shape: Shape, rows: Ints) -> None:
        """Work out the growth of these rows, and what is unusable on those that have changed."""
        gpu, cpu, memory = capacity.gpu[rows], capacity.cpu[rows], capacity.memory[rows]
        old = (self._now_version[rows] != capacity.version[rows]).nonzero()[0]
        # Before and after in one go: on few rows the calls cost more than the numbers.
        unusable = self._unusable(
            np.concatenate((_after(gpu, shape), gpu[old])),
            np.concatenate((cpu - shape.cpu, cpu[old])),
            np.concatenate((memory - shape.memory, memory[old])),
            np.concatenate((rows, rows[old])),
        )
        self._now[rows[old]] = unusable[len(rows) :]
        self._now_version[rows[old]] = capacity.version[rows[old]]
        wear = _PRESSURE_WEIGHT * shape.gpus * shape.milli * self.pressure[rows]
        self._growth[shape.index][0][rows] = unusable[: len(rows)] - self._now[rows] + wear

    def total(self, capacity: Capacity) -> float:
        """Return the unusable room of all rows, in GPU thousandths."""
        rows = np.arange(capacity.table.count)
        return float(self._unusable(capacity.gpu, capacity.cpu, capacity.memory, rows).sum())

    def _unusable(
        self, gpu: NDArray[np.int32], cpu: Ints, memory: Ints, rows: Ints
    ) -> NDArray[np.float64]:
        """Free thousandths of each row that typical jobs cannot use, on average."""
        typical = self._typical
        by_need, enough = typical.room(gpu)
        by_gpu = by_need[:, typical.need_of]
        by_rest = np.minimum(cpu[:, None] / typical.cpu, memory[:, None] / typical.memory)
        fits = (enough[:, typical.need_of] >= typical.gpus) & (by_rest >= 1) & typical.able[rows]
        limited = np.minimum(by_gpu, by_rest * typical.size)
        usable = np.where(fits, _REACH * limited + (1 - _REACH) * by_gpu, 0.0)
        # Row by row: a product of matrices sums in an order that depends on how many there are.
        result: Floats = by_need[:, -1] - (usable * typical.weight).sum(axis=1)
        return result


def _pressure(table: NodeTable, demand: Demand) -> Floats:
    """For each row the demand that insists on its GPU type, against the type's part of all."""
    pressure: Floats = np.zeros(table.count)
    all_gpus = max(float(table.gpus.sum()), 1.0)
    asked = sum(weight * shape.total_milli for shape, weight in demand) or 1.0
    for shape, weight in demand:
        if shape.request.gpu_types and shape.gpus:
            rows: Mask = np.zeros(table.count, dtype=np.bool_)
            for kind in shape.request.gpu_types:
                if kind in table.of_type:
                    rows |= table.of_type[kind]
            there = float(table.gpus[rows].sum())
            if there:
                part = weight * shape.total_milli / asked
                pressure[rows] += part * all_gpus / there
    return pressure


def _after(gpu: NDArray[np.int32], shape: Shape) -> NDArray[np.int32]:
    """GPUs of each row after one part of the shape was placed there, as Capacity.pick would."""
    gpu = gpu.copy()
    if not shape.gpus:
        return gpu
    index = np.arange(len(gpu))
    if shape.is_fraction:
        room = np.where(gpu >= shape.milli, gpu, 2 * WHOLE)
        gpu[index, room.argmin(axis=1)] -= shape.milli
        return gpu
    order = np.argsort(-gpu, axis=1, kind="stable")[:, : shape.gpus]
    gpu[index[:, None], order] = 0
    return gpu
