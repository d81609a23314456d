"""Lets the machine's clock jump for one server: as far as the file of YARD_TEST_JUMP says.

Found by Python itself when this folder is on its path. Only wall time jumps, as with a real clock.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from trackyard.core import clock

_FILE = Path(os.environ["YARD_TEST_JUMP"])
_time_ms = clock.SystemClock.time_ms


def _jumped_ms(self: clock.SystemClock) -> int:
    return _time_ms(self) + int(_FILE.read_text()) * 1000


def _jumped_now(self: clock.SystemClock) -> datetime:
    return datetime.fromtimestamp(_jumped_ms(self) / 1000, UTC)


clock.SystemClock.time_ms = _jumped_ms  # type: ignore[method-assign]
clock.SystemClock.now = _jumped_now  # type: ignore[method-assign]
