"""How much each parameter matters: the share of the results' variance that it explains alone.

Owns one method, named in METHOD. Results are ranked first, so that one diverged trial does not
decide; each parameter's values are put into bins (choices as they are, numbers by quantiles), and
the variance of the bins' means is held against that of all (the correlation ratio, corrected for
the number of bins). The first-order term of a functional analysis of variance. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from trackyard.sweeps.space import Value

METHOD = (
    "first-order analysis of variance on ranks: the share of the variance of the trials' order"
    " that a parameter explains alone, over up to 6 quantile bins; trials that were stopped early"
    " rank behind those that went further"
)
MIN_TRIALS = 6
MAX_BINS = 6


def importance(
    points: Sequence[Mapping[str, Value]], losses: Sequence[float], names: Sequence[str]
) -> dict[str, float]:
    """Return the share of each parameter, between 0 and 1, the greatest first."""
    kept = [at for at, loss in enumerate(losses) if math.isfinite(loss)]
    if len(kept) < MIN_TRIALS:
        return {}
    ranks = _ranks(np.array([losses[at] for at in kept], dtype=float))
    found = {name: _share([points[at].get(name) for at in kept], ranks) for name in names}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _share(values: Sequence[Value | None], ranks: np.ndarray) -> float:
    bins = _bins(values)
    groups = [ranks[bins == one] for one in np.unique(bins)]
    total = float(((ranks - ranks.mean()) ** 2).sum())
    count, parts = len(ranks), len(groups)
    if parts < 2 or count <= parts or total == 0:
        return 0.0
    within = float(sum(((group - group.mean()) ** 2).sum() for group in groups))
    # Epsilon squared: unlike eta squared it does not grow with the number of bins.
    return max(0.0, 1 - (within / (count - parts)) / (total / (count - 1)))


def _bins(values: Sequence[Value | None]) -> np.ndarray:
    """Return the bin of each value; a parameter that a trial did not have is one of its own."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    is_numeric = len(numbers) == sum(v is not None for v in values)
    if not is_numeric or len(set(numbers)) <= MAX_BINS:
        known = {value: at for at, value in enumerate(dict.fromkeys(map(repr, values)))}
        return np.array([known[repr(value)] for value in values])
    count = min(MAX_BINS, max(2, len(numbers) // 5))
    edges = np.quantile(np.array(numbers, dtype=float), np.linspace(0, 1, count + 1)[1:-1])
    return np.array(
        [-1 if value is None else int(np.searchsorted(edges, float(value))) for value in values]
    )


def _ranks(losses: np.ndarray) -> np.ndarray:
    order = losses.argsort(kind="stable")
    ranks = np.empty(len(losses))
    ranks[order] = np.arange(len(losses))
    # Equal results share their rank.
    for value in np.unique(losses):
        same = losses == value
        ranks[same] = ranks[same].mean()
    return ranks
