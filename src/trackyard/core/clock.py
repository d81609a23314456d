"""Time as a port. Owns the Clock protocol and the system clock; everything else asks a Clock,
never `time`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the platform asks of time."""

    def now(self) -> datetime:
        """Return the present moment, zone-aware, in UTC."""
        ...

    def time_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump, for measuring waits."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)

    def time_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()
