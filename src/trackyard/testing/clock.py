"""FakeClock: time that moves only when a test moves it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A core.clock.Clock that stands still until `advance` or `jump` is called."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        if start.tzinfo is None:
            raise ValueError("the clock needs a zone-aware start")
        self._now = start.astimezone(UTC)
        self._monotonic = 1000.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the clock's moment."""
        with self._lock:
            return self._now

    def time_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        with self._lock:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("time does not pass backwards; use jump for a changed wall clock")
        with self._lock:
            self._now += timedelta(seconds=seconds)
            self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Change the wall clock alone, as an operator or NTP would."""
        with self._lock:
            self._now += timedelta(seconds=seconds)
