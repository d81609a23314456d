"""Pictures of a replay: use of the GPUs, jobs waiting and how long they wait, over time.

Owns `draw` and `waits`. matplotlib is an extra and imported only here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trackyard.core.errors import InvalidInput
from trackyard.simulate.replay import Replayed

_DAY = 86400.0
_HOUR = 3600.0
#: Stretches of time over which waits are averaged.
_STRETCHES = 120


def draw(outcomes: list[Replayed], path: Path) -> None:
    """Draw the curves of every policy into one picture; the suffix says the format."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        message = "Pictures need matplotlib: pip install 'trackyard[plot]'"
        raise InvalidInput(message) from error
    figure, panels = pyplot.subplots(3, 1, sharex=True, figsize=(10, 8), dpi=120)
    top, middle, bottom = panels
    for outcome in outcomes:
        days = [moment / _DAY for moment, _, _ in outcome.curve]
        use = [100 * busy / outcome.total_gpus for _, busy, _ in outcome.curve]
        waiting = [count for _, _, count in outcome.curve]
        # Both change at events and stand still between them.
        top.step(days, use, where="post", label=outcome.policy, linewidth=0.9)
        middle.step(days, waiting, where="post", linewidth=0.9)
        means = waits(outcome)
        bottom.plot([day for day, _ in means], [hours for _, hours in means], linewidth=0.9)
    top.set_ylabel("GPUs in use, %")
    top.set_ylim(0, 105)
    middle.set_ylabel("jobs waiting")
    bottom.set_ylabel("mean wait of jobs\nsubmitted then, hours")
    bottom.set_xlabel("days since the first submission")
    for axes in (middle, bottom):
        axes.set_ylim(bottom=0)
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.margins(x=0.01)
    figure.legend(loc="upper center", ncols=min(len(outcomes), 6), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.96 if len(outcomes) <= 6 else 0.92))
    figure.savefig(path)
    pyplot.close(figure)


def waits(outcome: Replayed) -> list[tuple[float, float]]:
    """Mean wait in hours of the jobs submitted in each stretch of time, by its middle in days."""
    jobs = [lived for lived in outcome.jobs if lived.ended_at >= 0]
    if not jobs:
        return []
    submitted = np.array([lived.source.submitted_at for lived in jobs])
    ended = np.array([lived.ended_at for lived in jobs])
    ran = np.array([lived.source.duration for lived in jobs])
    width = max(float(submitted.max()) / _STRETCHES, 1.0)
    stretch = np.minimum(submitted // width, _STRETCHES - 1).astype(np.int64)
    counts = np.bincount(stretch, minlength=_STRETCHES)
    sums = np.bincount(stretch, np.maximum(ended - submitted - ran, 0.0), _STRETCHES)
    return [
        ((number + 0.5) * width / _DAY, float(sums[number] / counts[number]) / _HOUR)
        for number in np.flatnonzero(counts).tolist()
    ]
