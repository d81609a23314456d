"""What is free now, node by node and GPU by GPU.

Owns Capacity: numbers that go down as jobs take and up as they give back. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.table import Ints, Mask, NodeTable, Shape

#: One part of a placement: row, GPU indices.
Part = tuple[int, tuple[int, ...]]


#: What a copy must not share.
_COLUMNS = ("gpu", "free", "whole", "largest", "cpu", "memory", "tenants", "open", "version")
_FIRST: Ints = np.zeros(1, dtype=np.int64)
_NONE: Ints = np.zeros(0, dtype=np.int64)


class Capacity:
    """Free GPUs, CPUs and memory of every node."""

    __slots__ = (
        "cpu",
        "free",
        "gpu",
        "largest",
        "memory",
        "open",
        "table",
        "tenants",
        "version",
        "whole",
        "whole_total",
    )

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.gpu: NDArray[np.int32] = np.where(table.present, np.int32(WHOLE), np.int32(0))
        #: free thousandths of all of a row's GPUs together
        self.free: Ints = table.gpus * WHOLE
        self.whole: Ints = table.gpus.copy()
        self.whole_total = int(self.whole.sum())
        self.largest: Ints = np.where(table.gpus > 0, WHOLE, 0).astype(np.int64)
        self.cpu: Ints = table.cpu.copy()
        self.memory: Ints = table.memory.copy()
        self.tenants: Ints = np.zeros(table.count, dtype=np.int64)
        #: takes work and is not held by an exclusive job
        self.open: Mask = table.up.copy()
        #: counts changes per row, for caches
        self.version: Ints = np.zeros(table.count, dtype=np.int64)

    def copy(self) -> Capacity:
        """Return an independent copy."""
        twin = Capacity.__new__(Capacity)
        twin.table = self.table
        twin.whole_total = self.whole_total
        for name in (
            "gpu",
            "free",
            "whole",
            "largest",
            "cpu",
            "memory",
            "tenants",
            "open",
            "version",
        ):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def fits(self, shape: Shape, mask: Mask) -> Mask:
        """Rows of the mask that can take one part of this shape now."""
        able = self.open & mask
        if shape.is_fraction:
            able &= self.largest >= shape.milli
        elif shape.gpus:
            able &= self.whole >= shape.gpus
        if shape.cpu:
            able &= self.cpu >= shape.cpu
        if shape.memory:
            able &= self.memory >= shape.memory
        if shape.exclusive:
            able &= self.tenants == 0
        return able

    def rows_that_fit(self, shape: Shape, mask: Mask) -> Ints:
        """The same as row numbers; a pool of one node is looked at without any array."""
        if self.table.count == 1:
            return _FIRST if mask[0] and self.fits_row(shape, 0) else _NONE
        return self.fits(shape, mask).nonzero()[0]

    def fits_row(self, shape: Shape, row: int) -> bool:
        """Say whether one row can take one part of this shape now, static masks aside."""
        if shape.is_fraction:
            enough = bool(self.largest[row] >= shape.milli)
        else:
            enough = bool(self.whole[row] >= shape.gpus)
        return (
            enough
            and bool(self.open[row])
            and bool(self.cpu[row] >= shape.cpu)
            and bool(self.memory[row] >= shape.memory)
            and (not shape.exclusive or self.tenants[row] == 0)
        )

    def pick(self, shape: Shape, row: int) -> tuple[int, ...]:
        """Choose the GPUs of a row that fits: the fullest that has room for a fraction."""
        if not shape.gpus:
            return ()
        free = self.gpu[row]
        if shape.is_fraction:
            room = np.where(free >= shape.milli, free, 2 * WHOLE)
            return (int(room.argmin()),)
        if shape.gpus == 1:
            # The first that is whole: none has more.
            return (int(free.argmax()),)
        return tuple((free == WHOLE).nonzero()[0][: shape.gpus].tolist())

    def pick_among(self, shape: Shape, row: int, preferred: Set[int]) -> tuple[int, ...]:
        """Choose the GPUs of a row that fits, these before all others."""
        need = shape.milli if shape.is_fraction else WHOLE
        fitting = (self.gpu[row] >= need).nonzero()[0].tolist()
        fitting.sort(key=lambda gpu: gpu not in preferred)
        return tuple(sorted(fitting[: shape.gpus]))

    def take(self, shape: Shape, parts: Sequence[Part]) -> None:
        """Give these parts to a job."""
        for row, gpus in parts:
            if gpus:
                self._change(row, gpus, -shape.milli)
            if shape.cpu or shape.memory:
                self.cpu[row] -= shape.cpu
                self.memory[row] -= shape.memory
            self.tenants[row] += 1
            self.version[row] += 1
            if shape.exclusive:
                self.open[row] = False

    def give(self, shape: Shape, parts: Sequence[Part]) -> None:
        """Take these parts back from a job."""
        for row, gpus in parts:
            if gpus:
                self._change(row, gpus, shape.milli)
            if shape.cpu or shape.memory:
                self.cpu[row] += shape.cpu
                self.memory[row] += shape.memory
            self.tenants[row] -= 1
            self.version[row] += 1
            if shape.exclusive:
                self.open[row] = self.table.up[row]

    def hold(self, shape: Shape, parts: Sequence[Part]) -> None:
        """Set aside what is already free of parts that a job will get later."""
        for row, gpus in parts:
            if gpus:
                index = list(gpus)
                self.gpu[row, index] = np.maximum(self.gpu[row, index] - shape.milli, 0)
                self.recount(row)
            self.cpu[row] = max(int(self.cpu[row]) - shape.cpu, 0)
            self.memory[row] = max(int(self.memory[row]) - shape.memory, 0)
            self.tenants[row] += 1
            self.version[row] += 1
            if shape.exclusive:
                self.open[row] = False

    def recount(self, row: int) -> None:
        """Bring a row's sums in line with its GPUs."""
        free = self.gpu[row]
        whole = int(np.count_nonzero(free == WHOLE))
        self.whole_total += whole - int(self.whole[row])
        self.whole[row] = whole
        self.free[row] = free.sum()
        self.largest[row] = free.max()

    def recount_all(self) -> None:
        """Bring all rows' sums in line with their GPUs."""
        self.whole = (self.gpu == WHOLE).sum(axis=1)
        self.whole_total = int(self.whole.sum())
        self.free = self.gpu.sum(axis=1, dtype=np.int64)
        self.largest = self.gpu.max(axis=1).astype(np.int64)

    def _change(self, row: int, gpus: tuple[int, ...], milli: int) -> None:
        free = self.gpu[row]
        if milli in (WHOLE, -WHOLE):
            # One number is set ten times faster than a list of them.
            free[gpus[0] if len(gpus) == 1 else list(gpus)] = WHOLE if milli > 0 else 0
            count = len(gpus) if milli > 0 else -len(gpus)
            whole = int(self.whole[row]) + count
            self.whole[row] = whole
            self.whole_total += count
            self.free[row] += WHOLE * count
            if milli > 0:
                self.largest[row] = WHOLE
            elif whole == 0:
                self.largest[row] = np.maximum.reduce(free)
            return
        for gpu in gpus:
            free[gpu] += milli
        self.recount(row)
