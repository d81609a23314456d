"""The two wire formats that event files are made of: protocol buffers, and TensorFlow's and
LevelDB's records. Pure bytes; knows no message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_BLOCK, _HEAD = 32_768, 7
_FULL, _FIRST, _LAST = 1, 2, 4

Field = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, Field]]:
    """Yield number and value of each field of a message: an integer, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if at + size > len(data):
            raise ValueError("a field that ends after its message")
        yield tag >> 3, data[at : at + size]
        at += size


def message(data: bytes) -> dict[int, list[Field]]:
    """Return a message's fields by their numbers."""
    found: dict[int, list[Field]] = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def part(found: dict[int, list[Field]], number: int) -> bytes:
    """Return the bytes of a field that a message holds once, or none."""
    value = found.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def text(found: dict[int, list[Field]], number: int) -> str:
    """Return the text of a field."""
    return part(found, number).decode(errors="replace")


def integer(found: dict[int, list[Field]], number: int) -> int:
    """Return the signed integer of a field, 0 if it is absent."""
    value = found.get(number, [0])[-1]
    whole = value if isinstance(value, int) else 0
    return whole - 2**64 if whole >= 2**63 else whole


def double(found: dict[int, list[Field]], number: int) -> float:
    """Return the double of a field, 0 if it is absent."""
    raw = part(found, number)
    return float(struct.unpack("<d", raw)[0]) if len(raw) == 8 else 0.0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number that does not end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def tensorflow_records(data: bytes) -> Iterator[bytes]:
    """Yield the records of an event file; one that was cut short ends it."""
    at = 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        if at + 16 + size > len(data):
            return
        yield data[at + 12 : at + 12 + size]
        at += 16 + size


def leveldb_records(data: bytes, start: int = 0) -> Iterator[bytes]:
    """Yield the records of a log in blocks of 32 KiB; one that was cut short ends it."""
    at, whole = start, b""
    while at + _HEAD <= len(data):
        if _BLOCK - at % _BLOCK < _HEAD:
            at += _BLOCK - at % _BLOCK
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        if kind == 0 or at + _HEAD + size > len(data):
            return
        piece = data[at + _HEAD : at + _HEAD + size]
        at += _HEAD + size
        whole = piece if kind in (_FULL, _FIRST) else whole + piece
        if kind in (_FULL, _LAST):
            yield whole
