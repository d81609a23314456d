"""Marks of ranks in front of lines: mpirun's own are turned into ours, `[rank N] `.

Owns the form of the mark. torchrun and accelerate are told to write it themselves.
"""

from __future__ import annotations

import re

#: as `mpirun --tag-output` marks a line: job, rank and stream
_TAG = re.compile(rb"\A\[\d+,(\d+)\]<(?:stdout|stderr|stddiag)>: ?")
#: no mark is longer
_MOST = 64


class RankLines:
    """Rewrites the marks of one stream, whatever pieces it comes in."""

    def __init__(self) -> None:
        self._held = b""
        #: part of the last line has been passed on already
        self._is_within = False

    def feed(self, data: bytes) -> bytes:
        """Return what can be said of the stream by now."""
        found = []
        *whole, last = (self._held + data).split(b"\n")
        for line in whole:
            found.append(self._marked(line) + b"\n")
            self._is_within = False
        # The start of a line that may yet become a mark waits for the rest of it.
        self._held = b""
        if not self._is_within and last.startswith(b"[") and len(last) < _MOST:
            self._held = last
        elif last:
            found.append(self._marked(last))
            self._is_within = True
        return b"".join(found)

    def rest(self) -> bytes:
        """Return what was held back, at the stream's end."""
        held, self._held = self._held, b""
        return self._marked(held)

    def _marked(self, line: bytes) -> bytes:
        return line if self._is_within else _TAG.sub(rb"[rank \1] ", line)
