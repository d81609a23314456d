"""Sweeps as people see them: in a list, and whole, with what the page draws.

Owns loading and the figures made of trials: best so far, importance, rungs, cost. Reads only.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.queue.records import JobRow, load_jobs
from trackyard.queue.shares.held import JobHolding, held
from trackyard.store.database import ReadConnection
from trackyard.sweeps import records
from trackyard.sweeps.decisions import best_of, records_left
from trackyard.sweeps.importance import METHOD, importance
from trackyard.sweeps.records import SweepRow, TrialRow, counts, load_sweeps, load_trials
from trackyard.sweeps.stopping import cutoff, rungs_of
from trackyard.sweeps.wishes import SweepSpec
from trackyard.tracking.metrics.curves import latest_marks

MAX_LISTED = 500


class BestView(msgspec.Struct):
    """The best trial."""

    number: int
    value: float
    job_id: str
    run_id: str
    params: dict[str, Any]


class SweepView(msgspec.Struct):
    """A sweep in a list."""

    sweep_id: str
    name: str
    #: running, finished, stopped or failed
    state: str
    user: str
    #: the array that its trials' jobs form
    array_id: str
    #: the sweep whose best it searches around
    origin: str
    metric: str
    goal: str
    sampler: str
    #: method of early stopping; none for none
    stop: str
    slots: int
    #: trials it may have; null where its budget is another
    trials: int | None
    #: how many trials are in which state
    counts: dict[str, int]
    #: its best trial's number and value
    best_number: int | None
    best_value: float | None
    sentence: str
    created_ms: int
    ended_ms: int | None


class SweepList(msgspec.Struct):
    """Sweeps, the newest first."""

    sweeps: list[SweepView]


class TrialDetail(msgspec.Struct):
    """A trial of a sweep."""

    number: int
    #: running, complete, pruned, failed or stopped
    state: str
    job_id: str
    #: its job's state, in the words of jobs
    job_state: str
    run_id: str
    params: dict[str, Any]
    #: the metric: at its end, or so far
    value: float | None
    step: int | None
    bracket: int
    #: the metric at each rung it reached
    rungs: dict[str, float | None]
    #: the trial whose checkpoint it began with
    parent: int | None
    sentence: str
    seconds: float
    gpu_seconds: float
    created_ms: int
    ended_ms: int | None


class RungView(msgspec.Struct):
    """A rung: trials that reached it, and how many went on."""

    bracket: int
    resource: int
    reached: int
    went_on: int
    best: float | None
    #: the value that a trial must reach here to go on, by those before
    cutoff: float | None


class Improvement(msgspec.Struct):
    """A moment at which the best got better."""

    number: int
    value: float
    ended_ms: int


class ImportanceView(msgspec.Struct):
    """How much a parameter matters."""

    name: str
    share: float


class CostView(msgspec.Struct):
    """What a sweep has used, and what is foreseen."""

    seconds: float
    #: time that its trials have held nodes, all together
    trial_seconds: float
    gpu_hours: float
    #: foreseen for the whole sweep; null where nothing can be said yet
    total_seconds: float | None
    total_gpu_hours: float | None


class SweepDetail(msgspec.Struct):
    """Everything about a sweep."""

    sweep: SweepView
    command: str
    space: dict[str, Any]
    spec: dict[str, Any]
    best: BestView | None
    trials: list[TrialDetail]
    improvements: list[Improvement]
    importance: list[ImportanceView]
    importance_method: str
    rungs: list[RungView]
    cost: CostView


def load_list(reader: ReadConnection, principal: Principal, *, limit: int) -> SweepList:
    """Return the sweeps of a team."""
    rows = load_sweeps(reader, "team_id = ? ORDER BY id DESC LIMIT ?", (principal.team_id, limit))
    told = counts(reader, [row.id for row in rows])
    return SweepList([sweep_view(row, told[row.id], *_best(reader, row)) for row in rows])


def _best(reader: ReadConnection, sweep: SweepRow) -> tuple[int | None, float | None]:
    order = "" if sweep.asks.goal == "minimize" else " DESC"
    row = reader.one(
        "SELECT number, value FROM sweep_trials WHERE sweep = ? AND value IS NOT NULL"
        f" ORDER BY CASE WHEN state = 'complete' THEN 0 ELSE 1 END, value{order}, number LIMIT 1",
        (sweep.id,),
    )
    return (None, None) if row is None else (row[0], row[1])


def sweep_view(
    row: SweepRow, told: dict[str, int], number: int | None, value: float | None
) -> SweepView:
    """Show a sweep in a list."""
    spec = row.asks
    return SweepView(
        sweep_id=row.sweep_id,
        name=row.name,
        state=row.state,
        user=row.user_name,
        array_id=row.array_id,
        origin=row.origin,
        metric=spec.metric,
        goal=spec.goal,
        sampler=spec.sampler,
        stop=spec.stop.method,
        slots=spec.slots,
        trials=spec.trials,
        counts=told,
        best_number=number,
        best_value=value,
        sentence=row.sentence,
        created_ms=row.created_ms,
        ended_ms=row.ended_ms,
    )


def load_detail(reader: ReadConnection, row: SweepRow, now_ms: int) -> SweepDetail:
    """Show everything about a sweep."""
    spec, rows = row.asks, load_trials(reader, row.id)
    jobs = {job.id: job for job in load_jobs(reader, "array_id = ?", (row.array_id,))}
    times = held(reader, list(jobs), now_ms)
    live = [jobs[trial.job].run_uuid for trial in rows if trial.state == records.LIVE]
    marks = latest_marks(reader, live, spec.metric)
    best = best_of(spec, rows)
    told: dict[str, int] = {}
    for trial in rows:
        told[trial.state] = told.get(trial.state, 0) + 1
    number, value = (None, None) if best is None else (best.number, best.value)
    return SweepDetail(
        sweep=sweep_view(row, told, number, value),
        command=shlex.join(row.wish.command),
        space=spec.space,
        spec=msgspec.to_builtins(spec),
        best=None if best is None else _best_view(best, jobs[best.job]),
        trials=[_trial_view(trial, jobs[trial.job], times, marks) for trial in rows],
        improvements=_improvements(spec, rows),
        importance=_importance(spec, rows),
        importance_method=METHOD,
        rungs=_rungs(spec, rows),
        cost=_cost(row, spec, rows, times, now_ms),
    )


def _best_view(trial: TrialRow, job: JobRow) -> BestView:
    return BestView(
        number=trial.number,
        value=trial.value or 0.0,
        job_id=job.job_id,
        run_id=job.run_uuid,
        params=dict(trial.point),
    )


def _trial_view(
    trial: TrialRow,
    job: JobRow,
    times: dict[int, JobHolding],
    marks: dict[str, tuple[int, int, float | None]],
) -> TrialDetail:
    mark = marks.get(job.run_uuid)
    spent = times.get(job.id, JobHolding())
    return TrialDetail(
        number=trial.number,
        state=trial.state,
        job_id=job.job_id,
        job_state=job.shown,
        run_id=job.run_uuid,
        params=dict(trial.point),
        value=mark[2] if mark else trial.value,
        step=mark[0] if mark else trial.step,
        bracket=trial.bracket,
        rungs=msgspec.json.decode(trial.rungs),
        parent=trial.parent,
        sentence=trial.sentence,
        seconds=round(spent.seconds, 3),
        gpu_seconds=round(spent.gpu_seconds, 3),
        created_ms=trial.created_ms,
        ended_ms=trial.ended_ms,
    )


def _improvements(spec: SweepSpec, rows: Sequence[TrialRow]) -> list[Improvement]:
    found: list[Improvement] = []
    ended = [row for row in rows if row.state == records.COMPLETE and row.value is not None]
    for row in sorted(ended, key=lambda row: (row.ended_ms or 0, row.number)):
        value = row.value or 0.0
        if not found or spec.sign * value < spec.sign * found[-1].value:
            found.append(Improvement(row.number, value, row.ended_ms or 0))
    return found


def _importance(spec: SweepSpec, rows: Sequence[TrialRow]) -> list[ImportanceView]:
    # A trial that was stopped early is behind all that went on: values of different steps
    # cannot be compared.
    ended = sorted(
        (row for row in rows if row.value is not None and row.state != records.LIVE),
        key=lambda row: (
            row.state != records.COMPLETE,
            -max(row.at_rungs, default=0),
            spec.sign * (row.value or 0.0),
        ),
    )
    found = importance(
        [row.point for row in ended], [float(at) for at in range(len(ended))], list(spec.space)
    )
    return [ImportanceView(name, round(share, 4)) for name, share in found.items()]


def _rungs(spec: SweepSpec, rows: Sequence[TrialRow]) -> list[RungView]:
    found = []
    kept = [(row, row.at_rungs) for row in rows]
    for bracket in sorted({row.bracket for row in rows}):
        for at in rungs_of(spec.stop, bracket):
            here = [
                (row, rungs[at]) for row, rungs in kept if row.bracket == bracket and at in rungs
            ]
            if not here:
                break
            losses = [spec.sign * v for _, v in here if not math.isnan(v)]
            limit = cutoff(losses, spec.stop.eta)
            stopped = sum(
                row.state == records.PRUNED and max(row.at_rungs) == at for row, _ in here
            )
            found.append(
                RungView(
                    bracket=bracket,
                    resource=at,
                    reached=len(here),
                    went_on=len(here) - stopped,
                    best=spec.sign * min(losses) if losses else None,
                    cutoff=None if limit is None else spec.sign * limit,
                )
            )
    return found


def _cost(
    sweep: SweepRow,
    spec: SweepSpec,
    rows: Sequence[TrialRow],
    times: dict[int, JobHolding],
    now_ms: int,
) -> CostView:
    """Say what was used, and foresee the rest by what an ended trial took on average."""
    seconds = sweep.elapsed_ms(now_ms) / 1000
    trial_seconds = sum(one.seconds for one in times.values())
    gpu_hours = sum(one.gpu_seconds for one in times.values()) / 3600
    ended = [times[row.job] for row in rows if row.ended_ms is not None and row.job in times]
    total_seconds = total_hours = None
    if sweep.state != records.RUNNING:
        total_seconds, total_hours = seconds, gpu_hours
    elif ended and spec.trials is not None:
        left = records_left(spec, len(rows)) + sum(row.ended_ms is None for row in rows) / 2
        mean = sum(one.seconds for one in ended) / len(ended)
        mean_gpu = sum(one.gpu_seconds for one in ended) / len(ended) / 3600
        total_seconds = seconds + left * mean / spec.slots
        total_hours = gpu_hours + left * mean_gpu
    if total_seconds is not None and spec.seconds is not None:
        total_seconds = min(total_seconds, max(spec.seconds, seconds))
    if total_hours is not None and spec.gpu_hours is not None:
        total_hours = min(total_hours, max(spec.gpu_hours, gpu_hours))
    return CostView(
        seconds=round(seconds, 1),
        trial_seconds=round(trial_seconds, 1),
        gpu_hours=round(gpu_hours, 4),
        total_seconds=None if total_seconds is None else round(total_seconds, 1),
        total_gpu_hours=None if total_hours is None else round(total_hours, 4),
    )
