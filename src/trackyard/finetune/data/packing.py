"""Packing: rows of many lengths into sequences of one length, so that little is padding.

Owns best-fit decreasing over windows of rows. Pure: it sees lengths, never tokens.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

#: rows that are packed together; order is random from window to window
WINDOW = 4096


def pack(lengths: Sequence[int], capacity: int, *, most: int) -> list[list[int]]:
    """Return bins of row numbers, none longer than `capacity` nor with more than `most` rows.

    Each row goes into the fullest bin it fits in, longest rows first.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    bins: list[list[int]] = []
    # Open bins by room left, so that the tightest that fits is found by bisection.
    room: list[tuple[int, int]] = []
    for row in order:
        length = min(lengths[row], capacity)
        at = bisect.bisect_left(room, (length, -1))
        if at == len(room):
            bins.append([row])
            left, number = capacity - length, len(bins) - 1
        else:
            left, number = room.pop(at)
            bins[number].append(row)
            left -= length
        if left > 0 and len(bins[number]) < most:
            bisect.insort(room, (left, number))
    return bins


def most_segments(seq: int) -> int:
    """Return how many rows one sequence may hold; kernels are made for a fixed number."""
    return max(16, seq // 32)
