"""What a sweep does next: which trials have ended, which are stopped, how many begin. Pure.

Owns the order of these decisions and the budget. It turns a snapshot into a plan; the caller
applies the plan only if nothing has changed in the meantime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from trackyard.core.job import JobState
from trackyard.sweeps import records
from trackyard.sweeps.population import replacement
from trackyard.sweeps.records import TrialRow
from trackyard.sweeps.samplers import PastTrial
from trackyard.sweeps.space import nearest
from trackyard.sweeps.stopping import Curve, CurveJudgement, ObservedTrial, judge
from trackyard.sweeps.wishes import OWN_SAMPLERS, SweepSpec

#: Most trials started in one pass, so that no pass takes long.
MAX_NEW = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTrial:
    """A trial that has not ended, with its job as it stands."""

    row: TrialRow
    job_state: str
    job_sentence: str = ""
    #: (step, value) of the metric
    curve: Curve = ()
    #: metrics its run did log, if it lacks the sweep's own
    logged: Sequence[str] = ()
    gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSnapshot:
    """A sweep as it stands."""

    spec: SweepSpec
    ended: Sequence[TrialRow]
    live: Sequence[LiveTrial]
    elapsed_seconds: float


@dataclass(slots=True, kw_only=True)
class TrialChange:
    """Changes to one trial; None leaves a field as it is."""

    number: int
    state: str | None = None
    value: float | None = None
    step: int | None = None
    sentence: str = ""
    rungs: dict[int, float] | None = None
    curve: Curve = ()
    gpu_seconds: float = 0.0
    #: whether its job is to be stopped
    stops: bool = False
    #: the trial whose copy replaces it
    replaced_by_copy_of: int | None = None


@dataclass(slots=True, kw_only=True)
class SweepStep:
    """What a sweep does next."""

    changes: list[TrialChange] = field(default_factory=list)
    #: trials to begin
    begin: int = 0
    #: final state and why; empty while the sweep continues
    end: str = ""
    sentence: str = ""


def decide(look: SweepSnapshot) -> SweepStep:
    """Return what to do now."""
    spec, found = look.spec, SweepStep()
    live = [trial for trial in look.live if not _settle(spec, trial, found)]
    ended_now = {change.number: change for change in found.changes}
    used = sum(row.gpu_seconds for row in look.ended) + sum(t.gpu_seconds for t in look.live)
    spent = budget_spent(spec, look.elapsed_seconds, used / 3600)
    failed = _failed_in_row(look.ended, found.changes)
    if spent or failed >= spec.max_failed:
        _stop_all(live, found, spent or "The sweep gave up after too many failures.")
        if failed >= spec.max_failed:
            found.end = records.FAILED
            found.sentence = _failure_sentence(failed, look.ended, found.changes)
        else:
            found.end, found.sentence = records.FINISHED, spent
        return found
    _judge_all(spec, look, live, ended_now, found)
    going = sum(
        trial.row.number not in {c.number for c in found.changes if c.state} for trial in live
    )
    copies = sum(change.replaced_by_copy_of is not None for change in found.changes)
    total = len(look.ended) + len(look.live)
    found.begin = _wanted(spec, total, going, copies)
    if going == 0 and found.begin == 0 and copies == 0:
        found.end = records.FINISHED
        found.sentence = f"All {total} trials have ended."
    return found


def budget_spent(spec: SweepSpec, seconds: float, gpu_hours: float) -> str:
    """Say which budget of time is used up; empty if none is."""
    if spec.seconds is not None and seconds >= spec.seconds:
        return "Its budget of time is used up."
    if spec.gpu_hours is not None and gpu_hours >= spec.gpu_hours:
        return f"Its budget of {spec.gpu_hours:g} GPU-hours is used up."
    return ""


def ahead(spec: SweepSpec) -> int:
    """Return how many trials are queued in advance, so that a free slot is taken at once.

    A model learns from each trial, so with few slots it waits for the latest result.
    """
    return 1 if spec.sampler in OWN_SAMPLERS or spec.slots >= 4 else 0


def _wanted(spec: SweepSpec, total: int, going: int, copies: int) -> int:
    if spec.stop.method == "pbt":
        # A population is created once; afterwards there are only copies.
        return min(max(0, spec.slots - total), MAX_NEW)
    room = spec.slots + ahead(spec) - going
    left = records_left(spec, total + copies)
    return max(0, min(room, left, MAX_NEW))


def records_left(spec: SweepSpec, total: int) -> int:
    """Return how many more trials the budget allows."""
    return 10**9 if spec.trials is None else max(0, spec.trials - total)


def _settle(spec: SweepSpec, trial: LiveTrial, found: SweepStep) -> bool:
    """Record the end of a trial whose job has ended; return whether it has."""
    state = JobState(trial.job_state)
    if not state.is_final:
        return False
    change = _ended(spec, trial)
    if state is JobState.CANCELLED:
        change.state, change.sentence = records.ENDED, trial.job_sentence
    elif state is JobState.FAILED:
        change.state, change.sentence = records.BROKEN, trial.job_sentence
    elif change.value is None or math.isnan(change.value):
        change.state = records.BROKEN
        change.sentence = missing_metric(spec.metric, trial.logged, bool(trial.curve))
    else:
        change.state = records.COMPLETE
    found.changes.append(change)
    return True


def missing_metric(metric: str, logged: Sequence[str], is_nan: bool) -> str:
    """Explain why a trial that succeeded has no usable result."""
    if is_nan:
        return f"It ended with a {metric} that is not a number."
    if not logged:
        return f"It ended without logging {metric}, or any metric: log it with MLflow."
    return f"It ended without logging {metric}; {nearest(metric, list(logged)[:20])}"


def _ended(spec: SweepSpec, trial: LiveTrial) -> TrialChange:
    value, step = result(spec, trial.curve)
    return TrialChange(
        number=trial.row.number,
        value=value,
        step=step,
        curve=thinned(trial.curve),
        gpu_seconds=trial.gpu_seconds,
    )


def result(spec: SweepSpec, curve: Curve) -> tuple[float | None, int | None]:
    """Return the trial's value and the step at which it was reached."""
    if not curve:
        return None, None
    if spec.value == "last":
        return curve[-1][1], curve[-1][0]
    real = [(spec.sign * value, step) for step, value in curve if not math.isnan(value)]
    if not real:
        return math.nan, curve[-1][0]
    loss, step = min(real)
    return spec.sign * loss, step


