"""The choice among nodes that fit: whole gangs or nothing.

Owns `place`: pack, spread, balanced and least fragmentation, GPU types by preference, and the
label that all nodes of a gang must share. Knows nothing of time, quota or who asks.
"""

from __future__ import annotations

import numpy as np

from trackyard.core.resources import Style
from trackyard.scheduling.place.capacity import Capacity, Part
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import Floats, Ints, Mask, Shape

#: A node counts as half full from here on; what is used counts CPUs in the third decimal.
_HALF = 0.498
#: What a row gains that holds the job's data: less than any difference in use.
_NEAR = 1e-9


def place(
    capacity: Capacity,
    shape: Shape,
    *,
    style: Style,
    fragmentation: Fragmentation | None = None,
    allowed: Mask | None = None,
    scores_of: Capacity | None = None,
) -> list[Part] | None:
    """Find room for the whole gang, or return None.

    `allowed` narrows the rows further; `scores_of` names the capacity whose state is scored
    when `capacity` is a narrower view of it.
    """
    if not shape.is_fraction and capacity.whole_total < shape.gpus * shape.node_count:
        return None
    for mask in shape.masks:
        able = mask if allowed is None else mask & allowed
        rows = capacity.rows_that_fit(shape, able)
        if len(rows) >= shape.node_count:
            scored = scores_of or capacity
            if shape.same:
                chosen = _choose_together(scored, shape, rows, style, fragmentation)
            else:
                chosen = _choose(scored, shape, rows, style, fragmentation)
            if chosen:
                return [(row, capacity.pick(shape, row)) for row in chosen]
    return None


def _choose(
    capacity: Capacity,
    shape: Shape,
    rows: Ints,
    style: Style,
    fragmentation: Fragmentation | None,
) -> list[int]:
    """Pick as many rows as the gang has nodes, best first."""
    if len(rows) == 1:
        return [int(rows[0])]
    scores = _scores(capacity, shape, rows, shape.style or style, fragmentation)
    if shape.node_count == 1:
        return [int(rows[scores.argmin()])]
    return [int(row) for row in rows[np.argsort(scores, kind="stable")[: shape.node_count]]]


def _choose_together(
    capacity: Capacity,
    shape: Shape,
    rows: Ints,
    style: Style,
    fragmentation: Fragmentation | None,
) -> list[int]:
    """Pick rows that share a label's value, from the smallest group that has enough."""
    able: Mask = np.zeros(capacity.table.count, dtype=np.bool_)
    able[rows] = True
    groups = [group[able[group]] for group in capacity.table.groups(shape.same)]
    enough = [group for group in groups if len(group) >= shape.node_count]
    if not enough:
        return []
    group = min(enough, key=lambda rows: (len(rows), int(rows[0])))
    scores = _scores(capacity, shape, group, shape.style or style, fragmentation)
    return [int(row) for row in group[np.argsort(scores, kind="stable")[: shape.node_count]]]


def _scores(
    capacity: Capacity,
    shape: Shape,
    rows: Ints,
    style: Style,
    fragmentation: Fragmentation | None,
) -> Floats:
    """Return a score per row, the smallest is best.

    Ties go to rows that hold the job's data, then to the earlier row.
    """
    scores = _scores_of_use(capacity, shape, rows, style, fragmentation)
    return scores if shape.near is None else scores - _NEAR * shape.near[rows]


def _scores_of_use(
    capacity: Capacity,
    shape: Shape,
    rows: Ints,
    style: Style,
    fragmentation: Fragmentation | None,
) -> Floats:
    used = _used(capacity, rows)
    if style is Style.SPREAD:
        return used
    if style is Style.BALANCED:
        # Half-full nodes come last, the fuller the later; below half the fuller goes first.
        return np.where(used < _HALF, _HALF - used, 1.0 + used)
    if style is Style.LEAST_FRAGMENTATION and fragmentation and not fragmentation.is_blind:
        return _growth(capacity, shape, rows, used, fragmentation)
    return -used


def _growth(
    capacity: Capacity, shape: Shape, rows: Ints, used: Floats, fragmentation: Fragmentation
) -> Floats:
    """Growth of unusable room, worked out for the fullest rows when there are very many."""
    most = max(fragmentation.most_rows, 2 * shape.node_count)
    if len(rows) <= most:
        return fragmentation.growth(capacity, shape, rows) - used
    fullest = np.argpartition(-used, most)[:most]
    scores: Floats = np.full(len(rows), np.inf)
    scores[fullest] = fragmentation.growth(capacity, shape, rows[fullest]) - used[fullest]
    return scores


def _used(capacity: Capacity, rows: Ints) -> Floats:
    """The part of each row in use: of its GPUs, and for a tie-break of its CPUs."""
    table = capacity.table
    free = capacity.free[rows] / table.whole_milli[rows]
    free_cpu = capacity.cpu[rows] / table.whole_cpu[rows]
    result: Floats = 1.0 - free - free_cpu / 1000.0
    return result
