"""A terminal on the node: the pseudo-terminal a shell runs in, and what it printed lately.

Owns the descriptors, the size, the recent output and the words printed into it by the platform.
Viewers come and go; the shell does not notice. Knows neither the server nor frames.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import threading
import time
from typing import Callable, List, Optional, Tuple

#: Output that a viewer who comes later is shown, and that a slow one may lag behind.
RECENT_BYTES = 256 * 1024
REPLAY_BYTES = 64 * 1024
FIRST_SIZE = (80, 24)
MOST_CELLS = 4096
#: Seconds before the time limit at which the terminal says so.
WARNINGS = (300.0, 60.0)


class Terminal:
    """One pseudo-terminal."""

    def __init__(self, on_output: Callable[[], None]) -> None:
        self._reading, self._slave = os.openpty()
        #: for typing, apart from what is read: that is closed with the last program in it
        self._master = os.dup(self._reading)
        os.set_blocking(self._master, False)
        self._lock = threading.Lock()
        self._recent = bytearray()
        #: position in the stream of the first byte held
        self._start = 0
        self._on_output = on_output
        self._ends_at: Optional[float] = None
        self._due: List[float] = []
        self.resize(*FIRST_SIZE)

    def take(self) -> Tuple[int, int]:
        """Hand over the end to read and the end for the shell, which others close."""
        ends = self._reading, self._slave
        self._reading = self._slave = -1
        return ends

    def close(self) -> None:
        """Let go of it; nobody types any more."""
        for end in (self._reading, self._slave, self._master):
            if end >= 0:
                os.close(end)
        self._reading = self._slave = self._master = -1

    # Output

    def feed(self, data: bytes) -> None:
        """Take what the shell printed."""
        with self._lock:
            self._recent += data
            over = len(self._recent) - RECENT_BYTES
            if over > 0:
                del self._recent[:over]
                self._start += over
        self._on_output()

    def say(self, sentence: str) -> None:
        """Print words of the platform, on a line of their own."""
        self.feed(f"\r\n\x1b[7m[yard] {sentence}\x1b[0m\r\n".encode())

    def replay_from(self) -> int:
        """Return where a new viewer begins: at the start of a line, if there is one."""
        with self._lock:
            if len(self._recent) <= REPLAY_BYTES:
                return self._start
            cut = len(self._recent) - REPLAY_BYTES
            line = self._recent.find(b"\n", cut)
            return self._start + (cut if line < 0 else line + 1)

    def read(self, position: int, limit: int) -> Tuple[bytes, int]:
        """Return output from a position on, and where to go on; what is gone is skipped."""
        with self._lock:
            at = max(0, position - self._start)
            data = bytes(self._recent[at : at + limit])
            return data, self._start + at + len(data)

    # Size and input

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell's programs of the viewer's size; they get SIGWINCH."""
        columns, rows = (max(1, min(MOST_CELLS, value)) for value in (columns, rows))
        size = struct.pack("HHHH", rows, columns, 0, 0)
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def write(self, data: bytes) -> int:
        """Type; returns how much was taken. Of a shell that is gone, all of it."""
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    # The time limit

    def ends_in(self, seconds: float) -> None:
        """Plan the warnings before the time limit."""
        self._ends_at = time.monotonic() + seconds
        before = [at for at in WARNINGS if at < seconds] or [seconds / 4]
        self._due = sorted((self._ends_at - at for at in before), reverse=True)

    def warn_if_due(self) -> None:
        """Print a warning whose time has come."""
        now = time.monotonic()
        if self._ends_at is None or not self._due or now < self._due[-1]:
            return
        while self._due and now >= self._due[-1]:
            self._due.pop()
        left = max(0.0, self._ends_at - now)
        self.say(f"this session ends in {_words(left)}, at its time limit: save your work")


def _words(seconds: float) -> str:
    if seconds >= 90:
        return f"{round(seconds / 60)} minutes"
    return f"{max(1, round(seconds))} seconds"


def take_as_controlling() -> None:
    """Make standard input the controlling terminal of this session. Safe after fork."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
