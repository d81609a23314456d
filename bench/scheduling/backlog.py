"""How long jobs of the Philly trace must wait at the least, whatever the policy.

python bench/scheduling/backlog.py TRACES [--gpus 512] [--preemptible 0.5]

Served without a pause and without any loss, the work left over at a moment is the least that any
policy can have left then. A bound on waiting limits what may be left: a job that waits no longer
than W has done all its work but for the last W seconds before that moment. The smallest W that
leaves room for the backlog at every moment is a lower bound of the longest wait. It takes no
account of sizes that do not fit together, nor of lengths that nobody knows beforehand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trackyard.simulate.readers import read_trace
from trackyard.simulate.replay import is_among

DAY = 86_400.0
#: Moments looked at, evenly spread over the submissions; fewer only make the bound weaker.
MOMENTS = 256
#: Halvings of the interval that the bound is searched in.
STEPS = 16
Floats = NDArray[np.float64]


def backlogs(submitted: Floats, work: Floats, gpus: int) -> Floats:
    """Return the least work left over just after each submission, in GPU-seconds."""
    left, before, found = 0.0, 0.0, []
    for at, amount in zip(submitted.tolist(), work.tolist(), strict=True):
        left = max(left - gpus * (at - before), 0.0) + amount
        before = at
        found.append(left)
    return np.array(found)


def least_wait(may_be_left: Callable[[float, float], float], at: Floats, left: Floats) -> float:
    """Return the smallest wait in seconds under which no moment has too much left."""
    low, high = 0.0, 60 * DAY
    for _ in range(STEPS):
        wait = (low + high) / 2
        is_enough = all(
            may_be_left(moment, wait) >= amount for moment, amount in zip(at, left, strict=True)
        )
        low, high = (low, wait) if is_enough else (wait, high)
    return low


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--preemptible", type=float, default=0.5)
    args = parser.parse_args()
    jobs = read_trace(args.traces / "philly-pollux" / "philly_pai_format.csv.gz").jobs
    submitted = np.array([job.submitted_at for job in jobs])
    length = np.array([job.duration for job in jobs])
    gpus = np.array([job.gpu_share for job in jobs])
    may_stop = np.array([is_among(job.id, args.preemptible, "preemptible") for job in jobs])

    def may_be_left(moment: float, wait: float | Floats) -> float:
        """The most work that may be left at a moment where each waits no longer than this."""
        done = np.clip(moment - submitted - wait, 0.0, length)
        return float((gpus * (length - done))[submitted <= moment].sum())

    left = backlogs(submitted, gpus * length, args.gpus)
    some = np.linspace(0, len(jobs) - 1, MOMENTS).astype(int)
    all_wait = least_wait(may_be_left, submitted[some], left[some])
    one_kind = least_wait(
        lambda moment, wait: may_be_left(moment, np.where(may_stop, wait, 0.0)),
        submitted[some],
        left[some],
    )
    peak = int(left.argmax())
    print(f"Largest backlog: {left[peak] / args.gpus / DAY:.1f} days of the whole pool, on day")
    print(f"{submitted[peak] / DAY:.0f}. Longest wait, at the least:")
    print(f"{all_wait / DAY:.1f} days; {one_kind / DAY:.1f} where only preemptible jobs wait.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
