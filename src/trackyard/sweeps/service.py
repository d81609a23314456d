"""Sweeps as the server uses them: create, show, stop, extend, search around the best, train it.

Owns who may do what to whose sweep. Trials are begun and ended by the controller alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.access.sealing import Seal
from trackyard.control.service import Jobs
from trackyard.core.errors import Denied, InvalidInput
from trackyard.core.ids import new_name, new_sweep_id
from trackyard.queue.records import job_by_inner
from trackyard.queue.specification import JobRequest, check
from trackyard.queue.submit.submission import acting_for, prepare
from trackyard.queue.views import JobView
from trackyard.store.bounds import Free, Int64, Word
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.sweeps import records
from trackyard.sweeps.decisions import best_of
from trackyard.sweeps.leftovers import stop_all
from trackyard.sweeps.records import SweepRow, TrialRow, find_sweep, load_trials
from trackyard.sweeps.samplers import check_installed, has_optuna, propose
from trackyard.sweeps.space import Point
from trackyard.sweeps.starting import open_wish, seal_wish
from trackyard.sweeps.views import SweepDetail, SweepList, SweepView, load_detail, load_list
from trackyard.sweeps.wishes import (
    MAX_TRIALS,
    SweepBudget,
    SweepRequest,
    SweepSpec,
    applied,
    check_sweep,
)

#: Points that a dry run shows.
PREVIEWED = 3
#: Tag on the run of a full training: the sweep and the trial whose values it has.
TRAINED_TAG = "sweep.trial"
#: How many of the best trials a search around them considers by default.
AROUND = 5


class SearchAround(msgspec.Struct, forbid_unknown_fields=True):
    """A search around the best trials of a sweep."""

    #: how many of the best trials; the span of their values is searched, and an eighth of the
    #: range on each side of it
    top: Int64 = AROUND
    budget: SweepBudget = msgspec.field(default_factory=SweepBudget)
    name: Word = ""


class TrainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A full training with the values of a trial."""

    #: null for the best
    trial: Int64 | None = None
    #: values to add or change, as in {"epochs": 100}
    values: Free = {}
    name: Word = ""


class Created(msgspec.Struct):
    """A sweep that was created, or with dry_run a preview of its first trials."""

    sweep: SweepView | None
    #: the command lines of the first trials, as far as they are known before any has run
    preview: list[list[str]]
    sampler: str
    trials: int | None


