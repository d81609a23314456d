"""How metric points lie in the log: one row a request, msgpack of
[[name_id, steps, times, values], ...]. Pure bytes and arrays.

Most rows of a run look alike: the same series, as many points, numbers as wide. Such rows are
read together, by where their numbers lie, instead of number by number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from trackyard.tracking.metrics.points import Points, from_lists, join

Key = TypeVar("Key")

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw, msgspec.Raw, msgspec.Raw]]).decode
_int = msgspec.msgpack.Decoder(int).decode
_ints = msgspec.msgpack.Decoder(list[int]).decode
_floats = msgspec.msgpack.Decoder(list[float]).decode
#: Bytes of a column from which on it is worth reading at once.
_LONG = 1000
#: Rows of one length from which on it is worth looking whether they are alike.
_MANY = 8
#: msgpack's marks of numbers of one width each, with what follows the mark.
_WIDTHS = {
    0xCB: np.dtype([("mark", "u1"), ("value", ">f8")]),
    0xCC: np.dtype([("mark", "u1"), ("value", "u1")]),
    0xCD: np.dtype([("mark", "u1"), ("value", ">u2")]),
    0xCE: np.dtype([("mark", "u1"), ("value", ">u4")]),
    0xCF: np.dtype([("mark", "u1"), ("value", ">u8")]),
}
#: Up to here a byte is a number of its own.
_SMALL = 0x7F


def pack_log(
    series: list[tuple[int, Sequence[int], Sequence[int], Sequence[float]]],
) -> bytes:
    """Encode the points of one request."""
    return _pack(series)


def gather(
    rows: Iterable[tuple[Key, bytes]], wanted: Collection[int] | None = None
) -> dict[tuple[int, Key], Points]:
    """Return the points of each series and key, in the order of the rows."""
    found: dict[tuple[int, Key], _Gathered] = {}
    for (key, _), group in groupby(rows, lambda row: (row[0], len(row[1]))):
        stack = list(map(itemgetter(1), group))
        alike = _read_alike(stack) if len(stack) >= _MANY else None
        if alike is not None:
            for name_id, points in alike:
                if wanted is None or name_id in wanted:
                    found.setdefault((name_id, key), _Gathered()).add_points(points)
            continue
        for data in stack:
            for name_id, steps, times, values in _unpack(data):
                if wanted is None or name_id in wanted:
                    found.setdefault((name_id, key), _Gathered()).add(steps, times, values)
    return {series: gathered.points() for series, gathered in found.items()}


class _Gathered:
    """Points of one series as they are found, in order."""

    __slots__ = ("_parts", "_steps", "_times", "_values")

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._times: list[int] = []
        self._values: list[float] = []
        self._parts: list[Points] = []

    def add(self, steps: msgspec.Raw, times: msgspec.Raw, values: msgspec.Raw) -> None:
        """Take the columns of one log row."""
        if memoryview(values).nbytes < _LONG:
            self._steps.extend(_ints(steps))
            self._times.extend(_ints(times))
            self._values.extend(_floats(values))
            return
        self.add_points(
            Points(
                _column(steps, np.int64, _ints),
                _column(times, np.int64, _ints),
                _column(values, np.float64, _floats),
            )
        )

    def add_points(self, points: Points) -> None:
        """Take points that were read already."""
        self._flush()
        self._parts.append(points)

    def points(self) -> Points:
        """Return all of them."""
        self._flush()
        return join(self._parts)

    def _flush(self) -> None:
        if self._steps:
            self._parts.append(from_lists(self._steps, self._times, self._values))
            self._steps, self._times, self._values = [], [], []


def _column(raw: msgspec.Raw, kind: Any, one_by_one: Callable[[msgspec.Raw], Any]) -> Any:
    """Read a column: at once where all its numbers have one width, else one by one."""
    view = memoryview(raw)
    # A list of up to 65,535 items begins with 0xDC and its length.
    if view[0] == 0xDC:
        count, body = int.from_bytes(view[1:3], "big"), view[3:]
        width = _WIDTHS.get(body[0])
        if width is not None and body.nbytes == count * width.itemsize:
            found = np.frombuffer(body, width)
            if (found["mark"] == body[0]).all():
                return found["value"].astype(kind)
    return np.array(one_by_one(raw), kind)


# -- rows that look alike ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column's place in a row: where, how many, and the mark before each (or none)."""

    at: int
    count: int
    mark: int | None

    @property
    def format(self) -> tuple[Any, int]:
        return ("u1" if self.mark is None else _WIDTHS[self.mark], self.count)

    @property
    def end(self) -> int:
        width = 1 if self.mark is None else _WIDTHS[self.mark].itemsize
        return self.at + self.count * width


