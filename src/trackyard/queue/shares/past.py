"""What jobs held in a window of time, read for accounts of usage.

Owns the reading of attempts, checkpoints, stalls and sampled load for that purpose. Judges
nothing: which of that time was well spent is said elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import msgspec

from trackyard.queue.attempts.node_load import HOUR_MS
from trackyard.store.database import ReadConnection

#: Utilisation in percent below which an hour of a held GPU counts as idle.
IDLE_BELOW_PERCENT = 5.0


class PastAttempt(NamedTuple):
    """An attempt with whose it is."""

    id: int
    job: int
    number: int
    state: str
    placement: str
    admitted_ms: int
    launched_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    stop_ms: int | None
    cause: str | None
    saved: int
    unpacked_ms: int | None
    first_step_ms: int | None
    job_id: str
    job_name: str
    team_id: int
    user_name: str
    queue: str
    priority: int
    project: str | None


_COLUMNS = (
    "a.id, a.job, a.number, a.state, a.placement, a.admitted_ms, a.launched_ms, a.started_ms,"
    " a.ended_ms, a.stop_ms, a.cause, a.saved, a.unpacked_ms, a.first_step_ms, j.job_id, j.name,"
    " j.team_id, j.user_name, j.queue, coalesce(a.priority, j.priority), e.name"
)
_FROM = (
    " FROM attempts a JOIN jobs j ON j.id = a.job LEFT JOIN runs r ON r.uuid = j.run_uuid"
    " LEFT JOIN experiments e ON e.id = r.experiment_id"
)


def past_attempts(reader: ReadConnection, since_ms: int, until_ms: int) -> list[PastAttempt]:
    """Return the attempts that held something in a window; those that still run included."""
    rows = [
        *reader.all(
            f"SELECT {_COLUMNS}{_FROM} WHERE a.ended_ms > ? AND a.admitted_ms < ?",
            (since_ms, until_ms),
        ),
        *reader.all(
            f"SELECT {_COLUMNS}{_FROM} WHERE a.state IN ('starting', 'running', 'stopping')"
            " AND a.ended_ms IS NULL AND a.admitted_ms < ?",
            (until_ms,),
        ),
    ]
    return [PastAttempt(*row) for row in rows]


class ClaimOwner(NamedTuple):
    """The job that a claim was made for."""

    job_id: str
    name: str


def claim_owners(reader: ReadConnection) -> dict[int, ClaimOwner]:
    """Return, by the inner id of a claim's own job, the job it was made for."""
    rows = reader.all(
        "SELECT c.job, j.job_id, j.name FROM claims c JOIN attempts a ON a.id = c.attempt"
        " JOIN jobs j ON j.id = a.job"
    )
    return {claim: ClaimOwner(job_id, name) for claim, job_id, name in rows}


class Saves:
    """When checkpoints of (job, attempt) were complete, and what training waited for them."""

    def __init__(self) -> None:
        self.last: dict[tuple[int, int], int] = {}
        self.pauses: dict[tuple[int, int], list[tuple[int, int]]] = {}


def saves(reader: ReadConnection, since_ms: int) -> Saves:
    """Return the checkpoints of a time, as far as they bear on usage."""
    found = Saves()
    for job, attempt, at, blocked in reader.all(
        "SELECT job, attempt, created_ms, blocked_ms FROM checkpoints WHERE created_ms > ?"
        " ORDER BY created_ms",
        (since_ms,),
    ):
        key = (job, attempt)
        found.last[key] = at
        if blocked > 0:
            found.pauses.setdefault(key, []).append((at - blocked, at))
    return found


def stalls(
    reader: ReadConnection, since_ms: int
) -> dict[tuple[str, int], list[tuple[int, int | None]]]:
    """Return the stretches without progress by (job id, attempt); the last may be open."""
    found: dict[tuple[str, int], list[tuple[int, int | None]]] = defaultdict(list)
    for at, kind, job_id, data in reader.all(
        "SELECT time_ms, kind, subject_id, data FROM events"
        " WHERE kind IN ('job.stalled', 'job.recovered') AND time_ms > ? ORDER BY time_ms, id",
        (since_ms,),
    ):
        stretches = found[job_id, int(msgspec.json.decode(data).get("attempt", 0))]
        if kind == "job.stalled":
            stretches.append((at, None))
        elif stretches and stretches[-1][1] is None:
            stretches[-1] = (stretches[-1][0], at)
    return found


def idle_hours(
    reader: ReadConnection, since_ms: int, until_ms: int
) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return the hours in which a sampled GPU was hardly used, by (node, GPU).

    Hours, because older minutes are kept as hours: an account does not change by that.
    """
    found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for node, what, hour in reader.all(
        f"SELECT node, what, at_ms / {HOUR_MS} FROM node_load WHERE at_ms >= ? AND at_ms < ?"
        f" AND what LIKE 'gpu%' GROUP BY node, what, at_ms / {HOUR_MS}"
        " HAVING sum(total) < ? * sum(count) ORDER BY 3",
        (since_ms // HOUR_MS * HOUR_MS, until_ms, IDLE_BELOW_PERCENT),
    ):
        begin = int(hour) * HOUR_MS
        found[node, int(what[3:])].append((begin, begin + HOUR_MS))
    return found


class PastJob(NamedTuple):
    """A job as it was asked for, for a replay."""

    job_id: str
    name: str
    team: str
    user_name: str
    submitted_ms: int
    spec: str
    ran_ms: int


def past_jobs(reader: ReadConnection, since_ms: int, most: int) -> list[PastJob]:
    """Return the newest ended jobs submitted since then, with how long their attempts ran."""
    rows = reader.all(
        "SELECT j.job_id, j.name, t.name, j.user_name, j.submitted_ms, s.spec,"
        " sum(a.ended_ms - coalesce(a.started_ms, a.ended_ms)) FROM jobs j"
        " JOIN job_specs s ON s.id = j.spec_id JOIN teams t ON t.id = j.team_id"
        " JOIN attempts a ON a.job = j.id"
        " WHERE j.submitted_ms >= ? AND j.state IN ('succeeded', 'failed', 'cancelled')"
        " AND a.ended_ms IS NOT NULL"
        " GROUP BY j.id, j.job_id, j.name, t.name, j.user_name, j.submitted_ms, s.spec"
        " ORDER BY j.submitted_ms DESC LIMIT ?",
        (since_ms, most),
    )
    return [PastJob(*row)._replace(ran_ms=int(row[6])) for row in rows]


class PastWait(NamedTuple):
    """A job that waited: since when, until when, in which class."""

    submitted_ms: int
    #: when it first ran or was over; None: it still waits
    until_ms: int | None
    priority: int


def waits(reader: ReadConnection, since_ms: int, until_ms: int) -> list[PastWait]:
    """Return the jobs that stood in the queue in a window, until their first start."""
    rows = reader.all(
        "SELECT submitted_ms, coalesce(started_ms, ended_ms), priority FROM jobs"
        " WHERE submitted_ms < ? AND coalesce(started_ms, ended_ms, ?) > ?",
        (until_ms, until_ms, since_ms),
    )
    return [PastWait(*row) for row in rows]


def ended_since(reader: ReadConnection, since_ms: int) -> list[int]:
    """Return when the attempts were admitted that ended after a moment."""
    rows = reader.all("SELECT admitted_ms FROM attempts WHERE ended_ms > ?", (since_ms,))
    return [row[0] for row in rows]
