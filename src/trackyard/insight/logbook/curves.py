"""Notable points of a curve, found by stated rules: NaN, spike, plateau, best value, slow-down.

Pure. Every rule looks back only (but for the best value, which is the best so far), so what it
found stays found as a run goes on. docs/logbook.md states the rules; keep both alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from trackyard.insight.logbook.entries import LogbookEntry
from trackyard.insight.logbook.facts import Curve, RunFacts
from trackyard.insight.logbook.words import count, figure, grouped, lasted

#: A spike stands out from the median of so many points before it ...
WINDOW = 20
LEAST_BEFORE = 8
#: ... by so many robust standard deviations, and by this share of the median.
SPIKE_DEVIATIONS, SPIKE_SHARE = 8.0, 0.25
#: Turns a median absolute deviation into a standard deviation of normal noise.
_TO_SIGMA = 1.4826
#: A plateau: no gain of this share of the best value within this share of all points so far.
PLATEAU_GAIN, PLATEAU_SHARE, PLATEAU_POINTS = 0.005, 0.25, 50
#: A slow-down: below this share of the usual rate for so many points in a row.
SLOW_SHARE, SLOW_POINTS = 0.6, 5
#: Curves that are looked at, and entries that one rule makes of one of them, at most.
MAX_CURVES, MAX_ENTRIES = 6, 20

_LOWER = re.compile(r"loss|perplexity|\bppl\b|error|\bnll\b|\bmae\b|rmse|\bmse\b", re.IGNORECASE)
_HIGHER = re.compile(
    r"acc|\bauc|f1|bleu|rouge|reward|\bmap\b|precision|recall|\br2\b|iou", re.IGNORECASE
)
_NORM = re.compile(r"grad.?norm", re.IGNORECASE)
_RATE = re.compile(
    r"(tokens?|samples?|steps?|examples?|images?|it|rows?)_?(per|/)_?s(ec(ond)?s?)?\b|throughput",
    re.IGNORECASE,
)
_EVALUATED = re.compile(r"^(val|valid|eval|test|dev)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A notable point of a curve."""

    #: nan, spike, plateau, best or slow_down
    rule: str
    metric: str
    step: int
    time_ms: int
    sentence: str
    tone: str


def goal_of(metric: str) -> str:
    """Tell what a metric's name says of it: lower, higher, norm, rate, or nothing."""
    if metric.startswith("system/"):
        return ""
    if _NORM.search(metric):
        return "norm"
    if _RATE.search(metric):
        return "rate"
    if _LOWER.search(metric):
        return "lower"
    return "higher" if _HIGHER.search(metric) else ""


def chosen_metrics(names: Iterable[str]) -> list[str]:
    """Choose the curves worth looking at: losses first, then scores, norms and rates."""
    order = {"lower": 0, "higher": 1, "norm": 2, "rate": 3}
    ranked = sorted(
        (order[goal], len(name), name) for name in names if (goal := goal_of(name)) in order
    )
    return [name for _, _, name in ranked[:MAX_CURVES]]


def notable_points(curve: Curve, starts: Sequence[int] = ()) -> list[CurvePoint]:
    """Return what is notable about a curve; `starts` are moments at which attempts began."""
    goal = goal_of(curve.metric)
    found = _not_numbers(curve)
    if goal in ("lower", "norm"):
        found += _spikes(curve)
    if goal in ("lower", "higher"):
        found += _plateaus(curve, goal)
        found += _best(curve, goal)
    if goal == "rate":
        found += _slow(curve, list(curve.times), list(curve.values), "of its usual rate")
    elif goal == "lower" and not _EVALUATED.match(curve.metric):
        times, rates = _step_rates(curve, starts)
        found += _slow(curve, times, rates, "of its usual steps per second")
    return found


def curve_entries(facts: RunFacts) -> list[LogbookEntry]:
    """Return the entries that a run's curves give."""
    starts = [one.started_ms for one in facts.attempts if one.started_ms is not None]
    made: list[LogbookEntry] = []
    slow_seen: set[int] = set()
    for curve in facts.curves:
        for point in notable_points(curve, starts):
            # Several curves of one run slow down together: told once.
            if point.rule == "slow_down":
                if any(abs(point.time_ms - seen) < 600_000 for seen in slow_seen):
                    continue
                slow_seen.add(point.time_ms)
            made.append(
                LogbookEntry(
                    id=f"c-{point.rule}-{point.metric}-{point.step}",
                    time_ms=point.time_ms,
                    kind="curve",
                    sentence=point.sentence,
                    tone=point.tone,
                    run_id=facts.run_id,
                    run_name=facts.name,
                    step=point.step,
                    metric=point.metric,
                    is_suggestion=True,
                )
            )
    return made


def _not_numbers(curve: Curve) -> list[CurvePoint]:
    """The first point of each stretch that is not a number."""
    found = []
    was_number = True
    for step, time_ms, value in zip(curve.steps, curve.times, curve.values, strict=True):
        is_number = not math.isnan(value)
        if was_number and not is_number:
            words = f"{curve.metric} became NaN by step {grouped(step)}."
            found.append(CurvePoint("nan", curve.metric, step, time_ms, words, "bad"))
        was_number = is_number
    return found[:MAX_ENTRIES]


def _usual(before: Sequence[float]) -> tuple[float, float]:
    """Return the median of values and their robust standard deviation."""
    middle = median(before)
    return middle, median(abs(value - middle) for value in before) * _TO_SIGMA


