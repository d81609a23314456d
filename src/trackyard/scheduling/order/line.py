"""A sorted line of waiting jobs that are alike to the scheduler.

Owns Line: add, remove, and the first whose run time stays within a bound. Blocks keep each of
these short at any length. Knows nothing of what the keys mean.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from math import inf

from trackyard.scheduling.order.pending import PendingJob

#: (primary key, submitted at, sequence number, run-time bound, the job)
Entry = tuple[float, float, int, float, PendingJob]

_BLOCK = 64


class JobLine:
    """Entries in order, in blocks that know their smallest run-time bound."""

    __slots__ = ("_blocks", "_least", "_size")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        ordered = sorted(entries)
        self._size = len(ordered)
        self._blocks = [ordered[at : at + _BLOCK] for at in range(0, len(ordered), _BLOCK)]
        self._least = [min(entry[3] for entry in block) for block in self._blocks]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        for block in self._blocks:
            yield from block

    def ids(self) -> list[str]:
        """Ids of all its jobs, in order."""
        return [entry[4].waiting.job.id for entry in self]

    def bounds(self) -> list[float]:
        """Run-time bounds of all its jobs, in order."""
        return [entry[3] for entry in self]

    def measures(self) -> list[tuple[float, float, int]]:
        """What each of its jobs compares by: the order's measure, then submission."""
        return [entry[:3] for entry in self]

    def add(self, entry: Entry) -> None:
        """Put an entry in its place."""
        self._size += 1
        if not self._blocks:
            self._blocks.append([entry])
            self._least.append(entry[3])
            return
        at = self._block_of(entry)
        block = self._blocks[at]
        insort(block, entry)
        self._least[at] = min(self._least[at], entry[3])
        if len(block) > 2 * _BLOCK:
            self._split(at)

    def remove(self, entry: Entry) -> None:
        """Take an entry out; it must be there."""
        at = self._block_of(entry)
        block = self._blocks[at]
        place = bisect_left(block, entry)
        if place == len(block) or block[place][2] != entry[2]:
            raise KeyError(entry[2])
        del block[place]
        self._size -= 1
        if not block:
            del self._blocks[at], self._least[at]
        elif entry[3] <= self._least[at]:
            self._least[at] = min(other[3] for other in block)

    def first(self, bound: float = inf) -> Entry | None:
        """Return the first entry whose run-time bound is at most this."""
        if not self._blocks:
            return None
        if bound == inf:
            return self._blocks[0][0]
        for at, least in enumerate(self._least):
            if least <= bound:
                for entry in self._blocks[at]:
                    if entry[3] <= bound:
                        return entry
        return None

    def after(self, entry: Entry) -> Entry | None:
        """Return the entry that follows this one."""
        at = self._block_of(entry)
        block = self._blocks[at]
        place = bisect_left(block, entry) + 1
        if place < len(block):
            return block[place]
        return self._blocks[at + 1][0] if at + 1 < len(self._blocks) else None

    def _block_of(self, entry: Entry) -> int:
        low, high = 0, len(self._blocks) - 1
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle][-1] < entry:
                low = middle + 1
            else:
                high = middle
        return low

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        half = len(block) // 2
        self._blocks[at : at + 1] = [block[:half], block[half:]]
        self._least[at : at + 1] = [
            min(entry[3] for entry in part) for part in (block[:half], block[half:])
        ]
