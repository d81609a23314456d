"""The figures of a replay: completion times, waits, use, fairness, waste.

Owns `measure` and Measures. Wait is completion time less the job's own run time, so it counts
every pause.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from trackyard.scheduling.place.table import Floats
from trackyard.simulate.replay import Replayed, ReplayedJob

_BOUNDED_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """The figures of one policy on one trace."""

    policy: str
    jobs: int
    average_completion_seconds: float
    p50_completion_seconds: float
    p90_completion_seconds: float
    p99_completion_seconds: float
    average_wait_seconds: float
    p50_wait_seconds: float
    p90_wait_seconds: float
    p99_wait_seconds: float
    longest_wait_seconds: float
    makespan_seconds: float
    #: GPUs in use, in percent of all, over the makespan
    utilisation_percent: float
    #: GPUs free while someone waited, in percent of all, over the makespan
    idle_while_waiting_percent: float
    #: Jain's index over the teams' mean slowdown: 1 is even
    fairness: float
    #: completion time over run time times the load met: the worst, and the share over 1
    worst_finish_time_fairness: float
    unfair_percent: float
    #: deadlines met, in percent; None: the trace has none
    deadlines_met_percent: float | None
    preemptions: int
    wasted_gpu_hours: float
    impossible_jobs: int
    replay_seconds: float

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def measure(outcome: Replayed, *, replay_seconds: float) -> Measures:
    """Work out the figures of a replay."""
    jobs = [lived for lived in outcome.jobs if lived.ended_at >= 0]
    submitted = np.array([lived.source.submitted_at for lived in jobs])
    ended = np.array([lived.ended_at for lived in jobs])
    duration = np.array([lived.source.duration for lived in jobs])
    completion = ended - submitted
    wait = np.maximum(completion - duration, 0.0)
    makespan = float(ended.max() - submitted.min()) if jobs else 0.0
    room = max(makespan * outcome.total_gpus, 1e-9)
    rho = _finish_time_fairness(outcome, jobs, completion, duration)
    return Measures(
        policy=outcome.policy,
        jobs=len(jobs),
        average_completion_seconds=float(completion.mean()),
        **_percentiles("completion", completion),
        average_wait_seconds=float(wait.mean()),
        **_percentiles("wait", wait),
        longest_wait_seconds=float(wait.max()),
        makespan_seconds=makespan,
        utilisation_percent=100 * outcome.busy / room,
        idle_while_waiting_percent=100 * outcome.idle_while_waiting / room,
        fairness=_jain(jobs, completion, duration),
        worst_finish_time_fairness=float(rho.max()),
        unfair_percent=float((rho > 1.0 + 1e-9).mean() * 100),
        deadlines_met_percent=_deadlines(jobs),
        preemptions=sum(lived.preemptions for lived in jobs),
        wasted_gpu_hours=sum(lived.wasted for lived in jobs) / 3600,
        impossible_jobs=len(outcome.impossible),
        replay_seconds=replay_seconds,
    )


def _percentiles(name: str, values: Floats) -> dict[str, float]:
    return {f"p{part}_{name}_seconds": float(np.percentile(values, part)) for part in (50, 90, 99)}


def _jain(jobs: list[ReplayedJob], completion: Floats, duration: Floats) -> float:
    slowdown = completion / np.maximum(duration, _BOUNDED_SECONDS)
    teams: dict[str, list[float]] = {}
    for lived, value in zip(jobs, slowdown, strict=True):
        teams.setdefault(lived.source.team, []).append(float(value))
    means = np.array([np.mean(values) for values in teams.values()])
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def _finish_time_fairness(
    outcome: Replayed, jobs: list[ReplayedJob], completion: Floats, duration: Floats
) -> Floats:
    """Completion time over the time it would take with an equal part of the cluster.

    The part is one over the load that the job met: GPUs asked for by all jobs in the system
    while it was there, over the GPUs there are, and never below one.
    """
    moments = np.array(
        [lived.source.submitted_at for lived in jobs] + [lived.ended_at for lived in jobs]
    )
    change = np.array([lived.source.gpu_share for lived in jobs])
    change = np.concatenate([change, -change])
    order = np.argsort(moments, kind="stable")
    times, demand = moments[order], np.cumsum(change[order])
    load = np.maximum(demand / outcome.total_gpus, 1.0)
    area = np.concatenate([[0.0], np.cumsum(load[:-1] * np.diff(times))])
    start = np.interp([lived.source.submitted_at for lived in jobs], times, area)
    end = np.interp([lived.ended_at for lived in jobs], times, area)
    met = np.where(completion > 0, (end - start) / np.maximum(completion, 1e-9), 1.0)
    result: Floats = completion / np.maximum(duration * np.maximum(met, 1.0), 1e-9)
    return result


def _deadlines(jobs: list[ReplayedJob]) -> float | None:
    due = [lived for lived in jobs if lived.source.deadline is not None]
    if not due:
        return None
    met = sum(lived.ended_at <= (lived.source.deadline or 0.0) for lived in due)
    return 100.0 * met / len(due)
