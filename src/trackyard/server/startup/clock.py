"""Which clock the server goes by: the machine's own, or for trials one that a file sets.

Owns YARD_CLOCK, which only a throw-away server (`--ephemeral`) honours: with it a day of leases
can be tried in seconds. Everything else asks the clock it is given.
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

from trackyard.core.clock import SYSTEM_CLOCK, Clock
from trackyard.core.errors import SetupError

VARIABLE = "YARD_CLOCK"


class FileClock:
    """A clock that shows the time in a file when that was written, and runs on from there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self._ahead_ms = 0
        self._look()

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.fromtimestamp(self.time_ms() / 1000, UTC)

    def time_ms(self) -> int:
        """Return milliseconds since the epoch."""
        # While the file is being replaced, the time it showed last goes on.
        with contextlib.suppress(OSError, ValueError):
            self._look()
        return SYSTEM_CLOCK.time_ms() + self._ahead_ms

    def monotonic(self) -> float:
        """Return monotonic seconds, which a file cannot set."""
        return SYSTEM_CLOCK.monotonic()

    def _look(self) -> None:
        written = self._path.stat().st_mtime_ns
        if written != self._seen:
            shown = datetime.fromisoformat(self._path.read_text().strip())
            if shown.tzinfo is None:
                raise ValueError("no offset")
            self._ahead_ms = int(shown.timestamp() * 1000) - written // 1_000_000
            self._seen = written


def choose_clock(*, ephemeral: bool) -> Clock:
    """Return the clock to go by; refuse a set clock where there is anything to lose."""
    path = os.environ.get(VARIABLE)
    if not path:
        return SYSTEM_CLOCK
    if not ephemeral:
        raise SetupError(
            f"{VARIABLE} sets the clock of a throw-away server only",
            hint=f"start it with --ephemeral, or unset {VARIABLE}",
        )
    try:
        return FileClock(Path(path))
    except (OSError, ValueError) as fault:
        raise SetupError(
            f"{VARIABLE} names {path}, which does not hold a time: {fault}",
            hint="write one such as 2026-03-01T13:55:00+00:00 into it",
        ) from fault
