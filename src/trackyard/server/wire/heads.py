"""Heads of requests and answers: header lines as text, status lines as bytes. Knows no socket."""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus

Lines = list[tuple[str, str]]

_STATUS = {code.value: f"HTTP/1.1 {code.value} {code.phrase}\r\n".encode() for code in HTTPStatus}
#: Lists of header lines that are used again and again, by identity, with their bytes.
_encoded: dict[int, tuple[Lines, bytes]] = {}
_ENCODED_LIMIT = 16
_date: tuple[int, bytes] = (0, b"")


class Headers:
    """A request's header lines; the first of a name counts where one is asked for."""

    __slots__ = ("_first", "_lines", "size")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._lines = [
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw
        ]
        self._first = dict(reversed(self._lines))
        #: bytes of all names and values
        self.size = sum([len(name) + len(value) for name, value in raw])

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return a header by its lower-case name."""
        return self._first.get(name, default)

    def items(self) -> Lines:
        """Return every line, repeated ones too."""
        return self._lines


def head_of(status: int, headers: Lines, extra: bytes) -> bytes:
    """Return the bytes of an answer's head."""
    line = _STATUS.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"%b%b%b%b\r\n" % (line, _block(headers), extra, _dated())


def keep_encoded(headers: Lines) -> None:
    """Keep the bytes of a list of lines that many answers share and nobody changes."""
    if len(_encoded) < _ENCODED_LIMIT:
        _encoded[id(headers)] = (headers, _encode(headers))


def _block(headers: Lines) -> bytes:
    known = _encoded.get(id(headers))
    if known is not None and known[0] is headers:
        return known[1]
    return _encode(headers)


def _encode(headers: Lines) -> bytes:
    block = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if block.count("\n") != len(headers) or block.count("\r") != len(headers):
        raise ValueError("a header of an answer holds a line break")
    return block.encode("latin-1", "replace")


def _dated() -> bytes:
    global _date  # noqa: PLW0603 - one clock for every answer
    now = int(time.time())
    if _date[0] != now:
        _date = (now, f"date: {formatdate(now, usegmt=True)}\r\n".encode())
    return _date[1]
