"""Population-based training: who is replaced by whom, and with which values. Pure.

A trial that is at the bottom of the population when it reaches a milestone makes room for a copy
of one at the top: the copy begins with that one's checkpoint and with its values, moved a little.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from trackyard.sweeps.space import Parameter, Point, Space
from trackyard.sweeps.stopping import ObservedTrial, StopRule

#: Factors by which a number is perturbed.
FACTORS = (0.8, 1.2)


def replacement(
    rule: StopRule, trial: ObservedTrial, trials: Sequence[ObservedTrial], seed: str
) -> int | None:
    """Return the trial whose checkpoint should replace this one; None if it continues.

    Trials are compared by what they had at their last milestone, as far as they got.
    """
    if not trial.rungs:
        return None
    members = [other for other in trials if other.rungs and (other.is_live or other.is_complete)]
    if len(members) < 2:
        return None
    line = sorted(members, key=lambda other: (_last(other), other.number))
    count = max(1, math.floor(len(line) * rule.quantile))
    if trial.number not in {other.number for other in line[-count:]}:
        return None
    top = [other.number for other in line[:count] if other.number != trial.number]
    better = [number for number in top if _by_number(line, number) < _last(trial)]
    source = random.Random(seed)  # noqa: S311 - a search, not a secret
    return source.choice(better) if better else None


def explore(rule: StopRule, space: Space, point: Point, seed: str) -> Point:
    """Return a perturbed copy of a point."""
    source = random.Random(seed)  # noqa: S311 - a search, not a secret
    found: Point = {}
    for parameter in space.parameters:
        if not parameter.is_active(found):
            continue
        old = point.get(parameter.name)
        if old is None or source.random() < rule.resample:
            found[parameter.name] = parameter.draw(source)
        else:
            found[parameter.name] = _moved(parameter, old, source)
    return found


def _moved(parameter: Parameter, old: object, source: random.Random) -> str | int | float | bool:
    if parameter.kind == "choice":
        # Neighbours in the list, which people write in order.
        at = parameter.choices.index(old) if old in parameter.choices else 0
        near = min(max(at + source.choice((-1, 0, 1)), 0), len(parameter.choices) - 1)
        return parameter.choices[near]
    assert isinstance(old, int | float)
    moved = old * source.choice(FACTORS)
    if parameter.step is not None:
        moved = old + parameter.step * source.choice((-1, 1))
    moved = min(max(moved, parameter.low), parameter.high)
    return round(moved) if parameter.kind == "int" else float(f"{moved:.12g}")


def _last(trial: ObservedTrial) -> float:
    loss = trial.rungs[max(trial.rungs)]
    return math.inf if math.isnan(loss) else loss


def _by_number(line: Sequence[ObservedTrial], number: int) -> float:
    return next(_last(other) for other in line if other.number == number)
