"""Pictures of a replay: use of the GPUs and jobs waiting, over time and per policy.

Owns `draw`. matplotlib is an extra and imported only here.
"""

from __future__ import annotations

from pathlib import Path

from trackyard.core.errors import InvalidInput
from trackyard.simulate.replay import Replayed

_DAY = 86400.0


def draw(outcomes: list[Replayed], path: Path) -> None:
    """Draw both curves of every policy into one picture; the suffix says the format."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        message = "Pictures need matplotlib: pip install 'trackyard[plot]'"
        raise InvalidInput(message) from error
    figure, (top, bottom) = pyplot.subplots(2, 1, sharex=True, figsize=(10, 6), dpi=120)
    for outcome in outcomes:
        days = [moment / _DAY for moment, _, _ in outcome.curve]
        use = [100 * busy / outcome.total_gpus for _, busy, _ in outcome.curve]
        waiting = [count for _, _, count in outcome.curve]
        # Both change at events and stand still between them.
        top.step(days, use, where="post", label=outcome.policy, linewidth=0.9)
        bottom.step(days, waiting, where="post", linewidth=0.9)
    top.set_ylabel("GPUs in use, %")
    top.set_ylim(0, 105)
    bottom.set_ylabel("jobs waiting")
    bottom.set_ylim(bottom=0)
    bottom.set_xlabel("days since the first submission")
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
        axes.margins(x=0.01)
    figure.legend(loc="upper center", ncols=min(len(outcomes), 6), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.96 if len(outcomes) <= 6 else 0.92))
    figure.savefig(path)
    pyplot.close(figure)
