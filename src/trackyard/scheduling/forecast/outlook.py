"""How long jobs are expected to run on: soon, as expected, or as long as they may.

Owns the paces at which a forecast runs ahead, so that a reason and a forecast name the same
moment. Decides nothing.
"""

from __future__ import annotations

from trackyard.core.job import Job
from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.state import HeldJob

#: Parts of the time that jobs may take: as soon as they well may, as expected, all of it.
PACES = SOON, EXPECTED, ALL = (0.25, 0.6, 1.0)


def runs_on(durations: DurationModel, job: Job, ran: float, bound: float, pace: float) -> float:
    """How long a job that ran for so long runs on at a pace; it may for `bound` seconds."""
    if pace == ALL or (pace == EXPECTED and job.estimate_seconds is not None):
        return bound
    if job.estimate_seconds is not None or job.time_limit_seconds is not None:
        return pace * bound
    # Nothing is stated: the bound is that of the one in ten that runs longest, which says little
    # of the others.
    known = durations.estimate(job)
    whole = known.seconds if pace == EXPECTED else known.low_seconds
    rest = whole - ran if whole > ran else pace * ran
    return min(rest, bound)


def end_of(held: HeldJob, now: float, durations: DurationModel, pace: float) -> float:
    """When a running job ends at a pace."""
    left = held.ends_by(now) - now
    if held.stops_at is None:
        ran = held.attained + now - held.started_at
        left = runs_on(durations, held.job, ran, left, pace)
    return now + left