def _spikes(curve: Curve) -> list[CurvePoint]:
    """Rises above what the points before would allow; told once for each until it is over."""
    found: list[CurvePoint] = []
    calm: list[float] = []
    limit: float | None = None
    peak: tuple[float, int, int, float] | None = None
    for at, (value, most) in enumerate(zip(curve.values, curve.most, strict=True)):
        if math.isnan(most):
            continue
        if limit is None and len(calm) >= LEAST_BEFORE:
            middle, spread = _usual(calm[-WINDOW:])
            edge = middle + max(SPIKE_DEVIATIONS * spread, SPIKE_SHARE * abs(middle))
            if most > edge:
                limit, peak = edge, (most, curve.steps[at], curve.times[at], middle)
        if limit is None or peak is None:
            calm.append(value if not math.isnan(value) else most)
            continue
        if most > peak[0]:
            peak = (most, curve.steps[at], curve.times[at], peak[3])
        if value <= limit:
            found.append(_spike(curve, peak, curve.steps[at]))
            limit, peak = None, None
            calm.append(value)
    if peak is not None:
        found.append(_spike(curve, peak, None))
    return found[:MAX_ENTRIES]


def _spike(curve: Curve, peak: tuple[float, int, int, float], back: int | None) -> CurvePoint:
    value, step, time_ms, usual = peak
    words = (
        f"{curve.metric} spiked to {figure(value)} at step {grouped(step)}"
        f" from about {figure(usual)}"
    )
    if back is None:
        words += " and has not come back down."
    elif back > step:
        words += f"; it was back by step {grouped(back)}."
    else:
        words += "; it was back at once."
    return CurvePoint(
        "spike", curve.metric, step, time_ms, words, "bad" if back is None else "warn"
    )


def _plateaus(curve: Curve, goal: str) -> list[CurvePoint]:
    """The moment at which a best value is known to have stood for a quarter of the run."""
    found = []
    best, best_at, told = math.nan, 0, False
    for at, value in enumerate(curve.values):
        if math.isnan(value):
            continue
        if math.isnan(best) or _gains(value, best, goal):
            best, best_at, told = value, at, False
            continue
        stood = at - best_at
        if not told and stood >= PLATEAU_POINTS and stood >= PLATEAU_SHARE * (at + 1):
            told = True
            since = curve.steps[best_at]
            words = (
                f"{curve.metric} has not improved by more than {PLATEAU_GAIN:.1%} since step"
                f" {grouped(since)} ({figure(best)}): a plateau of"
                f" {count(curve.steps[at] - since, 'step')} and"
                f" {lasted(curve.times[at] - curve.times[best_at])}."
            )
            step, time_ms = curve.steps[at], curve.times[at]
            found.append(CurvePoint("plateau", curve.metric, step, time_ms, words, "warn"))
    return found[:MAX_ENTRIES]


def _gains(value: float, best: float, goal: str) -> bool:
    margin = PLATEAU_GAIN * abs(best)
    return value < best - margin if goal == "lower" else value > best + margin


def _best(curve: Curve, goal: str) -> list[CurvePoint]:
    """The best value so far, where the curve has enough points to speak of one."""
    extremes = curve.least if goal == "lower" else curve.most
    known = [(value, at) for at, value in enumerate(extremes) if not math.isnan(value)]
    if len(known) < 3:
        return []
    value, at = min(known) if goal == "lower" else max(known, key=lambda one: (one[0], -one[1]))
    words = f"{curve.metric} reached its best value so far, {figure(value)}, by step"
    sentence = f"{words} {grouped(curve.steps[at])}."
    return [CurvePoint("best", curve.metric, curve.steps[at], curve.times[at], sentence, "good")]


def _step_rates(curve: Curve, starts: Sequence[int]) -> tuple[list[int], list[float]]:
    """Steps per second between neighbouring points; none across the start of an attempt."""
    times, rates = [curve.times[0]] if curve.times else [], [math.nan] if curve.times else []
    for at in range(1, len(curve.steps)):
        began, ended = curve.times[at - 1], curve.times[at]
        is_cut = any(began < start <= ended for start in starts)
        steps = curve.steps[at] - curve.steps[at - 1]
        whole = ended > began and steps > 0 and not is_cut
        times.append(ended)
        rates.append(steps / (ended - began) * 1000 if whole else math.nan)
    return times, rates


def _slow(curve: Curve, times: list[int], rates: list[float], words: str) -> list[CurvePoint]:
    """Stretches at less than the share of the usual rate; told at their first point."""
    found: list[CurvePoint] = []
    usual: list[float] = []
    slow: list[int] = []
    told = False
    for at, rate in enumerate(rates):
        if math.isnan(rate):
            slow = []
            continue
        middle = median(usual[-WINDOW:]) if len(usual) >= LEAST_BEFORE else None
        if middle is None or rate >= SLOW_SHARE * middle:
            usual.append(rate)
            slow, told = [], False
            continue
        slow.append(at)
        if len(slow) >= SLOW_POINTS and not told:
            told = True
            first = slow[0]
            share = median(rates[one] for one in slow) / middle
            sentence = (
                f"Training slowed to {share:.0%} {words} at step {grouped(curve.steps[first])}."
            )
            found.append(
                CurvePoint(
                    "slow_down", curve.metric, curve.steps[first], times[first], sentence, "warn"
                )
            )
    return found[:MAX_ENTRIES]
