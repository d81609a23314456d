"""How far a job's script has come, by what it logs to its run. Owns no state; reads metrics."""

from __future__ import annotations

from trackyard.queue.records import AttemptRow, JobRow
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.watched import last_logged_step

#: How far a node's clock may be behind ours.
CLOCK_SLACK_MS = 1000


def logged_step(reader: ReadConnection | Tx, job: JobRow, attempt: AttemptRow) -> int | None:
    """Return the last step an attempt logged a metric of its own at; None if it logged none."""
    since = (attempt.started_ms or attempt.admitted_ms) - CLOCK_SLACK_MS
    return last_logged_step(reader, job.run_uuid, since)


def last_step(reader: ReadConnection | Tx, job: JobRow, attempt: AttemptRow) -> int | None:
    """Return how far an attempt has come: what it told its runner, or what it logged since."""
    known = [attempt.step, logged_step(reader, job, attempt)]
    return max((step for step in known if step is not None), default=None)