def thinned(curve: Curve, most: int = 200) -> Curve:
    """Return a curve with fewer points, always including the last."""
    if len(curve) <= most:
        return curve
    stride = math.ceil(len(curve) / most)
    return [*curve[::stride], curve[-1]]


def _stop_all(live: Sequence[LiveTrial], found: SweepStep, sentence: str) -> None:
    for trial in live:
        value, step = (trial.curve[-1][1], trial.curve[-1][0]) if trial.curve else (None, None)
        found.changes.append(
            TrialChange(
                number=trial.row.number,
                state=records.ENDED,
                value=value,
                step=step,
                sentence=sentence,
                curve=thinned(trial.curve),
                gpu_seconds=trial.gpu_seconds,
                stops=True,
            )
        )


def _failed_in_row(ended: Sequence[TrialRow], changes: Sequence[TrialChange]) -> int:
    """Count the failed trials since the last one with a result."""
    line = [row.state for row in sorted(ended, key=lambda row: (row.ended_ms or 0, row.number))]
    line += [change.state for change in changes if change.state is not None]
    count = 0
    for state in line:
        if state == records.BROKEN:
            count += 1
        elif state in (records.COMPLETE, records.PRUNED):
            count = 0
    return count


def _failure_sentence(
    failed: int, ended: Sequence[TrialRow], changes: Sequence[TrialChange]
) -> str:
    told = [row.sentence for row in ended if row.state == records.BROKEN]
    told += [change.sentence for change in changes if change.state == records.BROKEN]
    return f"{failed} trials failed in a row. The last: {told[-1] if told else ''}"


def seen_of(spec: SweepSpec, row: TrialRow, curve: Curve, *, is_live: bool) -> ObservedTrial:
    """Return a trial as the stopping rules see it: losses for values."""
    return ObservedTrial(
        number=row.number,
        curve=[(step, spec.sign * value) for step, value in curve],
        is_complete=row.state == records.COMPLETE,
        is_live=is_live,
        bracket=row.bracket,
        rungs={at: spec.sign * value for at, value in row.at_rungs.items()},
    )


