"""The loop that runs sweeps on the server that leads: load, decide, apply.

Owns when a sweep is looked at, and that each decision is applied once: the proof of leading and
the check of the sweep's state are in the same transaction as the change. Everything it needs is in
the database, so it goes on wherever a former process ended. What to do is `decisions`'.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trackyard.access.sealing import Seal
from trackyard.artifacts.service import Artifacts
from trackyard.control.leader import Superseded
from trackyard.control.loop import SchedulingLoop
from trackyard.core.errors import Conflict, YardError
from trackyard.core.events import Event
from trackyard.core.job import JobState
from trackyard.core.ports import ExitCause
from trackyard.queue.records import FEW_JOBS, JobRow, job_by_inner, load_jobs
from trackyard.queue.shares.held import held
from trackyard.queue.specification import JobRequest, JobSpec
from trackyard.queue.transitions import ask_stop
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.sweeps import records
from trackyard.sweeps.decisions import (
    LiveTrial,
    SweepSnapshot,
    SweepStep,
    TrialChange,
    best_of,
    decide,
    history,
)
from trackyard.sweeps.handover import hand_over
from trackyard.sweeps.leftovers import ended_with_live, stop_all
from trackyard.sweeps.population import explore
from trackyard.sweeps.records import SweepRow, TrialRow, load_sweeps, load_trials
from trackyard.sweeps.samplers import Proposal, propose
from trackyard.sweeps.starting import NewTrial, begin, log_params
from trackyard.sweeps.stopping import bracket_for
from trackyard.sweeps.wishes import OWN_SAMPLERS
from trackyard.tracking.metrics.curves import curve, latest_marks, metric_names
from trackyard.tracking.service import Tracking

log = logging.getLogger(__name__)

#: Polling interval while a sweep runs; while none does (SQLite); and while none does but another
#: server may create one (PostgreSQL).
LOOK_SECONDS, IDLE_SECONDS, POLL_SECONDS = 1.0, 60.0, 3.0
#: Minimum interval between two passes, however often the loop is woken.
LEAST_SECONDS = 0.1
#: Delay before retrying a trial that the queue refused.
REFUSED_SECONDS = 5.0
_MOVES = frozenset(("job.succeeded", "job.failed", "job.stopped", "job.requeued"))


#: A new trial and the job it submits.
_Copy = tuple[NewTrial, tuple[JobRequest, JobSpec]]


@dataclass(slots=True)
class _Memory:
    """Cache of one sweep: its trials as of a version, curves by run."""

    version: int = -1
    trials: list[TrialRow] = field(default_factory=list)
    curves: dict[str, tuple[Any, list[tuple[int, float]]]] = field(default_factory=dict)
    #: no trial is started before this moment
    refused_until: float = 0.0


@dataclass(frozen=True, slots=True)
class _Loaded:
    sweep: SweepRow
    trials: list[TrialRow]
    jobs: dict[int, JobRow]
    look: SweepSnapshot


class Controller:
    """Runs every sweep in the database while this server is the leader."""

    def __init__(
        self,
        database: Database,
        scheduler: SchedulingLoop,
        tracking: Tracking,
        artifacts: Artifacts,
        *,
        seal: Seal | None = None,
    ) -> None:
        self._db = database
        self._clock = database.clock
        self._scheduler = scheduler
        self._tracking = tracking
        self._artifacts = artifacts
        self._seal = seal
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._memory: dict[int, _Memory] = {}
        self._has_sweeps = True
        #: copies of checkpoints under way, by sweep
        self._copying: dict[int, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start the loop."""
        self._db.listen(self._heard)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="yard-sweeps")

    async def stop(self) -> None:
        """Stop the loop; trials keep running and the next start picks them up."""
        tasks = [task for task in (self._task, *self._copying.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Run a pass soon: something has changed."""
        self._has_sweeps = True
        self._wake.set()

    def _heard(self, events: list[tuple[int, int, Event]]) -> None:
        if self._has_sweeps and any(event.kind in _MOVES for _, _, event in events):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                await self.tick()
            except YardError as fault:
                log.warning("sweeps wait: %s", fault.message)
            except Exception:
                log.exception("a pass over the sweeps failed and will be retried")
            idle = IDLE_SECONDS if self._db.is_sqlite else POLL_SECONDS
            wait = LOOK_SECONDS if self._has_sweeps else idle
            await asyncio.sleep(LEAST_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def tick(self) -> None:
        """Process every running sweep once."""
        self._wake.clear()
        if not self._scheduler.is_leader:
            return
        sweeps = await self._db.read(
            lambda reader: load_sweeps(reader, "state = ? ORDER BY id", (records.RUNNING,))
        )
        self._has_sweeps = bool(sweeps)
        for gone in set(self._memory) - {sweep.id for sweep in sweeps}:
            del self._memory[gone]
        await self._stop_leftovers()
        for sweep in sweeps:
            try:
                await self._attend(sweep)
            except Superseded:
                return
            except Conflict:
                continue
            except Exception:
                # A sweep that fails must not hold up the others.
                log.exception("sweep %s failed in this pass and will be retried", sweep.sweep_id)

    async def _stop_leftovers(self) -> None:
        """Stop trials of ended sweeps, including those left by a server that died midway."""
        for sweep in await self._db.read(ended_with_live):
            await stop_all(self._db, sweep, actor=records.SYSTEM, sentence="The sweep has ended.")
            self._scheduler.wake()

    async def _attend(self, sweep: SweepRow) -> None:
        memory = self._memory.setdefault(sweep.id, _Memory())
        loaded = await self._db.read(partial(self._load, sweep=sweep, memory=memory))
        plan = decide(loaded.look)
        if plan.changes or plan.end:
            copies = await self._copies(loaded, plan)
            apply = partial(self._apply, loaded=loaded, plan=plan, copies=copies)
            await self._db.write(apply, is_long=True)
            self._scheduler.wake()
        if plan.end:
            await self._stop_leftovers()
            return
        self._hand_over(sweep)
        if self._clock.monotonic() >= memory.refused_until:
            await self._begin_new(sweep, plan.begin, memory)

    # -- load -------------------------------------------------------------------------------

    def _load(self, reader: ReadConnection, sweep: SweepRow, memory: _Memory) -> _Loaded:
        now_ms = self._clock.time_ms()
        if memory.version != sweep.version:
            memory.trials, memory.version = load_trials(reader, sweep.id), sweep.version
        spec = sweep.asks
        live = [row for row in memory.trials if row.state == records.LIVE]
        jobs = {job.id: job for job in _jobs(reader, [row.job for row in live])}
        marks = latest_marks(reader, [job.run_uuid for job in jobs.values()], spec.metric)
        times = held(reader, list(jobs), now_ms)
        curves = memory.curves
        memory.curves = {}
        found = []
        for row in live:
            job = jobs[row.job]
            mark = marks.get(job.run_uuid)
            known = curves.get(job.run_uuid)
            if mark is not None and (known is None or known[0] != mark):
                known = (mark, curve(reader, job.run_uuid, spec.metric))
            if known is not None:
                memory.curves[job.run_uuid] = known
            is_lacking = known is None and JobState(job.state).is_final
            found.append(
                LiveTrial(
                    row=row,
                    job_state=job.state,
                    job_sentence=job.sentence or "",
                    curve=known[1] if known else (),
                    logged=metric_names(reader, job.run_uuid) if is_lacking else (),
                    gpu_seconds=times[row.job].gpu_seconds if row.job in times else 0.0,
                )
            )
        look = SweepSnapshot(
            spec=spec,
            ended=[row for row in memory.trials if row.state != records.LIVE],
            live=found,
            elapsed_seconds=sweep.elapsed_ms(now_ms) / 1000,
        )
        return _Loaded(sweep, memory.trials, jobs, look)

    # -- apply ------------------------------------------------------------------------------

    def _prove(self, tx: Tx, sweep: SweepRow) -> SweepRow:
        """Refuse to change a sweep that has changed since it was loaded."""
        self._scheduler.leadership.prove(tx)
        found = records.lock_sweep(tx, sweep.id)
        if found.version != sweep.version or found.state != records.RUNNING:
            raise Conflict("the sweep was changed meanwhile")
        return found

    def _apply(self, tx: Tx, loaded: _Loaded, plan: SweepStep, copies: Sequence[_Copy]) -> None:
        sweep = self._prove(tx, loaded.sweep)
        spec = loaded.look.spec
        before = best_of(spec, loaded.trials)
        rows = {row.number: row for row in loaded.trials}
        changes = plan.changes
        if plan.end and len(changes) > FEW_JOBS:
            # The remaining jobs are stopped in batches right after this.
            changes = [change for change in changes if not change.stops]
        for change in changes:
            rows[change.number] = self._change(tx, sweep, loaded, change, rows[change.number])
        best = best_of(spec, list(rows.values()))
        facts: dict[str, Any] = {} if best is None else {"trial": best.number, "value": best.value}
        if best is not None and (before is None or best.number != before.number):
            records.sweep_event(
                tx, "sweep.improved", sweep, metric=spec.metric, params=best.point, **facts
            )
        if plan.end:
            records.end_sweep(tx, sweep, plan.end, plan.sentence, actor=records.SYSTEM, **facts)
        else:
            records.change_sweep(tx, sweep.id)
        for new, ready in copies:
            # In the same transaction as the stop of the trial it replaces: a crash loses neither.
            begin(tx, self._tracking.names, sweep, new, ready)

    def _change(
        self, tx: Tx, sweep: SweepRow, loaded: _Loaded, change: TrialChange, row: TrialRow
    ) -> TrialRow:
        columns: dict[str, Any] = {}
        if change.rungs is not None:
            columns["rungs"] = records.encode({str(at): v for at, v in change.rungs.items()})
        if change.state is not None:
            value = change.value
            columns |= {
                "state": change.state,
                "value": None if value is None or math.isnan(value) else value,
                "step": change.step,
                "sentence": change.sentence,
                "curve": records.encode(change.curve),
                "gpu_seconds": change.gpu_seconds,
                "ended_ms": tx.now_ms,
            }
            log_params(tx, self._tracking.names, sweep, loaded.jobs[row.job].run_uuid, row.point)
        records.change_trial(tx, sweep.id, change.number, **columns)
        if change.stops:
            self._stop(tx, sweep, change, row.job)
        return row._replace(**columns)

    def _stop(self, tx: Tx, sweep: SweepRow, change: TrialChange, job: int) -> None:
        row = job_by_inner(tx, job, lock=True)
        if JobState(row.state).is_final:
            return
        ask_stop(
            tx,
            row,
            reason=ExitCause.STOPPED,
            grace_seconds=sweep.asks.grace_seconds,
            actor=records.SYSTEM,
            sentence=f"Stopped by sweep {sweep.sweep_id}: {change.sentence}",
        )
        records.sweep_event(
            tx,
            "sweep.trial_stopped",
            sweep,
            trial=change.number,
            job_id=row.job_id,
            run_id=row.run_uuid,
            sentence=change.sentence,
        )

    # -- begin ------------------------------------------------------------------------------

    async def _begin_new(self, sweep: SweepRow, count: int, memory: _Memory) -> None:
        spec = sweep.asks
        for _ in range(count):
            sweep, trials = await self._db.read(partial(_fresh, inner=sweep.id))
            if sweep.state != records.RUNNING:
                return
            number = len(trials)
            loop = asyncio.get_running_loop()
            found: Proposal | None = await loop.run_in_executor(
                None, partial(_proposed, sweep, trials, number)
            )
            if found is None:
                return
            new = NewTrial(
                number=number,
                point=found.point,
                attributes=found.attributes,
                bracket=bracket_for(spec.stop, number),
            )
            if not await self._begin(sweep, new):
                memory.refused_until = self._clock.monotonic() + REFUSED_SECONDS
                return

    async def _copies(self, loaded: _Loaded, plan: SweepStep) -> list[_Copy]:
        """Prepare trials that begin with another one's checkpoint, in place of one that is
        stopped; they are held until they have it.
        """
        parents = [
            c.replaced_by_copy_of for c in plan.changes if c.replaced_by_copy_of is not None
        ]
        spec, loop, found = loaded.look.spec, asyncio.get_running_loop(), []
        for number, parent in enumerate(parents, start=len(loaded.trials)):
            seed = f"{spec.seed}:{number}"
            point = explore(spec.stop, spec.parsed(), loaded.trials[parent].point, seed)
            new = NewTrial(number=number, point=point, attributes={}, bracket=0, parent=parent)
            ready = await loop.run_in_executor(None, new.prepare, loaded.sweep, self._seal)
            found.append((new, ready))
        return found

    async def _begin(self, sweep: SweepRow, new: NewTrial) -> bool:
        """Queue a trial; a refusal is shown on the sweep and retried later."""
        loop = asyncio.get_running_loop()
        try:
            ready = await loop.run_in_executor(None, partial(new.prepare, sweep, self._seal))
            await self._db.write(
                lambda tx: begin(tx, self._tracking.names, self._prove(tx, sweep), new, ready)
            )
        except Conflict:
            raise
        except YardError as fault:
            words = f"No trial can begin: {fault.message}"
            if sweep.sentence != words:
                await self._db.write(lambda tx: records.change_sweep(tx, sweep.id, sentence=words))
            return False
        self._scheduler.wake()
        return True

    def _hand_over(self, sweep: SweepRow) -> None:
        """Copy checkpoints to trials that wait for one, in the background."""
        if sweep.asks.stop.method != "pbt" or sweep.id in self._copying:
            return
        task = asyncio.get_running_loop().create_task(self._hand_over_all(sweep.id))
        self._copying[sweep.id] = task
        task.add_done_callback(lambda _: self._copying.pop(sweep.id, None))

    async def _hand_over_all(self, inner: int) -> None:
        try:
            _, trials = await self._db.read(partial(_fresh, inner=inner))
            waiting = [r for r in trials if r.parent is not None and r.state == records.LIVE]
            if waiting and await hand_over(self._db, self._artifacts, waiting, trials):
                self._scheduler.wake()
        except YardError as fault:
            log.warning("copying checkpoints of a sweep will be retried: %s", fault.message)


def _jobs(reader: ReadConnection, inner: Sequence[int]) -> list[JobRow]:
    found: list[JobRow] = []
    for at in range(0, len(inner), 500):
        part = inner[at : at + 500]
        found += load_jobs(reader, f"id IN ({','.join('?' * len(part))})", part)
    return found


def _fresh(reader: ReadConnection, inner: int) -> tuple[SweepRow, list[TrialRow]]:
    return load_sweeps(reader, "id = ?", (inner,))[0], load_trials(reader, inner)


def _proposed(sweep: SweepRow, trials: Sequence[TrialRow], number: int) -> Proposal | None:
    spec = sweep.asks
    past = [] if spec.sampler in OWN_SAMPLERS else history(spec, trials)
    return propose(spec.sampler, spec.parsed(), past, seed=spec.seed, number=number)