def _read_alike(stack: list[bytes]) -> list[tuple[int, Points]] | None:
    """Read rows of one length together; None where they are not of one shape."""
    shape = _shape(stack[0])
    if shape is None:
        return None
    names, columns, fixed = shape
    whole = b"".join(stack)
    length = len(stack[0])
    plain = np.frombuffer(whole, np.uint8).reshape(len(stack), length)
    if (plain[:, fixed] != plain[0, fixed]).any():
        return None
    layout = np.dtype(
        {
            "names": [str(place) for place in range(len(columns))],
            "formats": [column.format for column in columns],
            "offsets": [column.at for column in columns],
            "itemsize": length,
        }
    )
    rows = np.frombuffer(whole, layout)
    read: list[Any] = []
    for place, column in enumerate(columns):
        numbers = rows[str(place)]
        if column.mark is None:
            if (numbers > _SMALL).any():
                return None
        else:
            if (numbers["mark"] != column.mark).any():
                return None
            numbers = numbers["value"]
        read.append(numbers.astype(np.float64 if place % 3 == 2 else np.int64).reshape(-1))
    return [
        (name_id, Points(*read[3 * place : 3 * place + 3])) for place, name_id in enumerate(names)
    ]


def _shape(data: bytes) -> tuple[list[int], list[_Numbers], list[int]] | None:
    """Find a row's names, its columns and the places of all bytes that say how it is built.

    A row with the same bytes in these places, and the same marks before its numbers, is built
    the same way. None for a row whose columns hold numbers of several widths.
    """
    names: list[int] = []
    columns: list[_Numbers] = []
    series, at = _list_head(data, 0)
    fixed = list(range(at))
    for _ in range(series):
        begin = at
        four, at = _list_head(data, at)
        width = _WIDTHS[data[at]].itemsize if data[at] > _SMALL else 1
        names.append(_int(data[at : at + width]))
        at += width
        if four != 4:
            return None
        fixed += range(begin, at)
        for _ in range(3):
            count, begin = _list_head(data, at)
            fixed += range(at, begin)
            mark = data[begin] if count and data[begin] > _SMALL else None
            if not count or (mark is not None and mark not in _WIDTHS):
                return None
            column = _Numbers(begin, count, mark)
            at = column.end
            if at > len(data):
                return None
            if (mark == 0xCB) != (len(columns) % 3 == 2) or not _is_even(data, column):
                return None
            columns.append(column)
    return (names, columns, fixed) if at == len(data) else None


def _is_even(data: bytes, column: _Numbers) -> bool:
    """Say whether all numbers of a column are as wide as its first."""
    body = data[column.at : column.end]
    if column.mark is None:
        return max(body) <= _SMALL
    return body[:: _WIDTHS[column.mark].itemsize] == bytes((column.mark,)) * column.count


def _list_head(data: bytes, at: int) -> tuple[int, int]:
    """Return how many items a list has that begins here, and where the first of them lies."""
    mark = data[at]
    if mark == 0xDC:
        return int.from_bytes(data[at + 1 : at + 3], "big"), at + 3
    if mark == 0xDD:
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    return mark & 0x0F, at + 1
