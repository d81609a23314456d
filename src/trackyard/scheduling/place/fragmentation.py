"""How much of what is free could still be used by the jobs usually seen here.

Owns Fragmentation: for each node the free GPU thousandths that typical jobs could not use,
because of the GPUs' remaining shares, the type, or the CPUs and memory left beside them. The
best place for a job is where this grows least. It follows fragmentation gradient descent (Weng
et al., ATC 2023) with three changes: a node also counts as usable only as far as its CPUs and
memory reach, large jobs weigh less than by their number, and GPU types that some jobs insist on
are spared by the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.table import Floats, Ints, Mask, NodeTable, Shape

#: Typical shapes considered; more cost time and hardly change the choice.
MOST_SHAPES = 200
#: How far the reach of CPUs and memory counts, against the GPUs alone.
_REACH = 0.2
#: Typical jobs weigh by their number times their size to this power.
_SIZE_POWER = -0.2
#: How much a GPU type that some insist on is spared by the others; found on the openb trace.
_PRESSURE_WEIGHT = 0.3


class Fragmentation:
    """Scores places for one capacity by the growth of unusable room."""

    def __init__(
        self,
        table: NodeTable,
        demand: Sequence[tuple[Shape, float]],
        *,
        most: int = MOST_SHAPES,
        most_rows: int = 10**9,
    ) -> None:
        #: rows that are scored in one choice, the fullest ones
        self.most_rows = most_rows
        with_gpus = [
            (shape, weight * (shape.total_milli / WHOLE) ** _SIZE_POWER)
            for shape, weight in demand
            if shape.gpus and weight > 0
        ]
        with_gpus.sort(key=lambda pair: (-pair[1], pair[0].index))
        chosen = with_gpus[:most]
        self.is_blind = not chosen
        total = sum(weight for _, weight in chosen) or 1.0
        self._weight = np.array([weight / total for _, weight in chosen])
        self._gpus = np.array([float(shape.gpus) for shape, _ in chosen])
        milli = np.array([float(shape.milli) for shape, _ in chosen])
        self._size = self._gpus * milli
        self._cpu = np.array([float(max(shape.cpu, 1)) for shape, _ in chosen])
        self._memory = np.array([float(max(shape.memory, 1)) for shape, _ in chosen])
        self._needs, self._need_of = np.unique(milli, return_inverse=True)
        masks = [shape.any_mask() for shape, _ in chosen]
        self.pressure = _pressure(table, demand)
        self._able = np.stack(masks, axis=1) if masks else np.zeros((table.count, 0), np.bool_)
        self._now = np.full(table.count, -1.0)
        self._now_version: Ints = np.full(table.count, -1, dtype=np.int64)
        self._growth: dict[int, Floats] = {}
        self._growth_version: dict[int, Ints] = {}

    def growth(self, capacity: Capacity, shape: Shape, rows: Ints) -> Floats:
        """Return by how much unusable room would grow on each of these rows."""
        known = self._growth.get(shape.index)
        if known is None:
            known = self._growth[shape.index] = np.zeros(capacity.table.count)
            self._growth_version[shape.index] = np.full(capacity.table.count, -1, dtype=np.int64)
        seen = self._growth_version[shape.index]
        stale = rows[seen[rows] != capacity.version[rows]]
        if len(stale):
            self._refresh(capacity, stale)
            gpu = _after(capacity.gpu[stale], shape)
            cpu, memory = capacity.cpu[stale] - shape.cpu, capacity.memory[stale] - shape.memory
            growth = self._unusable(gpu, cpu, memory, stale) - self._now[stale]
            wear = _PRESSURE_WEIGHT * shape.gpus * shape.milli * self.pressure[stale]
            known[stale] = growth + wear
            seen[stale] = capacity.version[stale]
        result: Floats = known[rows]
        return result

    def total(self, capacity: Capacity) -> float:
        """Return the unusable room of all rows, in GPU thousandths."""
        rows = np.arange(capacity.table.count)
        self._refresh(capacity, rows)
        return float(self._now.sum())

    def _refresh(self, capacity: Capacity, rows: Ints) -> None:
        stale = rows[self._now_version[rows] != capacity.version[rows]]
        if len(stale):
            self._now[stale] = self._unusable(
                capacity.gpu[stale], capacity.cpu[stale], capacity.memory[stale], stale
            )
            self._now_version[stale] = capacity.version[stale]

    def _unusable(
        self, gpu: NDArray[np.int32], cpu: Ints, memory: Ints, rows: Ints
    ) -> NDArray[np.float64]:
        """Free thousandths of each row that typical jobs cannot use, on average."""
        free = gpu.sum(axis=1, dtype=np.float64)
        large = np.stack([(gpu * (gpu >= need)).sum(axis=1) for need in self._needs], axis=1)
        enough = np.stack([(gpu >= need).sum(axis=1) for need in self._needs], axis=1)
        by_gpu = large[:, self._need_of].astype(np.float64)
        by_rest = np.minimum(cpu[:, None] / self._cpu, memory[:, None] / self._memory)
        fits = (enough[:, self._need_of] >= self._gpus) & (by_rest >= 1) & self._able[rows]
        limited = np.minimum(by_gpu, by_rest * self._size)
        usable = np.where(fits, _REACH * limited + (1 - _REACH) * by_gpu, 0.0)
        result: Floats = free - usable @ self._weight
        return result


def _pressure(table: NodeTable, demand: Sequence[tuple[Shape, float]]) -> Floats:
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
