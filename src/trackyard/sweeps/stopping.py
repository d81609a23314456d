"""Early stopping: which running trials are not worth continuing, given all reports.

Owns the rules (ASHA, hyperband, median) and the milestones of population-based training. Pure: a
trial is its curve of (resource, loss), where less is better. A trial is judged once at each rung,
and what it had there is kept, so that a restart changes no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.sweeps.space import nearest

METHODS = ("none", "asha", "hyperband", "median", "pbt")
_KEYS = {
    "none": (),
    "asha": ("min", "max", "eta", "stop_at_max"),
    "hyperband": ("min", "max", "eta", "stop_at_max"),
    "median": ("warmup", "startup", "max", "stop_at_max"),
    "pbt": ("interval", "quantile", "resample", "max", "stop_at_max"),
}
_MOST = 10**9

#: (resource, loss) in order of resource
Curve = Sequence[tuple[int, float]]


class StopRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How trials are stopped early."""

    method: str = "none"
    #: resource of the first rung, and of a whole training; 0: not known
    min: int = 1
    max: int = 0
    #: one of so many goes on at each rung
    eta: int = 3
    #: whether a trial that reached `max` is stopped, for scripts that run on
    stop_at_max: bool = False
    #: median: resource before which nothing is stopped, and trials that must have ended before
    warmup: int = 0
    startup: int = 5
    #: pbt: resource between two looks, the part at the bottom that is replaced, and the chance
    #: that a value is drawn anew instead of being moved a little
    interval: int = 1
    quantile: float = 0.25
    resample: float = 0.25


@dataclass(slots=True)
class ObservedTrial:
    """A trial as the rules see it."""

    number: int
    curve: Curve = ()
    #: ended by itself
    is_complete: bool = False
    is_live: bool = True
    bracket: int = 0
    #: resource of a rung -> loss there
    rungs: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CurveJudgement:
    """The verdict on a trial's curve."""

    #: rungs it has newly reached, with its loss there
    rungs: Mapping[int, float]
    #: why it is to be stopped; empty if it continues
    stop: str = ""
    #: whether it is stopped because it reached the end
    is_end: bool = False


def parse_rule(told: Mapping[str, Any]) -> StopRule:
    """Read the `stop` of a sweep."""
    if not told:
        return StopRule()
    method = told.get("method")
    if method not in METHODS:
        raise InvalidInput(
            f"stop.method {str(method)[:40]!r} is none of {', '.join(METHODS)};"
            f" {nearest(str(method), METHODS)}"
        )
    known = _KEYS[str(method)]
    for key in told:
        if key != "method" and key not in known:
            raise InvalidInput(
                f"stop: {method} has no key `{key}`; {nearest(key, [*known, 'method'])}"
            )
    try:
        rule = msgspec.convert(dict(told), type=StopRule)
    except msgspec.ValidationError as fault:
        raise InvalidInput(f"stop: {fault}") from fault
    _check(rule)
    return rule


def _check(rule: StopRule) -> None:
    if not (1 <= rule.min <= _MOST and 0 <= rule.max <= _MOST and 1 <= rule.interval <= _MOST):
        raise InvalidInput("stop: min and interval count from 1, max from 0")
    if not 2 <= rule.eta <= 100:
        raise InvalidInput("stop: eta lies between 2 and 100")
    if rule.max and rule.max < rule.min:
        raise InvalidInput(f"stop: max {rule.max} is below min {rule.min}")
    if rule.method == "hyperband" and not rule.max:
        raise InvalidInput("stop: hyperband needs `max`, the resource of a whole training")
    if rule.stop_at_max and not rule.max:
        raise InvalidInput("stop: stop_at_max needs `max`")
    if not (0 < rule.quantile <= 0.5 and 0 <= rule.resample <= 1):
        raise InvalidInput("stop: quantile lies above 0 and up to 0.5, resample between 0 and 1")
    if not (0 <= rule.warmup <= _MOST and 1 <= rule.startup <= _MOST):
        raise InvalidInput("stop: warmup counts from 0, startup from 1")


def rungs_of(rule: StopRule, bracket: int = 0) -> list[int]:
    """Return the resources at which trials of a bracket are compared, the least first."""
    if rule.method not in ("asha", "hyperband"):
        return []
    most = rule.max or rule.min * rule.eta**20
    found: list[int] = []
    at = rule.min * rule.eta**bracket
    while at < most and len(found) < 20:
        found.append(at)
        at *= rule.eta
    return found


