"""Jobs as the server uses them: one object that submits, shows, stops and listens to runners.

Owns the composition of the parts; each does its own work. Every change is one transaction, and
wakes the scheduler after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from trackyard.access.principal import Principal
from trackyard.access.sealing import Seal
from trackyard.control.followers import Followers
from trackyard.control.forecast.client import ForecastClient
from trackyard.control.forecast.forecasts import Forecaster
from trackyard.control.forecast.preview import FEW_WAITING, JobPreview, agreeing, brief
from trackyard.control.late_demand import DemandService
from trackyard.control.listing import JobLists, ListQuery, reasons_of, told
from trackyard.control.loop import LastPass, SchedulingLoop
from trackyard.control.undeclared_use import UndeclaredUseRule, UndeclaredUseWatch
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.health import read_checks
from trackyard.core.job import AttemptState, JobState
from trackyard.core.ports import ExitCause, ExitRecord
from trackyard.fleet.evidence import EvidenceReporter
from trackyard.queue.actions import act
from trackyard.queue.attempts import heartbeats, hints, logs
from trackyard.queue.attempts.exits import take_exit
from trackyard.queue.attempts.node_samples import NodeSamples
from trackyard.queue.attempts.trials import load_trials
from trackyard.queue.records import (
    AttemptRow,
    JobRow,
    attempt_of,
    find_job,
    job_by_inner,
    load_attempts,
    load_spec,
)
from trackyard.queue.requeue import Requeue, requeue
from trackyard.queue.specification import JobRequest, JobSpec, check
from trackyard.queue.submit.arrays import ArrayWriter
from trackyard.queue.submit.packages import Packages
from trackyard.queue.submit.submission import (
    MAX_SHOWN,
    SubmissionExtras,
    acting_for,
    is_long,
    prepare,
    siblings,
    submit,
    was_submitted,
)
from trackyard.queue.submit.variables import sealed
from trackyard.queue.transitions import ask_stop, hold, release
from trackyard.queue.views import (
    EtaView,
    JobDetail,
    JobList,
    JobView,
    SmallerRequestView,
    job_view,
    load_attempt_views,
    load_checkpoints,
    load_claims,
    load_facts,
    load_waited_ms,
    reason_view,
    spec_view,
)
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.tracking.service import Tracking

T = TypeVar("T")
#: Seconds between looks for new log lines that another server took.
FOLLOW_SECONDS = 0.5
#: Longest that the end of a server waits for clients that were just told of it.
PARTING_SECONDS = 3.0
#: How long after an attempt's end the rest of its log is waited for by who reads it.
REST_SECONDS = 10.0
#: How long an answer waits for the engine's nodes after the first start.
FIRST_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a submission made, and the answer given with it."""

    jobs: list[JobView]
    answer: JobPreview
    #: whether the same key had submitted it before
    repeated: bool = False