class Sweeps:
    """The sweeps of every team."""

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        *,
        seal: Seal | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._db = database
        self._jobs = jobs
        self._seal = seal
        #: told when a sweep may have something to do
        self._on_change = on_change

    # -- show -------------------------------------------------------------------------------

    async def listing(self, principal: Principal, limit: int) -> SweepList:
        """List the team's sweeps, the newest first."""
        return await self._db.read(lambda reader: load_list(reader, principal, limit=limit))

    async def detail(self, principal: Principal, text: str) -> SweepDetail:
        """Show one sweep with its trials."""
        now_ms = self._db.clock.time_ms()
        return await self._db.read(
            lambda reader: load_detail(reader, find_sweep(reader, principal, text), now_ms)
        )

    # -- create -----------------------------------------------------------------------------

    async def create(
        self, principal: Principal, wish: SweepRequest, *, origin: str = ""
    ) -> Created:
        """Validate a sweep and start it."""
        loop = asyncio.get_running_loop()
        spec = await loop.run_in_executor(None, partial(_checked, wish))
        caller = await self._db.peek(lambda reader: acting_for(reader, principal, wish.job.team))
        spec = msgspec.structs.replace(spec, role=caller.role.name)
        job = msgspec.structs.replace(wish.job, team="", key="", dry_run=False)
        preview = await loop.run_in_executor(None, _preview, spec, job)
        first = check(preview[0])
        now_ms = self._db.clock.time_ms()
        await self._db.read(lambda r: prepare(r, caller, preview[0], first, now_ms=now_ms))
        shown = [one.command for one in preview]
        if wish.dry_run:
            return Created(None, shown, spec.sampler, spec.trials)
        stored, text = await loop.run_in_executor(None, seal_wish, job, self._seal, caller.team_id)
        sweep_id, name = (
            new_sweep_id(wish.key and f"{caller.team_id}:{caller.user_id}:{wish.key}"),
            wish.name or job.name or new_name(),
        )

        def change(tx: Tx) -> None:
            if records.load_sweeps(tx, "sweep_id = ?", (sweep_id,)):
                return
            records.insert(
                tx,
                "sweeps",
                sweep_id=sweep_id,
                array_id=f"j{sweep_id[1:]}",
                team_id=caller.team_id,
                user_id=caller.user_id,
                user_name=caller.name,
                name=name,
                state=records.RUNNING,
                spec=records.encode(spec),
                job=stored,
                sealed=text,
                origin=origin,
                sentence="",
                created_ms=tx.now_ms,
                spent_ms=0,
                resumed_ms=tx.now_ms,
                version=1,
            )
            row = records.load_sweeps(tx, "sweep_id = ?", (sweep_id,))[0]
            records.sweep_event(
                tx,
                "sweep.created",
                row,
                actor=caller.name,
                metric=spec.metric,
                sampler=spec.sampler,
                trials=spec.trials,
            )

        await self._db.write(change)
        self._on_change()
        made = await self.detail(caller, sweep_id)
        return Created(made.sweep, shown, spec.sampler, spec.trials)

    # -- act --------------------------------------------------------------------------------

    async def stop(self, principal: Principal, text: str) -> SweepView:
        """Stop a sweep and its running trials; their results are kept."""
        sentence = f"{principal.name} stopped it."

        def change(tx: Tx) -> None:
            row = records.lock_sweep(tx, _own(tx, principal, text, "stop").id)
            if row.state != records.RUNNING:
                return
            records.end_sweep(tx, row, records.STOPPED, sentence, actor=principal.name)

        await self._db.write(change)
        row = await self._db.read(lambda reader: find_sweep(reader, principal, text))
        await stop_all(self._db, row, actor=principal.name, sentence=sentence)
        self._jobs.scheduler.wake()
        return (await self.detail(principal, text)).sweep

    async def extend(self, principal: Principal, text: str, more: SweepBudget) -> SweepView:
        """Give a sweep a larger budget; an ended sweep resumes."""

        def change(tx: Tx) -> None:
            row = records.lock_sweep(tx, _own(tx, principal, text, "extend").id)
            trials = load_trials(tx, row.id)
            spec = _extended(row.asks, more, len(trials))
            columns: dict[str, Any] = {"spec": records.encode(spec)}
            if row.state != records.RUNNING:
                columns |= {
                    "state": records.RUNNING,
                    "resumed_ms": tx.now_ms,
                    "ended_ms": None,
                    "sentence": "",
                }
            records.change_sweep(tx, row.id, **columns)
            records.sweep_event(
                tx, "sweep.extended", row, actor=principal.name, trials=spec.trials
            )

        await self._db.write(change, is_long=True)
        self._on_change()
        return (await self.detail(principal, text)).sweep

    async def around(self, principal: Principal, text: str, wish: SearchAround) -> Created:
        """Start a sweep in the part of the space where another sweep's best trials lie."""
        if not 1 <= wish.top <= 1000:
            raise InvalidInput("top must be between 1 and 1000")

        def load(reader: ReadConnection) -> tuple[SweepRow, list[TrialRow]]:
            row = find_sweep(reader, principal, text)
            return row, load_trials(reader, row.id)

        row, trials = await self._db.read(load)
        spec = row.asks
        told = sorted(
            (one for one in trials if one.value is not None and one.state != records.LIVE),
            key=lambda one: (one.state != records.COMPLETE, spec.sign * (one.value or 0.0)),
        )
        if not told:
            raise InvalidInput(f"sweep {row.sweep_id} has no trial with a result yet")
        space = spec.parsed().around([one.point for one in told[: wish.top]])
        loop = asyncio.get_running_loop()
        job = await loop.run_in_executor(None, open_wish, row, self._seal)
        budget = wish.budget
        if budget == SweepBudget():
            budget = SweepBudget(spec.trials or len(trials), spec.gpu_hours, spec.seconds)
        again = SweepRequest(
            metric=spec.metric,
            space=space.document(),
            job=job,
            name=wish.name or f"{row.name}-around",
            goal=spec.goal,
            sampler="" if spec.sampler == "grid" else spec.sampler,
            seed=spec.seed + 1,
            stop={} if spec.stop.method == "none" else msgspec.to_builtins(spec.stop),
            budget=budget,
            slots=spec.slots,
            values_as=spec.values_as,
            value=spec.value,
            max_failed=spec.max_failed,
            grace_seconds=spec.grace_seconds,
        )
        return await self.create(principal, again, origin=row.sweep_id)

    async def train(self, principal: Principal, text: str, wish: TrainRequest) -> JobView:
        """Submit a job with the values of the best trial and no early stopping."""
        row, trial = await self._chosen(principal, text, wish.trial)
        loop = asyncio.get_running_loop()
        job = await loop.run_in_executor(None, open_wish, row, self._seal)
        spec = row.asks
        point = trial.point
        more = _values(wish.values)
        ready = applied(job, spec, {**point, **{k: v for k, v in more.items() if k in point}})
        new = {name: value for name, value in more.items() if name not in point}
        ready = applied(ready, spec, new) if new else ready
        tags = {**ready.tags, TRAINED_TAG: f"{row.sweep_id}/{trial.number}"}
        name = wish.name or f"{row.name}-full"
        ready = msgspec.structs.replace(ready, name=name, tags=tags, array="", hold=False)
        return (await self._jobs.submit(principal, ready)).jobs[0]

    async def chosen_run(
        self, principal: Principal, text: str, trial: int | None
    ) -> tuple[str, int, str]:
        """Return sweep, trial and run of a trial: the best one unless another is named."""
        row, found = await self._chosen(principal, text, trial)
        job = await self._db.read(lambda reader: job_by_inner(reader, found.job))
        return row.sweep_id, found.number, job.run_uuid

    async def _chosen(
        self, principal: Principal, text: str, number: int | None
    ) -> tuple[SweepRow, TrialRow]:
        def load(reader: ReadConnection) -> tuple[SweepRow, TrialRow]:
            row = find_sweep(reader, principal, text)
            trials = load_trials(reader, row.id)
            if number is None:
                best = best_of(row.asks, trials)
                if best is None:
                    raise InvalidInput(
                        f"sweep {row.sweep_id} has no trial with a result yet: wait for one, or"
                        " name a trial"
                    )
                return row, best
            if not 0 <= number < len(trials):
                raise InvalidInput(
                    f"sweep {row.sweep_id} has no trial {number}: they count from 0 to"
                    f" {len(trials) - 1}"
                )
            return row, trials[number]

        return await self._db.read(load)


