"""Named places where a test lets the process die or the disk fail, so that recovery is proven.

All are off unless YARD_CRASH_POINT names one: `after-commit`, `after-commit=run.created` (only
when that detail is at hand), `migration-statement:5` (the fifth time). Knows no recovery.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

VARIABLE = "YARD_CRASH_POINT"
POINTS = {
    "before-commit": "die with a transaction open, its events as detail",
    "after-commit": "die after a commit and before its reply, its events as detail",
    "sync-fault": "let the disk fail to keep a commit",
    "migration-statement": "die before a statement of a migration",
}


def _parse(text: str) -> tuple[str, str, int]:
    """Return point, detail and count of `point[=detail][:count]`."""
    rest, _, count = text.partition(":")
    point, _, detail = rest.partition("=")
    return point, detail, int(count) if count.isdigit() else 1


_point, _detail, _left = _parse(os.environ.get(VARIABLE, ""))
#: Whether any place is on; asked before anything else, so that it costs nothing when not.
ARMED = _point in POINTS


def due(point: str, details: Iterable[str] = ()) -> bool:
    """Count a visit to a place; tell whether its time has come."""
    global _left  # noqa: PLW0603 - one countdown per process is the point
    if not ARMED or point != _point or (_detail and _detail not in details):
        return False
    _left -= 1
    return _left == 0


def reached(point: str, details: Iterable[str] = ()) -> None:
    """Die here, as by a power cut, if this is the place and time."""
    if due(point, details):
        os.kill(os.getpid(), signal.SIGKILL)
