"""Trials that still run after their sweep has ended: stopped in batches.

Owns stopping many trials without holding up others' writes. Called when a sweep ends, and again by
the leader for trials left by a process that died.
"""

from __future__ import annotations

from functools import partial

from trackyard.core.job import JobState
from trackyard.core.ports import ExitCause
from trackyard.queue.records import FEW_JOBS, job_by_inner
from trackyard.queue.shares.held import JobHolding, held
from trackyard.queue.transitions import ask_stop
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.sweeps import records
from trackyard.sweeps.records import SweepRow
from trackyard.tracking.metrics.curves import latest_marks


def ended_with_live(reader: ReadConnection) -> list[SweepRow]:
    """Return sweeps that have ended and still have running trials."""
    return records.load_sweeps(
        reader,
        "state <> ? AND id IN (SELECT sweep FROM sweep_trials WHERE state = ?)",
        (records.RUNNING, records.LIVE),
    )


async def stop_all(database: Database, sweep: SweepRow, *, actor: str, sentence: str) -> None:
    """Stop the running trials of a sweep that has ended."""
    part = partial(_stop_part, sweep=sweep, actor=actor, sentence=sentence)
    while await database.write(part, is_long=True):
        pass


def _stop_part(tx: Tx, sweep: SweepRow, actor: str, sentence: str) -> bool:
    """Stop a few trials; tell whether more are left."""
    row = records.lock_sweep(tx, sweep.id)
    if row.state == records.RUNNING:
        return False
    live = records.live_trials(tx, row.id, FEW_JOBS)
    jobs = {trial.number: job_by_inner(tx, trial.job, lock=True) for trial in live}
    times = held(tx, [job.id for job in jobs.values()], tx.now_ms)
    marks = latest_marks(tx, [job.run_uuid for job in jobs.values()], row.asks.metric)
    for trial in live:
        job = jobs[trial.number]
        step, _, value = marks.get(job.run_uuid, (None, 0, None))
        records.change_trial(
            tx,
            row.id,
            trial.number,
            state=records.ENDED,
            sentence=sentence,
            step=step,
            value=value,
            gpu_seconds=times.get(job.id, JobHolding()).gpu_seconds,
            ended_ms=tx.now_ms,
        )
        if not JobState(job.state).is_final:
            ask_stop(
                tx,
                job,
                reason=ExitCause.STOPPED,
                grace_seconds=row.asks.grace_seconds,
                actor=actor,
                sentence=f"Stopped with sweep {row.sweep_id}",
            )
    if live:
        records.change_sweep(tx, row.id)
    return len(live) == FEW_JOBS