def _checked(wish: SweepRequest) -> SweepSpec:
    spec = check_sweep(wish, has_optuna=has_optuna())
    check_installed(spec.sampler)
    return spec


def _preview(spec: SweepSpec, job: JobRequest) -> list[JobRequest]:
    """Return the first submissions; a model begins at random, so these points are examples."""
    space = spec.parsed()
    sampler = spec.sampler if spec.sampler == "grid" else "random"
    points: list[Point] = []
    for number in range(PREVIEWED):
        found = propose(sampler, space, [], seed=spec.seed, number=number)
        if found is not None:
            points.append(found.point)
    return [applied(job, spec, point) for point in points]


def _values(told: Mapping[str, Any]) -> Point:
    for name, value in told.items():
        if not isinstance(value, str | int | float | bool):
            raise InvalidInput(f"values: {name[:80]} is text, a number, true or false")
    return dict(told)


def _own(tx: Tx, principal: Principal, text: str, verb: str) -> SweepRow:
    row = find_sweep(tx, principal, text)
    if row.user_id != principal.user_id and not principal.may(Role.maintainer):
        raise Denied(
            f"sweep {row.sweep_id} is {row.user_name}'s: to {verb} it needs the role maintainer"
            f" in team {principal.team}"
        )
    return row


def _extended(spec: SweepSpec, more: SweepBudget, done: int) -> SweepSpec:
    if more == SweepBudget():
        raise InvalidInput("say how much more: trials, gpu_hours or time")
    for name, value in (("gpu_hours", more.gpu_hours), ("time", more.seconds)):
        if value is not None and not 0 < value < 1e9:
            raise InvalidInput(f"{name} must be above 0")
    if spec.stop.method == "pbt":
        raise InvalidInput(
            "a population is made once: search around its best with `yard sweeps around`"
        )
    trials = spec.trials
    if more.trials is not None:
        if not 1 <= more.trials <= MAX_TRIALS:
            raise InvalidInput(f"trials must lie between 1 and {MAX_TRIALS}")
        trials = max(done, trials or done) + more.trials
    if spec.sampler == "grid" and trials is not None:
        points = len(spec.parsed().grid())
        if done >= points:
            raise InvalidInput(
                f"its grid has {points} points and all were tried: use `yard sweeps around`"
            )
        trials = min(trials, points)
    return msgspec.structs.replace(
        spec,
        trials=trials,
        gpu_hours=_sum(spec.gpu_hours, more.gpu_hours),
        seconds=_sum(spec.seconds, more.seconds),
    )


def _sum(before: float | None, more: float | None) -> float | None:
    return before if more is None else (before or 0.0) + more
