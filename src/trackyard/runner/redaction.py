"""Keeps the values of secrets out of a command's log, on their way into it.

Owns finding them in a stream that comes in pieces. A value that the command prints changed, cut
into lines of its own or encoded, is not found: this guards against accidents, not against intent.
"""

from __future__ import annotations

from typing import Iterable, List

HIDDEN = "\u2022\u2022\u2022".encode()
#: Shorter values are part of too many words.
LEAST_BYTES = 6


class Redactor:
    """Replaces secrets in a stream of bytes."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {value.strip().encode() for value in values}
        # The longest first: one secret may be part of another.
        self._values: List[bytes] = sorted(
            (value for value in found if len(value) >= LEAST_BYTES), key=len, reverse=True
        )
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be written; what may be the beginning of a secret is held back."""
        if not self._values:
            return data
        data = self._held + data
        for value in self._values:
            data = data.replace(value, HIDDEN)
        keep = max(_beginning(data, value) for value in self._values)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return held


def _beginning(data: bytes, value: bytes) -> int:
    """Return how many of the last bytes may be the beginning of a value."""
    for length in range(min(len(value) - 1, len(data)), 0, -1):
        if data.endswith(value[:length]):
            return length
    return 0
