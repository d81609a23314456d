"""One node as it would be if some of its jobs were gone.

Owns RowSketch: start from what is free, add back jobs, ask whether a shape fits. Changes
nothing real.
"""

from __future__ import annotations

from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.table import Shape


class RowSketch:
    """What one row would have free."""

    __slots__ = ("_capacity", "_free", "_row", "cpu", "is_open", "memory", "tenants", "whole")

    def __init__(self, capacity: Capacity, row: int) -> None:
        self._capacity = capacity
        self._row = row
        self._free: dict[int, int] = {}
        self.whole = int(capacity.whole[row])
        self.cpu = int(capacity.cpu[row])
        self.memory = int(capacity.memory[row])
        self.tenants = int(capacity.tenants[row])
        self.is_open = bool(capacity.open[row])

    def give(self, shape: Shape, gpus: tuple[int, ...], sign: int = 1) -> None:
        """Add back one job's part of this row (or with -1, take it)."""
        for gpu in gpus:
            before = self.free(gpu)
            after = before + sign * shape.milli
            self._free[gpu] = after
            self.whole += (after == WHOLE) - (before == WHOLE)
        self.cpu += sign * shape.cpu
        self.memory += sign * shape.memory
        self.tenants -= sign
        if shape.exclusive:
            self.is_open = sign > 0

    def free(self, gpu: int) -> int:
        """Thousandths of a GPU that would be free."""
        return self._free.get(gpu, int(self._capacity.gpu[self._row, gpu]))

    def fits(self, shape: Shape) -> bool:
        """Say whether one part of the shape would fit."""
        if self.cpu < shape.cpu or self.memory < shape.memory or not self.is_open:
            return False
        if shape.exclusive and self.tenants > 0:
            return False
        if not shape.is_fraction:
            return self.whole >= shape.gpus
        if self._capacity.largest[self._row] >= shape.milli and not self._free:
            return True
        count = int(self._capacity.table.gpus[self._row])
        return any(self.free(gpu) >= shape.milli for gpu in range(count))

    def pick(self, shape: Shape, preferred: list[int]) -> tuple[int, ...]:
        """Choose GPUs for the shape, in this order of preference."""
        need = shape.milli if shape.is_fraction else WHOLE
        chosen = [gpu for gpu in preferred if self.free(gpu) >= need]
        return tuple(sorted(chosen[: shape.gpus]))
