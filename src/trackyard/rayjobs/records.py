"""What Ray's clients call their jobs and packages, as rows: found, noted, put out of sight.

Owns `ray_jobs` and `ray_packages`. A team sees its own names alone. Jobs that came in by another
door are listed under their own id. Deleting takes a job out of Ray's list and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trackyard.access.principal import Principal
from trackyard.core.errors import AlreadyExists, InvalidInput, NotFound
from trackyard.core.ids import JOB_ID
from trackyard.core.job import JobState
from trackyard.queue.records import (
    ATTEMPT_COLUMNS,
    JOB_COLUMNS,
    AttemptRow,
    JobRow,
    load_attempts,
    load_jobs,
)
from trackyard.queue.specification import Archive
from trackyard.queue.submit.packages import find_package
from trackyard.queue.transitions import job_event
from trackyard.rayjobs.specification import SUBMISSION_ID, package_name
from trackyard.store.database import ReadConnection, Tx

#: Jobs that one list shows at most, the newest.
MAX_LISTED = 5000


class Listed(NamedTuple):
    """A job as Ray's clients know it."""

    submission_id: str
    job: JobRow
    attempt: AttemptRow | None


def note_job(tx: Tx, principal: Principal, job: JobRow, submission_id: str) -> None:
    """Write down what the client calls a new job; a name is never given twice."""
    name = submission_id or job.job_id
    is_ours = submission_id and load_jobs(
        tx, "team_id = ? AND job_id = ?", (principal.team_id, submission_id)
    )
    is_new = not is_ours and tx.run(
        "INSERT INTO ray_jobs (team_id, submission_id, job_id, created_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (team_id, submission_id) DO NOTHING",
        (principal.team_id, name, job.job_id, tx.now_ms),
    )
    if not is_new:
        raise AlreadyExists(
            f"Job with submission_id {name} already exists. Please use a different submission_id"
        )


def find(reader: ReadConnection | Tx, principal: Principal, text: str) -> Listed:
    """Return the job that a client names, or raise in Ray's own words."""
    team = principal.team_id
    row = None
    if SUBMISSION_ID.match(text):
        row = reader.one(
            "SELECT job_id, deleted_ms FROM ray_jobs WHERE team_id = ? AND submission_id = ?",
            (team, text),
        )
    job_id = text if row is None else row[0]
    found: list[JobRow] = []
    if JOB_ID.match(job_id) and (row is None or row[1] is None):
        found = load_jobs(reader, "team_id = ? AND job_id = ?", (team, job_id))
    if not found or not found[0].run_uuid:
        raise NotFound(f"Job {text[:200]} does not exist")
    job = found[0]
    attempts = load_attempts(reader, "job = ? AND number = ?", (job.id, job.attempt))
    return Listed(text if row is not None else job_id, job, attempts[0] if attempts else None)


def listing(reader: ReadConnection, principal: Principal) -> list[Listed]:
    """Return the team's jobs, the oldest first, as many of the newest as a list shows."""
    names = {
        job_id: (submission_id, deleted)
        for submission_id, job_id, deleted in reader.all(
            "SELECT submission_id, job_id, deleted_ms FROM ray_jobs WHERE team_id = ?",
            (principal.team_id,),
        )
    }
    # A claim has no run of its own and is part of the job that asked for it.
    jobs = [
        JobRow(*row)
        for row in reader.all(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE team_id = ? AND run_uuid <> ''"
            " ORDER BY id DESC LIMIT ?",
            (principal.team_id, MAX_LISTED),
        )
    ]
    shown = [job for job in reversed(jobs) if names.get(job.job_id, ("", None))[1] is None]
    latest = _latest_attempts(reader, shown)
    return [
        Listed(names.get(job.job_id, (job.job_id, None))[0], job, latest.get(job.id))
        for job in shown
    ]


def _latest_attempts(reader: ReadConnection, jobs: Sequence[JobRow]) -> dict[int, AttemptRow]:
    found: dict[int, AttemptRow] = {}
    ids = [job.id for job in jobs if job.attempt]
    columns = ", ".join(f"a.{name}" for name in ATTEMPT_COLUMNS.split(", "))
    for at in range(0, len(ids), 500):
        part = ids[at : at + 500]
        marks = ",".join("?" * len(part))
        for row in reader.all(
            f"SELECT {columns} FROM attempts a JOIN jobs j ON j.id = a.job"
            f" AND j.attempt = a.number WHERE a.job IN ({marks})",
            part,
        ):
            attempt = AttemptRow(*row)
            found[attempt.job] = attempt
    return found


def unlist(tx: Tx, principal: Principal, listed: Listed) -> None:
    """Take an ended job out of Ray's list; the job, its run and its logs stay."""
    job = listed.job
    if not JobState(job.state).is_final:
        raise InvalidInput(
            f"Job {listed.submission_id} is not over, so it cannot be deleted:"
            f" stop it first with `ray job stop {listed.submission_id}`"
        )
    tx.run(
        "INSERT INTO ray_jobs (team_id, submission_id, job_id, created_ms, deleted_ms)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (team_id, submission_id) DO UPDATE SET"
        " deleted_ms = excluded.deleted_ms",
        (principal.team_id, listed.submission_id, job.job_id, tx.now_ms, tx.now_ms),
    )
    job_event(tx, "job.unlisted", job, actor=principal.name, submission_id=listed.submission_id)


# -- packages ---------------------------------------------------------------------------------


def note_package(tx: Tx, principal: Principal, name: str, digest: str) -> None:
    """Write down which bytes a team's package name stands for now."""
    tx.run(
        "INSERT INTO ray_packages (team_id, name, digest, user_name, created_ms)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (team_id, name) DO UPDATE SET"
        " digest = excluded.digest, user_name = excluded.user_name,"
        " created_ms = excluded.created_ms",
        (principal.team_id, name, digest, principal.name, tx.now_ms),
    )


def named_package(reader: ReadConnection | Tx, principal: Principal, name: str) -> Archive | None:
    """Return the package that a name stands for in the caller's team."""
    row = reader.one(
        "SELECT digest FROM ray_packages WHERE team_id = ? AND name = ?",
        (principal.team_id, name),
    )
    found = None if row is None else find_package(reader, principal.team_id, row[0])
    return None if found is None else Archive(found.digest, found.format)


def require_named(reader: ReadConnection | Tx, principal: Principal, address: str) -> Archive:
    """Return the package at a `gcs://` address, or say that it is not here."""
    found = named_package(reader, principal, package_name(address))
    if found is None:
        raise InvalidInput(
            f"package {address[:200]} is not here: it was not uploaded with this token's team;"
            " submit from the folder itself, with --working-dir"
        )
    return found