def _judge_all(
    spec: SweepSpec,
    look: SweepSnapshot,
    live: Sequence[LiveTrial],
    ended_now: Mapping[int, TrialChange],
    found: SweepStep,
) -> None:
    if spec.stop.method == "none":
        return
    seen = [seen_of(spec, row, row.points, is_live=False) for row in look.ended]
    for trial in look.live:
        one = seen_of(spec, trial.row, trial.curve, is_live=trial.row.number not in ended_now)
        change = ended_now.get(trial.row.number)
        one.is_complete = change is not None and change.state == records.COMPLETE
        seen.append(one)
    by_number = {one.number: one for one in seen}
    for change in ended_now.values():
        # A trial that ended by itself has passed its rungs, too: others are compared with it.
        _note_rungs(spec, by_number[change.number], seen, change)
    copies_left = records_left(spec, len(look.ended) + len(look.live))
    is_population = spec.stop.method == "pbt"
    # All members reach their milestones before any is compared.
    early = _milestones(spec, live, by_number) if is_population else {}
    for trial in sorted(live, key=lambda trial: trial.row.number):
        one = by_number[trial.row.number]
        change = TrialChange(number=one.number, gpu_seconds=trial.gpu_seconds)
        verdict = early[one.number] if is_population else judge(spec.stop, one, seen)
        if verdict.rungs:
            one.rungs.update(verdict.rungs)
            change.rungs = {at: spec.sign * loss for at, loss in one.rungs.items()}
        if verdict.stop:
            _prune(spec, trial, change, verdict.stop, is_end=verdict.is_end)
        elif verdict.rungs and copies_left > 0:
            copies_left -= _replace(spec, trial, change, one, seen)
        if change.state or change.rungs is not None:
            found.changes.append(change)


def _milestones(
    spec: SweepSpec, live: Sequence[LiveTrial], by_number: Mapping[int, ObservedTrial]
) -> dict[int, CurveJudgement]:
    """Record which milestones the members of a population have reached."""
    found = {}
    for trial in live:
        one = by_number[trial.row.number]
        found[one.number] = judge(spec.stop, one, ())
        one.rungs.update(found[one.number].rungs)
    return found


def _replace(
    spec: SweepSpec,
    trial: LiveTrial,
    change: TrialChange,
    one: ObservedTrial,
    seen: Sequence[ObservedTrial],
) -> bool:
    """Replace a trial with a copy of a better one, if the rule says so."""
    if spec.stop.method != "pbt":
        return False
    parent = replacement(spec.stop, one, seen, f"{spec.seed}:{one.number}:{len(one.rungs)}")
    if parent is None:
        return False
    change.replaced_by_copy_of = parent
    words = (
        f"At step {max(one.rungs)} it was among the worst; a copy of trial {parent} replaces it."
    )
    _prune(spec, trial, change, words, is_end=False)
    return True


def _note_rungs(
    spec: SweepSpec, one: ObservedTrial, seen: Sequence[ObservedTrial], change: TrialChange
) -> None:
    while True:
        verdict = judge(spec.stop, one, seen)
        if not verdict.rungs:
            break
        one.rungs.update(verdict.rungs)
    if one.rungs:
        change.rungs = {at: spec.sign * loss for at, loss in one.rungs.items()}


def _prune(
    spec: SweepSpec, trial: LiveTrial, change: TrialChange, sentence: str, *, is_end: bool
) -> None:
    ended = _ended(spec, trial)
    change.state = records.COMPLETE if is_end else records.PRUNED
    change.value, change.step, change.curve = ended.value, ended.step, ended.curve
    change.sentence, change.stops = sentence, True


def history(spec: SweepSpec, rows: Sequence[TrialRow]) -> list[PastTrial]:
    """Return the trials as samplers see them."""
    return [
        PastTrial(
            number=row.number,
            point=row.point,
            state=row.state if row.state in ("complete", "pruned", "running") else "failed",
            loss=None if row.value is None else spec.sign * row.value,
            curve=[(step, spec.sign * value) for step, value in row.points[:200]]
            if row.state == "pruned"
            else (),
            attributes=_attributes(row),
        )
        for row in rows
    ]


def _attributes(row: TrialRow) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(row.attributes)
    return found


def best_of(spec: SweepSpec, rows: Sequence[TrialRow]) -> TrialRow | None:
    """Return the best trial: of those that ended by themselves, else of those with a value."""
    told = [row for row in rows if row.value is not None and math.isfinite(row.value)]
    whole = [row for row in told if row.state == records.COMPLETE]
    return min(
        whole or told, key=lambda row: (spec.sign * (row.value or 0.0), row.number), default=None
    )
