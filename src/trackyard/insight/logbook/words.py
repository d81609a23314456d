"""Numbers, times and causes in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from trackyard.core.reasons import duration_words

#: cause of an attempt's end -> how a sentence says it
_CAUSES = {
    "succeeded": "succeeded",
    "signal": "was ended by a signal",
    "out_of_memory": "ran out of memory",
    "time_limit": "reached its time limit",
    "preempted": "was preempted",
    "stopped": "was stopped",
    "command": "could not start its command",
    "setup": "could not set up its environment",
    "gang": "ended because another member of the gang failed",
    "fenced": "was replaced by a newer attempt",
    "engine": "was ended by the engine",
    "node_unfit": "found its node unfit",
}


def grouped(number: float) -> str:
    """Format a whole number with separators: 48,000."""
    return f"{round(number):,}"


def count(number: int, word: str) -> str:
    """Format a count: 1 step, 212 steps."""
    return f"{grouped(number)} {word}" + ("" if number == 1 else "s")


def figure(value: float) -> str:
    """Format a metric's value with four significant digits."""
    if math.isnan(value):
        return "NaN"
    return f"{value:.4g}"


def lasted(milliseconds: float) -> str:
    """Format a duration: 40 s, 9 min, 2 h 10 min."""
    return duration_words(max(0, round(milliseconds / 1000)))


def clock(time_ms: int) -> str:
    """Format a time of day, in UTC."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%H:%M}"


def day(time_ms: int) -> str:
    """Format a date, in UTC."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%A, %-d %B %Y}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """List names, counting those beyond a few: a, b and 6 more."""
    if not names:
        return ""
    if len(names) <= most:
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def person(actor: str) -> str:
    """Name an actor."""
    if actor == "system":
        return "Trackyard"
    return "The job" if actor.startswith("attempt:") else actor


def cause_words(cause: str, exit_code: int | None, signal: int | None) -> str:
    """Describe how an attempt ended, to follow its number."""
    if cause == "exit_code":
        return "failed" if exit_code is None else f"failed with exit code {exit_code}"
    if cause == "signal" and signal is not None:
        return f"was ended by signal {signal}"
    return _CAUSES.get(cause, "ended")


def clause(sentence: str) -> str:
    """Turn a sentence into the end of another one."""
    return sentence.strip().rstrip(".")
