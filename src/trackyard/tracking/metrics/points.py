"""How metric points lie on disk once settled: blocks and roll-ups. Pure bytes and arrays.

A block is up to BLOCK_POINTS points of one series, sorted by step, as three compressed columns.
Its summary holds power-of-two step buckets (least, most, last, sum, count), aligned to
absolute steps,
so that buckets of neighbouring blocks merge exactly and never jump as points arrive.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackyard.core.errors import InternalFault

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BLOCK_POINTS = 16_384
BLOCK_BUCKETS = 256
#: Blocks below this carry no summary; reading them whole is as quick.
SUMMARY_FROM = 1024
_ZLIB_LEVEL = 4
_HEADER = struct.Struct("<BI")
_RAMP = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one series as columns."""

    steps: Ints
    times: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, chosen: Any) -> Points:
        """Return the points at these places."""
        return Points(self.steps[chosen], self.times[chosen], self.values[chosen])


EMPTY = Points(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))


def from_lists(steps: list[int], times: list[int], values: list[float]) -> Points:
    """Make columns of lists."""
    return Points(
        np.array(steps, np.int64), np.array(times, np.int64), np.array(values, np.float64)
    )


def join(parts: list[Points]) -> Points:
    """Put several stretches behind one another."""
    if not parts:
        return EMPTY
    if len(parts) == 1:
        return parts[0]
    return Points(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def by_step(points: Points) -> Points:
    """Sort by step, time, value and drop points that were sent twice."""
    return _sorted_unique(points, "steps", "times")


def by_time(points: Points) -> Points:
    """Sort by time, step, value, as MLflow's history does, and drop points sent twice."""
    return _sorted_unique(points, "times", "steps")


def _sorted_unique(points: Points, first: str, second: str) -> Points:
    if len(points) < 2 or _is_rising(getattr(points, first)):
        return points
    if not _in_order(points, first, second):
        # What several connections wrote is a few long stretches, which this sort joins quickly.
        points = points.take(np.argsort(getattr(points, first), kind="stable"))
        if _is_rising(getattr(points, first)):
            return points
    if not _in_order(points, first, second):
        # NaN sorts last in numpy and MLflow counts it as 0; equal bits end up side by side.
        number = points.values
        keys = (number.view(np.int64), np.isnan(number), np.nan_to_num(number))
        points = points.take(np.lexsort((*keys, getattr(points, second), getattr(points, first))))
    same = (
        (points.steps[1:] == points.steps[:-1])
        & (points.times[1:] == points.times[:-1])
        & (points.values[1:].view(np.int64) == points.values[:-1].view(np.int64))
    )
    if not same.any():
        return points
    keep = np.concatenate(([True], ~same))
    return points.take(keep)


def _is_rising(column: Ints) -> bool:
    return bool(np.all(column[1:] > column[:-1]))


def _in_order(points: Points, first: str, second: str) -> bool:
    """Tell whether points are in the order of two columns and, among equals, of their values."""
    lead, next_key, values = getattr(points, first), getattr(points, second), points.values
    if np.any(lead[1:] < lead[:-1]):
        return False
    ties = lead[1:] == lead[:-1]
    if np.any(ties & (next_key[1:] < next_key[:-1])):
        return False
    ties &= next_key[1:] == next_key[:-1]
    bits = values.view(np.int64)
    return not np.any(ties & ~(values[1:] > values[:-1]) & (bits[1:] != bits[:-1]))


# -- blocks -----------------------------------------------------------------------------------


def encode_block(points: Points) -> bytes:
    """Compress the columns of a block."""
    columns = (
        _encode_ints(points.steps),
        _encode_ints(points.times),
        _encode_floats(points.values),
    )
    return _HEADER.pack(1, len(points)) + b"".join(
        struct.pack("<I", len(column)) + column for column in columns
    )


def decode_block(data: bytes) -> Points:
    """Restore the columns of a block; one whose bytes have changed is named, never guessed."""
    try:
        _, count = _HEADER.unpack_from(data)
        columns, offset = [], _HEADER.size
        for _ in range(3):
            (length,) = struct.unpack_from("<I", data, offset)
            offset += 4
            columns.append(data[offset : offset + length])
            offset += length
        return Points(
            _decode_ints(columns[0], count),
            _decode_ints(columns[1], count),
            _decode_floats(columns[2], count),
        )
    except (zlib.error, struct.error, ValueError) as fault:
        raise InternalFault(
            "points of this metric are damaged on the disk; an admin can restore the database from"
            " a backup, and `yard verify` names all that is damaged"
        ) from fault


def _encode_ints(column: Ints) -> bytes:
    if len(column) == 1:
        return b"r" + _RAMP.pack(int(column[0]), 0)
    # Differences wrap around on purpose: the sum on the way back wraps the same way.
    deltas = np.diff(column)
    if np.all(deltas == deltas[0]):
        return b"r" + _RAMP.pack(int(column[0]), int(deltas[0]))
    whole = np.empty_like(column)
    whole[0] = column[0]
    whole[1:] = deltas
    zigzag = (whole << 1) ^ (whole >> 63)
    return b"d" + _squeeze(zigzag.view(np.uint8), 8)


def _decode_ints(data: bytes, count: int) -> Ints:
    if data[:1] == b"r":
        start, delta = _RAMP.unpack_from(data, 1)
        ramp: Ints = start + delta * np.arange(count, dtype=np.int64)
        return ramp
    zigzag = _expand(data[1:], count, 8).view(np.uint64)
    deltas = (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)
    return np.cumsum(deltas, dtype=np.int64)


def _encode_floats(column: Floats) -> bytes:
    with np.errstate(over="ignore"):
        narrow = column.astype(np.float32)
    if np.array_equal(narrow.astype(np.float64), column, equal_nan=True):
        return b"f" + _squeeze(narrow.view(np.uint8), 4)
    return b"d" + _squeeze(column.view(np.uint8), 8)


def _decode_floats(data: bytes, count: int) -> Floats:
    if data[:1] == b"f":
        return _expand(data[1:], count, 4).view(np.float32).astype(np.float64)
    return _expand(data[1:], count, 8).view(np.float64)


def _squeeze(raw: NDArray[np.uint8], width: int) -> bytes:
    """Put bytes of equal weight side by side, then compress: exponents and high bytes repeat."""
    return zlib.compress(raw.reshape(-1, width).T.tobytes(), _ZLIB_LEVEL)


def _expand(data: bytes, count: int, width: int) -> NDArray[np.uint8]:
    flat = np.frombuffer(zlib.decompress(data), np.uint8).reshape(width, count)
    return np.ascontiguousarray(flat.T).reshape(-1)


# -- roll-ups ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buckets:
    """Roll-ups of a series: bucket i covers steps [index << shift, (index + 1) << shift)."""

    shift: int
    index: Ints
    least: Floats
    most: Floats
    last: Floats
    total: Floats
    count: Ints
    last_step: Ints
    last_time: Ints

    def __len__(self) -> int:
        return len(self.index)


def shift_for(first_step: int, last_step: int, buckets: int) -> int:
    """Return the smallest power of two whose buckets cover the steps with at most `buckets`."""
    shift = 0
    while (last_step >> shift) - (first_step >> shift) + 1 > buckets:
        shift += 1
    return shift


def roll_up(points: Points, shift: int) -> Buckets:
    """Make buckets of points that are sorted by step; NaN counts as a point without a value."""
    index = points.steps >> shift
    starts = np.flatnonzero(np.concatenate(([True], index[1:] != index[:-1])))
    ends = np.concatenate((starts[1:], [len(index)]))
    finite = ~np.isnan(points.values)
    clean = np.where(finite, points.values, 0.0)
    return Buckets(
        shift,
        index[starts],
        np.fmin.reduceat(points.values, starts),
        np.fmax.reduceat(points.values, starts),
        points.values[ends - 1],
        np.add.reduceat(clean, starts),
        np.add.reduceat(finite.astype(np.int64), starts),
        points.steps[ends - 1],
        points.times[ends - 1],
    )


def merge(parts: list[Buckets], shift: int) -> Buckets:
    """Merge buckets, each at most this wide, into buckets of width 2**shift."""
    index = np.concatenate([part.index >> (shift - part.shift) for part in parts])
    last_step = np.concatenate([part.last_step for part in parts])
    order = np.lexsort((last_step, index))
    index = index[order]
    starts = np.flatnonzero(np.concatenate(([True], index[1:] != index[:-1])))
    ends = np.concatenate((starts[1:], [len(index)]))

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])[order]

    return Buckets(
        shift,
        index[starts],
        np.fmin.reduceat(column("least"), starts),
        np.fmax.reduceat(column("most"), starts),
        column("last")[ends - 1],
        np.add.reduceat(column("total"), starts),
        np.add.reduceat(column("count"), starts),
        last_step[order][ends - 1],
        column("last_time")[ends - 1],
    )


def encode_summary(points: Points) -> bytes:
    """Encode the roll-up that a block carries, or nothing for a small block."""
    if len(points) < SUMMARY_FROM:
        return b""
    shift = shift_for(int(points.steps[0]), int(points.steps[-1]), BLOCK_BUCKETS)
    buckets = roll_up(points, shift)
    ints = np.concatenate((buckets.index, buckets.count, buckets.last_step, buckets.last_time))
    floats = np.concatenate((buckets.least, buckets.most, buckets.last, buckets.total))
    head = struct.pack("<BI", shift, len(buckets))
    encoded = _encode_ints(ints)
    return head + struct.pack("<I", len(encoded)) + encoded + _encode_floats(floats)


def decode_summary(data: bytes) -> Buckets:
    """Restore a block's roll-up."""
    shift, count = struct.unpack_from("<BI", data)
    (length,) = struct.unpack_from("<I", data, 5)
    ints = _decode_ints(data[9 : 9 + length], 4 * count)
    floats = _decode_floats(data[9 + length :], 4 * count)
    index, counts, last_step, last_time = ints.reshape(4, count)
    least, most, last, total = floats.reshape(4, count)
    return Buckets(shift, index, least, most, last, total, counts, last_step, last_time)
