"""Jobs as a watcher sees them: who waits, what runs, what its log grew by.

Owns queries over many jobs at once for alerts. Changes nothing and knows no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from trackyard.core.job import JobState
from trackyard.queue.specification import JobSpec
from trackyard.store.database import ReadConnection, Tx

SLICE = 400
MOST_WAITING = 20_000
_FINAL = tuple(state.value for state in JobState if state.is_final)


class WatchedJob(NamedTuple):
    """What a watcher needs to know of a job."""

    job_id: str
    array_id: str
    team_id: int
    name: str
    run_uuid: str
    user_name: str


class LiveLog(NamedTuple):
    """A member's log, up to where it is held."""

    attempt: int
    attempt_id: str
    member: int
    end: int
    job_id: str
    #: whether nothing can come any more
    is_whole: bool


_COLUMNS = "j.job_id, j.array_id, j.team_id, j.name, j.run_uuid, j.user_name"


def jobs_by(reader: ReadConnection, column: str, values: Sequence[str]) -> list[WatchedJob]:
    """Return jobs by `job_id` or `run_uuid`."""
    assert column in ("job_id", "run_uuid")
    found = []
    for at in range(0, len(values), SLICE):
        part = values[at : at + SLICE]
        marks = ",".join("?" * len(part))
        rows = reader.all(
            f"SELECT {_COLUMNS} FROM jobs j WHERE j.{column} IN ({marks})", tuple(part)
        )
        found += [WatchedJob(*row) for row in rows]
    return found


def resolve_scope(reader: ReadConnection | Tx, team_id: int, name: str) -> str | None:
    """Return the id of the team's job or array that an id of a job, array or run stands for."""
    for column in ("job_id", "array_id", "run_uuid"):
        row = reader.one(
            f"SELECT job_id, array_id FROM jobs WHERE {column} = ? AND team_id = ? LIMIT 1",
            (name, team_id),
        )
        if row is not None:
            return str(row[1] if column == "array_id" else row[0])
    return None


def waiting_since(reader: ReadConnection) -> list[tuple[WatchedJob, int]]:
    """Return the jobs that stand in the queue, and since when."""
    rows = reader.all(
        f"SELECT {_COLUMNS}, j.submitted_ms, j.not_before_ms,"
        " (SELECT max(a.ended_ms) FROM attempts a WHERE a.job = j.id) FROM jobs j"
        " WHERE j.state = ? AND j.held = 0 AND j.run_uuid <> ''"
        f" ORDER BY j.id LIMIT {MOST_WAITING}",
        (JobState.QUEUED.value,),
    )
    return [(WatchedJob(*row[:6]), max(row[6], row[7] or 0, row[8] or 0)) for row in rows]


def running_marks(reader: ReadConnection) -> list[tuple[WatchedJob, str]]:
    """Return running jobs with a mark that changes with their step and log."""
    rows = reader.all(
        f"SELECT {_COLUMNS}, a.number, a.step,"
        " (SELECT sum(m.log_end) FROM attempt_members m WHERE m.attempt = a.id)"
        " FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.settled = 0 AND a.state = 'running'"
    )
    return [(WatchedJob(*row[:6]), f"{row[6]}:{row[7]}:{row[8]}") for row in rows]


def live_logs(reader: ReadConnection, also: Iterable[str]) -> list[LiveLog]:
    """Return the logs that may still grow, and those of further attempts."""
    select = (
        "SELECT a.id, a.attempt_id, m.member, m.log_end, j.job_id, a.settled FROM attempts a"
        " JOIN attempt_members m ON m.attempt = a.id JOIN jobs j ON j.id = a.job"
    )
    rows = list(reader.all(f"{select} WHERE a.settled = 0"))
    known = {row[1] for row in rows}
    wanted = sorted(set(also) - known)
    for at in range(0, len(wanted), SLICE):
        part = wanted[at : at + SLICE]
        marks = ",".join("?" * len(part))
        rows += reader.all(f"{select} WHERE a.attempt_id IN ({marks})", tuple(part))
    return [LiveLog(*(*row[:5], bool(row[5]))) for row in rows]


def alerts_of(
    reader: ReadConnection, job_ids: Sequence[str]
) -> list[tuple[WatchedJob, list[str]]]:
    """Return the alerts that jobs were submitted with."""
    found: list[tuple[WatchedJob, list[str]]] = []
    specs: dict[int, list[str]] = {}
    for at in range(0, len(job_ids), SLICE):
        part = job_ids[at : at + SLICE]
        marks = ",".join("?" * len(part))
        rows = reader.all(
            f"SELECT {_COLUMNS}, j.spec_id FROM jobs j WHERE j.job_id IN ({marks})", tuple(part)
        )
        for row in rows:
            if row[6] not in specs:
                spec = reader.one("SELECT spec FROM job_specs WHERE id = ?", (row[6],))
                assert spec is not None
                specs[row[6]] = msgspec.json.decode(spec[0], type=JobSpec).alerts
            found.append((WatchedJob(*row[:6]), specs[row[6]]))
    return found


def has_open_jobs(reader: ReadConnection | Tx, array_id: str) -> bool:
    """Tell whether some job of an array has not ended."""
    marks = ",".join("?" * len(_FINAL))
    row = reader.one(
        f"SELECT 1 FROM jobs WHERE array_id = ? AND state NOT IN ({marks}) LIMIT 1",
        (array_id, *_FINAL),
    )
    return row is not None