def brackets_of(rule: StopRule) -> int:
    """Return how many brackets there are."""
    if rule.method != "hyperband":
        return 1
    return max(1, math.floor(math.log(rule.max / rule.min, rule.eta) + 1e-9) + 1)


def bracket_for(rule: StopRule, number: int) -> int:
    """Return the bracket of a trial; those that stop early get more trials, as in hyperband."""
    count = brackets_of(rule)
    if count == 1:
        return 0
    # Bracket b starts at rung b: its trials cost about the same in all, so it gets fewer.
    sizes = [math.ceil(count * rule.eta ** (count - 1 - b) / (count - b)) for b in range(count)]
    # Dealt out in turn, so that each bracket has its part at any time.
    given = [0] * count
    for _ in range(number % sum(sizes) + 1):
        at = min(range(count), key=lambda b: (given[b] + 1) / sizes[b])
        given[at] += 1
    return at


def judge(rule: StopRule, trial: ObservedTrial, trials: Sequence[ObservedTrial]) -> CurveJudgement:
    """Judge a running trial's curve against all trials."""
    if not trial.curve:
        return CurveJudgement({})
    reached = trial.curve[-1][0]
    if rule.stop_at_max and rule.max and reached >= rule.max:
        return CurveJudgement({}, f"It reached {rule.max}, the end.", is_end=True)
    if rule.method in ("asha", "hyperband"):
        return _at_rungs(rule, trial, trials)
    if rule.method == "median":
        return _against_median(rule, trial, trials)
    if rule.method == "pbt":
        marks = range(rule.interval, reached + 1, rule.interval)
        return CurveJudgement(
            {at: _loss_at(trial.curve, at) for at in marks if at not in trial.rungs}
        )
    return CurveJudgement({})


def _at_rungs(
    rule: StopRule, trial: ObservedTrial, trials: Sequence[ObservedTrial]
) -> CurveJudgement:
    new: dict[int, float] = {}
    for at in rungs_of(rule, trial.bracket):
        if trial.curve[-1][0] < at:
            break
        if at in trial.rungs:
            continue
        loss = new[at] = _loss_at(trial.curve, at)
        others = [
            other.rungs[at]
            for other in trials
            if other.number != trial.number and other.bracket == trial.bracket
            and at in other.rungs
        ]  # fmt: skip
        limit = cutoff(others, rule.eta)
        if math.isnan(loss) or (limit is not None and loss > limit):
            rank = 1 + sum(other < loss for other in others)
            return CurveJudgement(
                new,
                f"At step {at} it ranked {rank} of {len(others) + 1};"
                f" the best {share(rule.eta)} continue.",
            )
    return CurveJudgement(new)


def share(eta: int) -> str:
    """Name the share of trials that continue."""
    return f"1 in {eta}"


def cutoff(losses: Sequence[float], eta: int) -> float | None:
    """Return the greatest loss with which a trial continues: the best 1/eta of those before."""
    real = sorted(loss for loss in losses if not math.isnan(loss))
    if not real:
        return None
    place = (len(real) - 1) / eta
    low = math.floor(place)
    high = min(low + 1, len(real) - 1)
    return real[low] + (real[high] - real[low]) * (place - low)


def _against_median(
    rule: StopRule, trial: ObservedTrial, trials: Sequence[ObservedTrial]
) -> CurveJudgement:
    at = trial.curve[-1][0]
    if at < max(rule.warmup, 1):
        return CurveJudgement({})
    others = [
        _loss_at(other.curve, at)
        for other in trials
        if other.number != trial.number and other.is_complete and other.curve
    ]
    real = [loss for loss in others if not math.isnan(loss)]
    if len(real) < rule.startup:
        return CurveJudgement({})
    best = min((loss for _, loss in trial.curve if not math.isnan(loss)), default=math.nan)
    middle = median(real)
    if best <= middle:
        return CurveJudgement({})
    return CurveJudgement(
        {}, f"At step {at} its best was worse than the median of {len(real)} trials."
    )


def _loss_at(curve: Curve, at: int) -> float:
    """Return the loss at the first report of a resource or beyond it; else the last one."""
    return next((loss for step, loss in curve if step >= at), curve[-1][1])
