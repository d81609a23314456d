"""The watchdog of the event loop: how long it stood still, and what it was at.

Owns measuring: a timer on the loop tells how late it was called, a thread looks meanwhile at what
the loop is doing. Knows no route; the tasks of requests bear the names of theirs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

log = logging.getLogger(__name__)

#: Seconds between two calls of the timer, and of lateness that counts as a stall.
EVERY_SECONDS, STALL_SECONDS = 0.025, 0.05
#: Seconds for which a stall is remembered as recent.
RECENT_SECONDS = 300.0
#: Seconds of lateness without work that are worth a line of the log.
WAIT_SECONDS = 0.25
#: Seconds between two lines of the log.
TELL_SECONDS = 1.0
#: Upper edges of the histogram, in seconds.
EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: Stalls remembered, and names of tasks that are counted apart.
KEPT, MAX_NAMES = 100, 200


class Stall(NamedTuple):
    """One time that the loop stood still."""

    at: float
    seconds: float
    #: processor time that the loop itself took of it; the rest it waited, or did not get to run
    busy_seconds: float
    #: the request or task under way
    during: str
    #: where in the code, if someone looked in time
    place: str


class Watchdog:
    """Measures a loop's stalls."""

    def __init__(self, writing_for: Callable[[], str] = lambda: "") -> None:
        #: who asked for the write that the writer's task runs
        self._writing_for = writing_for
        self.counts = [0] * (len(EDGES) + 1)
        self.total_seconds = 0.0
        self.stalls: deque[Stall] = deque(maxlen=KEPT)
        self.stalls_by_name: Counter[str] = Counter()
        self._due = 0.0
        self._told = -TELL_SECONDS
        self._cpu = 0.0
        self._seen: tuple[float, str, str] = (0.0, "", "")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread_id = 0
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to watch the running loop, whose thread this is."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._over.clear()
        self._set_timer()
        threading.Thread(target=self._look, name="yard-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    def worst(self) -> Stall | None:
        """Return the longest stall of the last minutes."""
        since = time.monotonic() - RECENT_SECONDS
        return max(
            (stall for stall in self.stalls if stall.at >= since),
            key=lambda stall: stall.seconds,
            default=None,
        )

    def _set_timer(self) -> None:
        assert self._loop is not None
        self._cpu = time.thread_time()
        self._due = time.monotonic() + EVERY_SECONDS
        self._timer = self._loop.call_later(EVERY_SECONDS, self._called)

    def _called(self) -> None:
        late = max(0.0, time.monotonic() - self._due)
        self.counts[bisect_left(EDGES, late)] += 1
        self.total_seconds += late
        if late >= STALL_SECONDS:
            self._note(late, time.thread_time() - self._cpu)
        self._set_timer()

    def _note(self, late: float, busy: float) -> None:
        due, during, place = self._seen
        if due != self._due:
            during, place = "unknown", ""
        stall = Stall(time.monotonic(), late, busy, during, place)
        self.stalls.append(stall)
        if during in self.stalls_by_name or len(self.stalls_by_name) < MAX_NAMES:
            self.stalls_by_name[during] += 1
        # A short wait without work is most often a machine with more to do than processors.
        is_minor = busy < STALL_SECONDS and late < WAIT_SECONDS
        if is_minor or stall.at - self._told < TELL_SECONDS:
            return
        self._told = stall.at
        log.warning(
            "the event loop stood still for %.0f ms (%.0f ms of work) during %s %s",
            late * 1000,
            busy * 1000,
            during,
            place,
        )

    def _look(self) -> None:
        """Look at what the loop is doing when its timer is late; runs in a thread."""
        while not self._over.wait(EVERY_SECONDS):
            due = self._due
            if time.monotonic() - due >= STALL_SECONDS / 2 and self._seen[0] != due:
                self._seen = (due, self._task_name(), self._place())

    def _task_name(self) -> str:
        task = asyncio.current_task(self._loop)
        if task is None:
            return "a callback"
        name = task.get_name()
        asker = self._writing_for() if name == "yard-writer" else ""
        return f"{name} for {asker}" if asker else name

    def _place(self) -> str:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - documented, CPython's
        while frame is not None and not _is_ours(frame):
            frame = frame.f_back
        if frame is None:
            return ""
        return f"in {frame.f_globals.get('__name__')}.{frame.f_code.co_name}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name.startswith("trackyard.") and name != __name__
