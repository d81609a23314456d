"""When a call that failed is tried again. Pure."""

from __future__ import annotations

import random

from trackyard.outbound.client import Answer

#: Seconds before the second, third, … try; after the last one it is given up.
WAITS = (2.0, 10.0, 60.0, 300.0, 1800.0, 7200.0)
MAX_WAIT = 7200.0


def next_try(tries: int, answer: Answer, *, jitter: float | None = None) -> float | None:
    """Return the seconds until the next try, after so many that failed, or None to give up.

    A fifth of each wait is left to chance, so that what failed together does not return together.
    """
    if answer.is_good or not answer.may_pass or tries > len(WAITS):
        return None
    wait = max(WAITS[tries - 1], min(answer.retry_after or 0.0, MAX_WAIT))
    share = random.random() if jitter is None else jitter  # noqa: S311 - spreads load
    return wait * (1 + 0.2 * share)
