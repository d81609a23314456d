"""The run of a job: its state follows the job's, and a new attempt cuts what it went back behind.

Owns those changes of a run that no client asks for. Knows nothing of queues and attempts but
their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from trackyard.store.database import Tx
from trackyard.tracking.metrics import history
from trackyard.tracking.metrics.points import by_step
from trackyard.tracking.runs import ENDED, Metric

#: Machine time is never rolled back: its points carry this number instead of their attempt's.
MACHINE_ATTEMPT = 1_000_000
MACHINE_PREFIX = "system/"


def set_run_state(
    tx: Tx,
    run_uuid: str,
    status: str,
    *,
    actor: str,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> None:
    """Let a run follow its job: scheduled, running or ended; a deleted run is left alone."""
    row = tx.one(
        "SELECT id, team_id, experiment_id, status, lifecycle FROM runs WHERE uuid = ?",
        (run_uuid,),
    )
    if row is None or row[4] != "active":
        return
    inner, team_id, experiment_id, before, _ = row
    tx.run(
        "UPDATE runs SET status = ?, end_ms = ?, start_ms = coalesce(?, start_ms) WHERE id = ?",
        (status, end_ms, start_ms, inner),
    )
    if status == before:
        return
    tx.event(
        "run.finished" if status in ENDED else "run.updated",
        team_id=team_id,
        actor=actor,
        subject="run",
        subject_id=run_uuid,
        experiment_id=str(experiment_id),
        status=status,
    )


def note_resume(
    tx: Tx,
    inner: int,
    attempt: int,
    first_steps: Sequence[tuple[int, str, int]],
    *,
    actor: str,
) -> None:
    """Cut what this attempt went back behind, once: given (name id, name, first step) of a batch.

    Only a metric that an earlier attempt drew as a curve can tell; a lone value at step 0 cannot.
    """
    known = tx.one("SELECT 1 FROM rollbacks WHERE run_id = ? AND attempt = ?", (inner, attempt))
    if known is not None:
        return
    for name_id, name, first in first_steps:
        if name.startswith(MACHINE_PREFIX):
            continue
        row = tx.one(
            "SELECT step FROM metric_latest WHERE run_id = ? AND name_id = ?", (inner, name_id)
        )
        if row is None or row[0] <= 0:
            continue
        cut = first - 1
        tx.run(
            "INSERT INTO rollbacks (run_id, attempt, step) VALUES (?, ?, ?)", (inner, attempt, cut)
        )
        if row[0] > cut:
            _restore_latest(tx, inner, cut)
            _tell(tx, inner, actor, attempt=attempt, cut=cut, reached=row[0])
        return


def _tell(tx: Tx, inner: int, actor: str, *, attempt: int, cut: int, reached: int) -> None:
    row = tx.one(
        "SELECT r.uuid, r.team_id, j.job_id FROM runs r LEFT JOIN jobs j ON j.run_uuid = r.uuid"
        " WHERE r.id = ?",
        (inner,),
    )
    assert row is not None
    run_id, team_id, job_id = row
    tx.event(
        "job.rolled_back",
        team_id=team_id,
        actor=actor,
        subject="job" if job_id else "run",
        subject_id=job_id or run_id,
        run_id=run_id,
        attempt=attempt,
        step=cut,
        reached=reached,
        sentence=f"Attempt {attempt} went on after step {cut}; step {reached} was reached before.",
    )


def _restore_latest(tx: Tx, inner: int, cut: int) -> None:
    """Bring the latest values back to what survives."""
    rows = tx.all(
        "SELECT m.name_id, n.name FROM metric_latest m JOIN names n ON n.id = m.name_id"
        " WHERE m.run_id = ? AND m.step > ?",
        (inner, cut),
    )
    for name_id, name in rows:
        if name.startswith(MACHINE_PREFIX):
            continue
        points = by_step(history.load(tx, inner, name_id))
        if not len(points):
            tx.run("DELETE FROM metric_latest WHERE run_id = ? AND name_id = ?", (inner, name_id))
            continue
        step, time_ms = int(points.steps[-1]), int(points.times[-1])
        last = float(points.values[-1])
        real = points.values[~np.isnan(points.values)]
        shown: float | str = "NaN" if np.isnan(last) else last
        tx.run(
            "UPDATE metric_latest SET step = ?, time_ms = ?, value = ?, least = ?, most = ?,"
            " wire = ? WHERE run_id = ? AND name_id = ?",
            (
                step,
                time_ms,
                None if np.isnan(last) else last,
                float(real.min()) if len(real) else None,
                float(real.max()) if len(real) else None,
                msgspec.json.encode(Metric(name, shown, time_ms, step)).decode(),
                inner,
                name_id,
            ),
        )