class Jobs:
    """The jobs half of the platform."""

    def __init__(
        self,
        database: Database,
        tracking: Tracking,
        packages: Packages,
        scheduler: SchedulingLoop,
        undeclared: UndeclaredUseRule | None = None,
        *,
        desk: ForecastClient | None = None,
        seal: Seal | None = None,
    ) -> None:
        self._db = database
        #: seals the values of variables; none: they are stored as they are
        self._seal = seal
        self._ahead = Forecaster(desk)
        self._tracking = tracking
        self.packages = packages
        self.scheduler = scheduler
        self.demands = DemandService(database, scheduler)
        self.watch = UndeclaredUseWatch(
            database, scheduler.dispatcher, scheduler.wake, undeclared or UndeclaredUseRule()
        )
        self._arrivals = ArrayWriter(database, tracking.names)
        scheduler.keep_watch = self._keep_watch
        self._lists = JobLists(database, self._ahead)
        self._memory = heartbeats.HeartbeatMemory()
        self.machines = NodeSamples()
        self._followers: dict[int, set[asyncio.Event]] = {}
        self._is_started = self._is_stopping = False
        self.followers = Followers()
        #: running ahead takes the interpreter, so only one does at a time
        self._answering = asyncio.Lock()
        self._foreseen: tuple[LastPass | None, dict[tuple[str, str], Any]] = (None, {})

    async def _keep_watch(self) -> None:
        """Go on with arrays that a process left behind, and look at what jobs hold."""
        await self._arrivals.take_over()
        await self.watch.look()

    def start(self) -> None:
        """Begin to schedule."""
        self._is_started = True
        self.scheduler.start()

    async def stop(self) -> None:
        """Stop scheduling; jobs run on."""
        self._is_stopping = True
        for waiting in self._followers.values():
            for event in waiting:
                event.set()
        await self._ahead.close()
        await self._lists.foresight.close()
        await self.scheduler.stop()

    async def part(self) -> None:
        """Let clients whose stream just ended ask once more how their job stands."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARTING_SECONDS):
                await self.followers.gone()

    @property
    def is_stopping(self) -> bool:
        """Whether this server is about to end, and with it what streams from it."""
        return self._is_stopping

    # -- submit -----------------------------------------------------------------------------

    async def submit(
        self, principal: Principal, wish: JobRequest, addition: SubmissionExtras | None = None
    ) -> Submitted:
        """Check a wish, answer it, and unless it is a dry run put it into its queue."""
        spec = check(wish)
        if addition is not None:
            spec = addition.spec(spec)
        caller = await self._db.peek(lambda reader: acting_for(reader, principal, wish.team))
        spec = await self._sealed(spec, caller.team_id)
        await self._arrivals.complete(*(one.job for one in wish.after))
        known = await self._db.peek(lambda reader: was_submitted(reader, caller, wish.key))
        if not known:
            now_ms = self._db.clock.time_ms()
            look = self._db.read if wish.after else self._db.peek
            ready = await look(lambda reader: prepare(reader, caller, wish, spec, now_ms=now_ms))
            found = await self._answer(caller, wish, ready)
            if wish.dry_run:
                return Submitted(jobs=[], answer=found)
        else:
            found = JobPreview(feasible=True, sentence="It was submitted before under this key.")

        def change(tx: Tx) -> list[JobRow]:
            made = submit(tx, self._tracking.names, caller, wish, spec)
            if addition is not None:
                addition.record(tx, caller, made[0])
            return made

        jobs = await self._db.write(change, is_long=known or is_long(wish))
        if wish.array:
            await self._arrivals.complete(jobs[0].array_id)
            jobs = await self._db.read(lambda reader: siblings(reader, jobs[0]))
        self.scheduler.wake()
        shown = await self._db.read(lambda reader: self._shown(reader, jobs[:MAX_SHOWN]))
        return Submitted(jobs=shown, answer=found, repeated=known)

    async def _sealed(self, spec: JobSpec, team_id: int) -> JobSpec:
        """Return a spec whose values nobody reads in the database."""
        if self._seal is None or not (spec.env or spec.ray):
            return spec
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, sealed, self._seal, spec, team_id)

    async def _answer(self, caller: Principal, wish: JobRequest, spec: JobSpec) -> JobPreview:
        """Answer a wish; running ahead of a long queue is left to those who ask for it."""
        looked = await self.scheduler.view()
        if not looked.loaded.snapshot.nodes and self._is_started:
            # The very first start: the engine is about to tell its nodes.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LOOK_SECONDS):
                    await self.scheduler.has_looked.wait()
            looked = await self.scheduler.view()
        waiting = len(looked.loaded.snapshot.waiting)
        if not wish.dry_run and (waiting > FEW_WAITING or self._answering.locked()):
            return brief(looked.loaded.snapshot)
        async with self._answering:
            return await self._ahead.wished(looked, caller, wish, spec)

    # -- show -------------------------------------------------------------------------------

    async def listing(self, wish: ListQuery) -> JobList:
        """List jobs; who may see those of which team is the caller's to check."""
        return await self._lists.show(wish, await self.scheduler.view())

    async def detail(self, principal: Principal, text: str) -> JobDetail:
        """Show one job with its attempts, reasons and forecast."""
        looked = await self.scheduler.view()
        now_ms = self._db.clock.time_ms()

        def load(reader: ReadConnection) -> tuple[JobRow, JobDetail]:
            row = find_job(reader, principal, text)
            facts = load_facts(reader, [row])
            spec = facts.specs[row.spec_id].spec
            attempts = load_attempt_views(reader, row, now_ms)
            claims = load_claims(reader, row, now_ms)
            reasons = [] if row.state != JobState.QUEUED else reasons_of(row.job_id, looked)
            detail = JobDetail(
                job=told(job_view(row, facts), looked),
                spec=spec_view(spec),
                attempts=attempts,
                checkpoints=load_checkpoints(reader, row),
                reasons=[reason_view(one) for one in reasons],
                eta=None,
                position=looked.positions.get(row.job_id),
                waiting=len(looked.positions),
                waited_ms=load_waited_ms(reader, row, attempts, now_ms),
                wall_ms=(row.ended_ms or now_ms) - row.started_ms if row.started_ms else 0,
                gpu_seconds=round(
                    sum(one.gpu_seconds for one in attempts)
                    + sum(one.gpu_seconds for one in claims),
                    3,
                ),
                claims=claims,
                hint=hints.given(attempts[-1].notes) if attempts else None,
                trials=load_trials(reader, row),
                waits_for=[one.job for one in spec.after],
                version=row.version,
            )
            return row, detail

        row, detail = await self._db.read(load)
        if row.state == JobState.QUEUED:
            detail.eta = await self.eta(row.job_id)
            expected = detail.eta.start_ms if detail.eta else None
            if expected is not None:
                reasons = agreeing(reasons_of(row.job_id, looked), expected / 1000)
                detail.reasons = [reason_view(one) for one in reasons]
        else:
            detail.position = None
        return detail

    async def eta(self, job_id: str) -> EtaView | None:
        """Foresee when a waiting job starts; told once per pass."""
        looked = await self.scheduler.view()
        if job_id not in looked.loaded.waiting:
            return None
        return await self._once(self._ahead.start, looked, job_id)

    async def smaller(self, job_id: str) -> list[SmallerRequestView]:
        """Say which lesser requests of a waiting job would start now; told once per pass."""
        looked = await self.scheduler.view()
        if job_id not in looked.loaded.waiting:
            return []
        return await self._once(self._ahead.lesser, looked, job_id)

    async def _once(
        self, think: Callable[[LastPass, str], Awaitable[T]], looked: LastPass, job_id: str
    ) -> T:
        """Run ahead for a job, once per look."""
        async with self._answering:
            if self._foreseen[0] is not looked:
                self._foreseen = (looked, {})
            known = self._foreseen[1]
            key = (think.__name__, job_id)
            if key not in known:
                known[key] = await think(looked, job_id)
            found: T = known[key]
            return found

    def _shown(self, reader: ReadConnection, jobs: Sequence[JobRow]) -> list[JobView]:
        facts = load_facts(reader, jobs)
        return [job_view(job, facts) for job in jobs]

    async def view_of(self, rows: Sequence[JobRow]) -> list[JobView]:
        """Show rows as they stand now."""
        ids = [row.id for row in rows]
        return await self._db.read(
            lambda reader: self._shown(reader, [job_by_inner(reader, inner) for inner in ids])
        )

    # -- act --------------------------------------------------------------------------------

    async def stop_jobs(
        self, principal: Principal, text: str, grace_seconds: float | None
    ) -> list[JobView]:
        """Stop a job, or every live job of an array, at whatever state it is."""

        def change(tx: Tx, row: JobRow) -> None:
            if JobState(row.state).is_final:
                return
            grace = load_spec(tx, row.spec_id).grace_seconds
            ask_stop(
                tx,
                row,
                reason=ExitCause.STOPPED,
                grace_seconds=grace if grace_seconds is None else grace_seconds,
                actor=principal.name,
            )

        return await self._act(principal, text, "stop", change)

    async def hold_jobs(self, principal: Principal, text: str) -> list[JobView]:
        """Keep a waiting job, or the waiting ones of an array, from starting."""
        return await self._each_waiting(principal, text, "hold", hold)

    async def release_jobs(self, principal: Principal, text: str) -> list[JobView]:
        """Let held jobs start again."""
        return await self._each_waiting(principal, text, "release", release)

    async def requeue_jobs(self, principal: Principal, text: str, wish: Requeue) -> list[JobView]:
        """Queue a job again: an ended one anew, a running one after it saved, with changes."""
        return await self._act(
            principal,
            text,
            "requeue",
            lambda tx, row: requeue(tx, principal, row, wish),
        )

    async def _each_waiting(
        self, principal: Principal, text: str, verb: str, step: Callable[..., None]
    ) -> list[JobView]:
        def change(tx: Tx, row: JobRow) -> None:
            if row.state == JobState.QUEUED or not row.array_id or row.job_id == text:
                step(tx, row, actor=principal.name)

        return await self._act(principal, text, verb, change)

    async def _act(
        self, principal: Principal, text: str, verb: str, change: Callable[[Tx, JobRow], None]
    ) -> list[JobView]:
        # What is meant by an array is all of it, also of one that is still being written.
        await self._arrivals.complete(text)
        rows = await act(self._db, principal, text, verb, change)
        self.scheduler.wake()
        return await self.view_of(rows[:MAX_SHOWN])

    # -- logs -------------------------------------------------------------------------------

    async def log_source(
        self, principal: Principal, text: str, attempt: int | None
    ) -> tuple[JobRow, AttemptRow | None]:
        """Return the job and the attempt whose log is asked for; the latest unless told."""

        def load(reader: ReadConnection) -> tuple[JobRow, AttemptRow | None]:
            job = find_job(reader, principal, text)
            number = job.attempt if attempt is None else attempt
            found = load_attempts(reader, "job = ? AND number = ?", (job.id, number))
            if attempt is not None and not found:
                raise NotFound(f"job {job.job_id} has no attempt {attempt}")
            if found and found[0].log_pruned_ms is not None:
                day = time.strftime("%Y-%m-%d", time.gmtime(found[0].log_pruned_ms / 1000))
                raise NotFound(
                    f"the log of attempt {number} of job {job.job_id} was removed on {day}:"
                    " the setting log_days tells how long logs are kept"
                )
            return job, found[0] if found else None

        return await self._db.peek(load)

    async def read_log(self, attempt: AttemptRow, rank: int, offset: int, limit: int) -> bytes:
        """Return a stretch of a log."""
        return await self._db.read(
            lambda reader: logs.read(reader, attempt.id, rank, offset, limit)
        )

    async def log_end(self, attempt: AttemptRow, rank: int) -> int:
        """Return up to where a log is held; right after an attempt's end, once it is whole."""
        end = await self._db.peek(lambda reader: logs.log_end(reader, attempt.id, rank))
        if end is None:
            raise NotFound(f"attempt {attempt.attempt_id} has no rank {rank}")
        if not self._has_rest(attempt):
            return end
        await self._wait_for_rest(attempt, rank)
        return await self._db.peek(lambda reader: logs.log_end(reader, attempt.id, rank)) or end

    def _has_rest(self, attempt: AttemptRow) -> bool:
        """Tell whether more of an ended attempt's log may be on its way."""
        if attempt.ended_ms is None or attempt.launched_ms is None or attempt.settled:
            return False
        is_new = self._db.clock.time_ms() - attempt.ended_ms < REST_SECONDS * 1000
        return is_new and attempt.state != AttemptState.LOST

    async def _wait_for_rest(self, attempt: AttemptRow, rank: int) -> None:
        until = asyncio.get_running_loop().time() + REST_SECONDS
        with self._heard(attempt) as event:
            while not self._is_stopping and asyncio.get_running_loop().time() < until:
                event.clear()
                if await self._db.peek(lambda reader: _is_told(reader, attempt.attempt_id, rank)):
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FOLLOW_SECONDS):
                        await event.wait()

    @contextlib.contextmanager
    def _heard(self, attempt: AttemptRow) -> Iterator[asyncio.Event]:
        """Give an event that is set when more of an attempt's log has come, or its end."""
        event = asyncio.Event()
        waiting = self._followers.setdefault(attempt.id, set())
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting and self._followers.get(attempt.id) is waiting:
                del self._followers[attempt.id]

    async def tail(self, attempt: AttemptRow, rank: int, lines: int) -> int:
        """Return where the last lines of a log begin."""
        return await self._db.read(
            lambda reader: logs.tail_offset(reader, attempt.id, rank, lines)
        )

    async def follow(
        self, attempt: AttemptRow, rank: int, offset: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield a log from an offset until the attempt is over and all of it was told."""
        with self._heard(attempt) as event:
            while True:
                event.clear()
                over = await self._db.peek(
                    lambda reader: _is_told(reader, attempt.attempt_id, rank)
                )
                while data := await self.read_log(attempt, rank, offset, logs.READ_BYTES):
                    offset += len(data)
                    yield data
                if over or self._is_stopping:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FOLLOW_SECONDS):
                        await event.wait()

    # -- runners ----------------------------------------------------------------------------

    async def heartbeat(
        self, principal: Principal, attempt_id: str, epoch: int, beat: heartbeats.Heartbeat
    ) -> dict[str, Any]:
        """Take a runner's sign of life; answer with a stop if one was asked for."""
        attempt = await self._db.peek(
            lambda reader: heartbeats.live_attempt(
                reader, principal, attempt_id, epoch, ended_too=False
            )
        )
        now_ms = self._db.clock.time_ms()
        self.scheduler.dispatcher.note_heard(attempt_id, now_ms)
        if self._memory.is_news(attempt_id, beat, now_ms):
            await self._db.write(lambda tx: heartbeats.take_heartbeat(tx, attempt_id, beat))
            self._memory.note(attempt_id, beat, now_ms)
        await self._take_health(attempt, principal.team_id, beat, now_ms)
        if attempt.stop_reason is None:
            return {}
        grace = max(0, (attempt.stop_ms or 0) + (attempt.grace_ms or 0) - now_ms) / 1000
        return {"stop": {"reason": attempt.stop_reason, "grace_seconds": grace}}

    async def _take_health(
        self, attempt: AttemptRow, team_id: int, beat: heartbeats.Heartbeat, now_ms: int
    ) -> None:
        """Note what a heartbeat tells of its node: the clock, and what the runner found."""
        fleet, node = self.scheduler.fleet, heartbeats.node_of(attempt, beat.member)
        if node is not None and beat.time_ms:
            reporter = EvidenceReporter(
                attempt.attempt_id, attempt.attempt_id.rpartition("-a")[0], team_id
            )
            fleet.clocks.note(node, reporter, beat.time_ms - now_ms)
        checks = read_checks(beat.health) if beat.health else ()
        if checks and fleet.is_news(attempt.attempt_id, beat.member, checks):
            await self._db.write(
                lambda tx: heartbeats.take_health(
                    tx, fleet, attempt.attempt_id, beat.member, checks
                )
            )
            fleet.note_taken(attempt.attempt_id, beat.member, checks)
            self.scheduler.wake()

    async def trade_ticket(
        self, principal: Principal, attempt_id: str, epoch: int, claim: str
    ) -> str:
        """Give a runner the key of its spec, once."""
        found = await self._db.write(
            lambda tx: heartbeats.trade_ticket(tx, principal, attempt_id, epoch, claim)
        )
        return heartbeats.granted(found)

    async def take_log(
        self,
        principal: Principal,
        attempt_id: str,
        epoch: int,
        *,
        member: int,
        offset: int,
        data: bytes,
    ) -> tuple[bool, int]:
        """Take log bytes; return whether they fit, and the end held."""
        attempt = await self._db.peek(
            lambda reader: heartbeats.live_attempt(
                reader, principal, attempt_id, epoch, ended_too=True
            )
        )
        taken = await self._db.write(lambda tx: logs.append(tx, attempt, member, offset, data))
        for event in self._followers.get(attempt.id, ()):
            event.set()
        return taken

    async def take_samples(
        self, principal: Principal, attempt_id: str, epoch: int, batch: heartbeats.Samples
    ) -> None:
        """Take machine samples."""
        attempt = await self._db.peek(
            lambda reader: heartbeats.live_attempt(
                reader, principal, attempt_id, epoch, ended_too=True
            )
        )
        await self._db.write(
            lambda tx: heartbeats.take_samples(tx, self._tracking.names, principal, attempt, batch)
        )
        assert principal.scope is not None
        node, now_ms = heartbeats.node_of(attempt, batch.member), self._db.clock.time_ms()
        if node is not None and batch.samples:
            self.machines.note(node, now_ms, batch.samples[-1].values)
        count = sum(len(sample.values) for sample in batch.samples)
        self._tracking.on_points(principal.team_id, principal.scope.run_id, count)

    async def take_exit(
        self, principal: Principal, attempt_id: str, epoch: int, record: ExitRecord, raw: bytes
    ) -> None:
        """Take a member's exit record; with the last member's the attempt is over."""
        if record.attempt_id != attempt_id:
            raise InvalidInput("the record speaks of another attempt")
        attempt = await self._db.peek(
            lambda reader: heartbeats.live_attempt(
                reader, principal, attempt_id, epoch, ended_too=True
            )
        )
        fleet = self.scheduler.fleet

        def change(tx: Tx) -> None:
            take_exit(tx, attempt_id, record, raw)
            heartbeats.take_health(tx, fleet, attempt_id, record.member, record.health)

        await self._db.write(change)
        self.scheduler.wake()
        for event in self._followers.get(attempt.id, ()):
            event.set()


def _is_told(reader: ReadConnection, attempt_id: str, rank: int) -> bool:
    """Tell whether an attempt is over and its whole log is here."""
    attempt = attempt_of(reader, attempt_id)
    if attempt is None or attempt.settled:
        return True
    if not attempt.is_over:
        return False
    row = reader.one(
        "SELECT log_end, exit FROM attempt_members WHERE attempt = ? AND member = ?",
        (attempt.id, rank),
    )
    if row is None or row[1] is None:
        return False
    return int(row[0]) >= int(msgspec.json.decode(row[1]).get("log_bytes", 0))
