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
    figure, (top, bottom) = pyplot.subplots(2, 1, sharex=True, figsize=(10, 6))
    for outcome in outcomes:
        days = [moment / _DAY for moment, _, _ in outcome.curve]
        use = [100 * busy / outcome.total_gpus for _, busy, _ in outcome.curve]
        top.plot(days, use, label=outcome.policy, linewidth=0.8)
        bottom.plot(days, [count for _, _, count in outcome.curve], linewidth=0.8)
    top.set_ylabel("GPUs in use, %")
    bottom.set_ylabel("jobs waiting")
    bottom.set_xlabel("days")
    top.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
