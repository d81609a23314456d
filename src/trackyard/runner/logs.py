"""The attempt's log as one byte stream: on disk where there is room, else in memory.

Owns offsets. A byte's offset in the file is its offset in the stream, for ever: chunks are
shipped from here, again after an outage, and the receiver can tell gap and repeat by offset
alone. A full disk never blocks the command: bytes wait in memory until they are shipped, and
what does not fit is counted and stated in the stream itself. Knows nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Callable, Deque, Iterable, List, Optional

from trackyard.runner.gang.rank_lines import RankLines
from trackyard.runner.records import write_all
from trackyard.runner.redaction import Redactor

MEMORY_BYTES = 4 * 1024 * 1024
TAIL_BYTES = 64 * 1024
READ_BYTES = 256 * 1024

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


class LogSpool:
    """Append-only stream with random access to everything not yet acknowledged."""

    def __init__(self, path: Path, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._end = os.fstat(self._descriptor).st_size
        #: bytes of the stream from `_disk_end` on, which the disk had no room for
        self._pending: Deque[bytes] = deque()
        self._pending_bytes = 0
        self._disk_end = self._end
        self._memory_bytes = memory_bytes
        self._acknowledged = 0
        self._unstated = 0
        self.lost_bytes = 0
        self.disk_full = False
        self._tail = b""

    @property
    def end(self) -> int:
        """Return the stream's length."""
        with self._lock:
            return self._end

    @property
    def tail(self) -> bytes:
        """Return the last bytes of the stream, to look for causes in."""
        with self._lock:
            return self._tail

    def append(self, data: bytes) -> None:
        """Take bytes from the command; never raises for want of room."""
        if not data:
            return
        with self._lock:
            self._tail = (self._tail + data)[-TAIL_BYTES:]
            self._flush_pending()
            self._state_loss()
            self._take(data)

    def read(self, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes from `offset`."""
        with self._lock:
            if offset < self._disk_end:
                return os.pread(self._descriptor, min(limit, self._disk_end - offset), offset)
            skip = offset - self._disk_end
            parts = []
            for part in self._pending:
                if skip >= len(part):
                    skip -= len(part)
                    continue
                piece = part[skip : skip + limit]
                skip = 0
                parts.append(piece)
                limit -= len(piece)
                if limit <= 0:
                    break
            return b"".join(parts)

    def acknowledge(self, offset: int) -> None:
        """Note that the receiver holds everything before `offset`."""
        with self._lock:
            self._acknowledged = max(self._acknowledged, min(offset, self._end))
            # What the server holds needs no room here: leave a hole in the file for it.
            while self._pending and self._disk_end + len(self._pending[0]) <= self._acknowledged:
                part = self._pending.popleft()
                self._pending_bytes -= len(part)
                self._disk_end += len(part)

    @property
    def acknowledged(self) -> int:
        """Return up to where the receiver holds the stream."""
        with self._lock:
            return self._acknowledged

    def finish(self) -> None:
        """State what was lost and make durable what the receiver lacks, as the disk allows."""
        with self._lock:
            self._flush_pending()
            self._state_loss(last=True)
            self._flush_pending()
            if self._acknowledged >= self._end:
                return
            try:
                os.fsync(self._descriptor)
            except OSError:
                self.disk_full = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _take(self, data: bytes) -> None:
        if self._pending:
            self._keep(data)
            return
        written = self._write(data)
        self._disk_end += written
        self._end += written
        if written < len(data):
            self._keep(data[written:])

    def _keep(self, data: bytes) -> None:
        room = max(0, self._memory_bytes - self._pending_bytes)
        if self._unstated:
            room = 0
        kept = data[:room]
        if kept:
            self._pending.append(kept)
            self._pending_bytes += len(kept)
            self._end += len(kept)
        self.lost_bytes += len(data) - len(kept)
        self._unstated += len(data) - len(kept)

    def _state_loss(self, *, last: bool = False) -> None:
        if not self._unstated or (self._pending_bytes > self._memory_bytes // 2 and not last):
            return
        line = (
            f"\n[yard] {self._unstated} bytes of log were lost here: the disk under the log was "
            "full and the server did not take them in time\n"
        ).encode()
        self._unstated = 0
        self._pending.append(line)
        self._pending_bytes += len(line)
        self._end += len(line)
        self._flush_pending()

    def _flush_pending(self) -> None:
        while self._pending:
            part = self._pending[0]
            written = self._write(part)
            self._disk_end += written
            self._pending_bytes -= written
            if written < len(part):
                self._pending[0] = part[written:]
                return
            self._pending.popleft()

    def _write(self, data: bytes) -> int:
        written = 0
        view = memoryview(data)
        while written < len(data):
            try:
                written += os.pwrite(self._descriptor, view[written:], self._disk_end + written)
            except OSError as fault:
                if fault.errno not in _NO_ROOM:
                    raise
                self.disk_full = True
                return written
        return written


class Output:
    """The pipes that commands write to, read into the log."""

    def __init__(
        self,
        spool: LogSpool,
        *,
        echo: bool,
        secrets: Iterable[str] = (),
        marks: Optional[RankLines] = None,
    ) -> None:
        self._spool = spool
        self._echo = echo
        self._redactor = Redactor(secrets)
        self._marks = marks
        self._pipes: List[int] = []
        self._captured: Optional[List[bytes]] = None
        self._last = time.monotonic()
        #: told what is read, as it came
        self.tee: Optional[Callable[[bytes], None]] = None

    @property
    def quiet_seconds(self) -> float:
        """Return how long ago something was said."""
        return time.monotonic() - self._last

    def attach(self, pipe: int, *, beside: bool = False) -> None:
        """Read from `pipe` from now on, and from no other unless it is `beside` them."""
        if not beside:
            self.close()
        os.set_blocking(pipe, False)
        self._pipes.append(pipe)

    def pipes(self) -> List[int]:
        """Return what to wait on."""
        return list(self._pipes)

    def read(self) -> bool:
        """Take what is there; tell whether there may be more."""
        found = [self._read_one(pipe) for pipe in self.pipes()]
        return any(found)

    def _read_one(self, pipe: int) -> bool:
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # a terminal that nobody has open any more
        if not data:
            os.close(pipe)
            self._pipes.remove(pipe)
            if not self._pipes:
                self.close()
            return False
        self._last = time.monotonic()
        if self.tee is not None:
            self.tee(data)
        if self._marks is not None:
            data = self._marks.feed(data)
        self._write(self._redactor.feed(data))
        return True

    def _write(self, data: bytes) -> None:
        self._spool.append(data)
        if self._captured is not None:
            self._captured.append(data)
        if self._echo:
            with contextlib.suppress(OSError):
                write_all(1, data)

    def drain(self) -> None:
        """Take all that is there."""
        while self.read():
            pass

    def close(self) -> None:
        """Let go of the pipes."""
        if self._marks is not None:
            self._write(self._redactor.feed(self._marks.rest()))
        self._write(self._redactor.rest())
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []

    def capture(self) -> None:
        """Also keep what is read, until `captured` is called."""
        self._captured = []

    def captured(self) -> bytes:
        """Return what was kept and stop keeping."""
        kept, self._captured = self._captured or [], None
        return b"".join(kept)
