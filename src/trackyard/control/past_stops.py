"""How often running jobs were stopped for others before, and for whom.

Owns the question to the database. Whether a job may be stopped again is the scheduler's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trackyard.scheduling.snapshot import MOST_STOPS, WaitingJob
from trackyard.store.transaction import ReadConnection


@dataclass(frozen=True, slots=True)
class PastStops:
    """A job's earlier stops."""

    #: when, the last one at the end
    times: tuple[float, ...] = ()
    #: the job it was last stopped for, while that one has not ended; empty: none
    stopped_for: str = ""


NONE = PastStops()


def past_stops(reader: ReadConnection) -> dict[int, PastStops]:
    """Return the earlier stops of jobs that wait or hold resources, by the job's inner id."""
    rows = reader.all(
        "SELECT a.job, a.ended_ms, a.stops_for, b.state FROM attempts a"
        " JOIN jobs j ON j.id = a.job LEFT JOIN jobs b ON b.job_id = a.stops_for"
        " WHERE j.state IN ('queued', 'starting', 'running', 'stopping')"
        " AND a.state = 'preempted'"
        " AND a.ended_ms IS NOT NULL ORDER BY a.job, a.number"
    )
    found: dict[int, PastStops] = {}
    for job, ended_ms, stopped_for, state in rows:
        times = (*found.get(job, NONE).times, ended_ms / 1000)[-MOST_STOPS:]
        is_open = state is not None and state not in ("succeeded", "failed", "cancelled")
        found[job] = PastStops(times, stopped_for if is_open else "")
    return found


def owed(reader: ReadConnection) -> set[str]:
    """Return the ids of waiting jobs that others were stopped for and that did not start since."""
    rows = reader.all(
        "SELECT DISTINCT j.job_id FROM attempts a JOIN jobs j ON j.job_id = a.stops_for"
        " WHERE a.state = 'preempted' AND j.state = 'queued' AND a.ended_ms >"
        " (SELECT coalesce(max(own.admitted_ms), 0) FROM attempts own WHERE own.job = j.id)"
    )
    return {row[0] for row in rows}


def with_stops(
    waiting: Iterable[tuple[int, WaitingJob]], stopped: Mapping[int, PastStops], first: set[str]
) -> tuple[WaitingJob, ...]:
    """Add to waiting jobs, given by inner id, what is known of stops; most know nothing of any."""
    if not stopped and not first:
        return tuple(one for _, one in waiting)
    return tuple(
        replace(
            one,
            stops=past.times,
            stopped_for=past.stopped_for,
            is_owed=one.job.id in first,
        )
        if (past := stopped.get(inner, NONE)) is not NONE or one.job.id in first
        else one
        for inner, one in waiting
    )
