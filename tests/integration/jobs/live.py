"""Runs a history over the real loop: real ledger, real passes, a fake engine and a fake clock.

Runners are played here: they beat once they run, save as their history says, and end. Restarts
put new server objects on the same database. What is seen goes to the same invariants that judge
histories in memory.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

from tests.integration.jobs.live_engine import Engine
from tests.integration.jobs.yard import member
from tests.integration.leases.yard import who
from trackyard.access.directory import Directory
from trackyard.access.principal import Principal
from trackyard.artifacts.disk import DiskBlobs
from trackyard.control.dispatch import Dispatcher
from trackyard.control.launching import LaunchSite
from trackyard.control.leader import Superseded
from trackyard.control.lease_sync import LeaseSync
from trackyard.control.loop import LastPass, SchedulingLoop
from trackyard.control.service import Jobs
from trackyard.core.errors import YardError
from trackyard.core.job import JobState, PriorityClass
from trackyard.core.ports import LaunchSpec
from trackyard.leases.service import Leases
from trackyard.leases.wishes import LeaseEnd, NewLease
from trackyard.queue.attempts.heartbeats import Heartbeat, Saved
from trackyard.queue.records import load_jobs
from trackyard.queue.requeue import Requeue
from trackyard.queue.shares.queues import QueueSettings, TeamShare, set_queue, set_share
from trackyard.queue.specification import After, JobRequest
from trackyard.queue.submit.packages import Packages
from trackyard.scheduling import Queue, Team
from trackyard.simulate.check.history import (
    ENGINE_FAULTS,
    CheckHistory,
    EventKind,
    HistoryEvent,
    PlannedJob,
    StopReply,
    clock,
)
from trackyard.simulate.check.machine import HistoryOutcome
from trackyard.simulate.check.watch import (
    Fact,
    FinalState,
    Invariant,
    Occurrence,
    PassRecord,
    Promises,
    Violation,
)
from trackyard.store.database import Database
from trackyard.testing.clock import FakeClock
from trackyard.testing.engine import Program, fake_node
from trackyard.tracking.service import Tracking

#: The clock of every live history stands at 24:00:00 when it begins.
BEGIN = datetime(1970, 1, 2, tzinfo=UTC)
_ENDED = {
    "job.succeeded": JobState.SUCCEEDED,
    "job.failed": JobState.FAILED,
    "job.stopped": JobState.CANCELLED,
}
_MOST_STEPS = 1000
_LONGEST_PAUSE = 3840.0


class Watched(SchedulingLoop):
    """A scheduler whose passes are seen."""

    seen: Any = None

    async def run_pass(self) -> LastPass:
        looked = await super().run_pass()
        if self.seen is not None:
            await self.seen(looked)
        return looked


class Live:
    """One run of a history over the real loop."""

    def __init__(
        self,
        history: CheckHistory,
        invariants: Iterable[type[Invariant]],
        url: str,
        home: Path,
    ) -> None:
        self.history = history
        self._url, self._home = url, home
        self._promises = Promises()
        self._invariants = [one(history, self._promises) for one in invariants]
        self._clock = FakeClock(BEGIN)
        self._policy = history.policy
        self._jobs_of: dict[str, PlannedJob] = {}
        self._names: dict[str, str] = {}
        self._saved: dict[str, float] = {}
        self._told_saved: dict[str, int] = {}
        self._specs: dict[str, LaunchSpec] = {}
        self._people: dict[str, Principal] = {}
        self._log: list[str] = []
        self._violations: list[Violation] = []
        self._cursor = 0
        self._facts = 0
        self._passes = 0
        self._settled: set[str] = set()
        self._last: PassRecord | None = None
        nodes = [self._report(node.id) for node in history.nodes]
        self.engine = Engine(self._clock, nodes, program=self._program)

    # -- the server -------------------------------------------------------------------------

    async def run(self) -> HistoryOutcome:
        """Run to the end, or to the first promise that is not kept."""
        self.database = Database(self._url, clock=self._clock)
        self.database.start()
        databases = [self.database]
        try:
            await self._found()
            await self._serve(self.database)
            await self._steps(databases)
            if not self._violations:
                await self._judge_the_end()
        finally:
            await self.scheduler.drain()
            await self.scheduler.dispatcher.close()
            for one in databases:
                await one.close()
        return HistoryOutcome(
            history=self.history,
            violations=tuple(self._violations),
            log=tuple(self._log),
            passes=self._passes,
            digest=sha256("\n".join(self._log).encode()).hexdigest(),
            finished=len(self._settled),
        )

    async def _found(self) -> None:
        """Make teams, people, quotas and queues."""
        directory = self.directory = Directory(self.database)
        for team in self.history.teams:
            for letter in "ab":
                name = f"{team.id}-{letter}"
                self._people[name] = await member(directory, name, team.id, role="maintainer")
        for team in self.history.teams:
            await self._set_team(team)
        for queue in self.history.queues:
            await self.database.write(
                lambda tx, queue=queue: set_queue(tx, queue.name, _settings(queue), actor="test")
            )

    async def _set_team(self, team: Team) -> None:
        share = TeamShare(
            share=team.weight,
            quota_gpus=team.quota_gpus,
            limit_gpus=team.limit_gpus,
            lendable_gpus=min(team.lendable_gpus, team.quota_gpus or 0.0),
            parent=team.parent,
        )
        await self.database.write(lambda tx: set_share(tx, team.id, share, actor="test"))

    async def _serve(self, database: Database) -> None:
        """Put new server objects over the database, as a start does."""
        dispatcher = Dispatcher(
            database, lambda: self.engine, LaunchSite(url="http://127.0.0.1:1")
        )
        self.scheduler = Watched(database, dispatcher, self._policy)
        self.scheduler.seen = self._seen
        tracking = Tracking(database)
        packages = Packages(database, DiskBlobs(self._home / "blobs"))
        self.jobs = Jobs(database, tracking, packages, self.scheduler)
        self.directory = Directory(database)
        self.leases = Leases(database)
        LeaseSync(database, self.leases, self.scheduler)
        self.scheduler._leases = self.leases.for_scheduler
        await self.scheduler.open()

    async def _restart(self, seconds: float) -> None:
        """Let the server die, and another start after a while."""
        self._deafen()
        self._advance(max(seconds, 11.0))
        await self._serve(self.database)

    def _deafen(self) -> None:
        self.scheduler._unsubscribe()
        self.scheduler._unsubscribe = lambda: None
        self.scheduler.seen = None

    async def _supersede(self, databases: list[Database]) -> None:
        """Freeze this server over a decision, let a rival take over, and wake it up again."""
        old, old_database = self.scheduler, self.database
        frozen = await old._look(old.board)
        self._deafen()
        self._advance(11.0)
        self.database = Database(self._url, clock=self._clock)
        self.database.start()
        databases.append(self.database)
        await self._serve(self.database)
        await self._tick()
        if frozen.decisions.admissions or frozen.decisions.stops:
            with contextlib.suppress(Superseded):
                await old_database.write(lambda tx: old._apply(tx, frozen))
                self._fail("one attempt", "a server that no longer leads applied its decisions")
        await old.drain()
        await old.dispatcher.close()

    # -- time -------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self._clock.time_ms() / 1000

    @property
    def _since(self) -> float:
        return self._now - BEGIN.timestamp()

    def _advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.engine.pass_time()

    async def _steps(self, databases: list[Database]) -> None:
        events = list(self.history.events)
        pause, deadline = self._promises.pass_seconds, inf
        for _ in range(_MOST_STEPS):
            if self._violations:
                return
            if not events and len(self._settled) == len(self._jobs_of):
                return
            arrival = events[0].at - self._since if events else inf
            step = max(0.0, min(arrival, self.engine.next_end(), pause))
            if self._since + step > deadline:
                self._advance(max(0.0, deadline - self._since))
                return
            self._advance(step)
            moved = False
            while events and events[0].at <= self._since:
                await self._happen(events.pop(0), databases)
                moved = True
            before = self._facts
            await self._tick()
            moved |= self._facts != before
            pause = self._promises.pass_seconds if moved else min(4 * pause, _LONGEST_PAUSE)
            if not events and deadline == inf:
                deadline = self._since + self._bound()

    def _bound(self) -> float:
        """All that is left ends within this time once nothing more comes from outside."""
        ahead = [one.lease.ends_at for one in self.history.events if one.lease is not None]
        ahead += [one.job.not_before for one in self._jobs_of.values()]
        until = max([self._since, *ahead]) - self._since
        self._serial = sum(
            (one.work_seconds + one.restart_seconds) * (2 + one.retries)
            for one in self._jobs_of.values()
        )
        overhead = (self._promises.grace(self._policy) + 60.0) * 6 * len(self._jobs_of)
        return until + self._promises.drain_factor * self._serial + overhead + 1200.0

    async def _tick(self) -> None:
        """Let the loop do what is due until nothing more happens."""
        for _ in range(5):
            before = self._facts
            self.scheduler.wake()
            with contextlib.suppress(Superseded):
                await self.scheduler.tick()
            await asyncio.sleep(0)
            await self.scheduler.drain()
            await self._play_runners()
            await self._hear()
            if self._facts == before:
                return

    async def _play_runners(self) -> None:
        """Let runners that live say so, and those that save say that."""
        for attempt_id, ran in self.engine.live().items():
            spec = self._specs[attempt_id]
            planned = self._jobs_of[spec.job_id]
            saved = 0
            if planned.saves_every is not None:
                restart = planned.restart_seconds if not attempt_id.endswith("-a1") else 0.0
                saved = int(max(0.0, ran - restart) / planned.saves_every)
            if saved <= self._told_saved.get(attempt_id, -1):
                continue
            self._told_saved[attempt_id] = saved
            assert spec.report is not None
            principal = await self.directory.authenticate(spec.report.token)
            if principal is None:
                continue
            checkpoint = None
            if saved:
                assert planned.saves_every is not None
                at = self._clock.time_ms() - int((ran - saved * planned.saves_every) * 1000)
                checkpoint = Saved(name=f"s{saved}", step=saved, sequence=saved, created_ms=at)
            beat = Heartbeat(state="running", hostname="n", checkpoint=checkpoint)
            with contextlib.suppress(YardError):
                await self.jobs.heartbeat(principal, attempt_id, spec.epoch, beat)

    def _program(self, spec: LaunchSpec) -> Program:
        """Say how an attempt will behave; what it saved before counts."""
        self._specs[spec.attempt_id] = spec
        planned = self._jobs_of[spec.job_id]
        number = int(spec.attempt_id.rsplit("-a", 1)[1])
        saved = sum(
            self._kept(name, ran, told)
            for name, (ran, told) in self.engine.ended.items()
            if name.startswith(f"{spec.job_id}-a")
        )
        restart = planned.restart_seconds if number > 1 else 0.0
        left, code = max(1.0, planned.work_seconds - saved) + restart, 0
        if number <= len(planned.fails_after) and planned.fails_after[number - 1] < left:
            left, code = planned.fails_after[number - 1], 1
        reply = {StopReply.SAVES: 85, StopReply.ENDS: 143, StopReply.IGNORES: None}[planned.reply]
        return Program(ends_after=left, exit_code=code, on_stop=reply)

    def _kept(self, attempt_id: str, ran: float, told: bool) -> float:
        planned = self._jobs_of[self._specs[attempt_id].job_id]
        restart = planned.restart_seconds if not attempt_id.endswith("-a1") else 0.0
        work = max(0.0, ran - restart)
        if told:
            return work
        every = planned.saves_every
        return 0.0 if every is None else work // every * every

    # -- outside ----------------------------------------------------------------------------

    async def _happen(self, event: HistoryEvent, databases: list[Database]) -> None:
        self._say(event.words)
        with contextlib.suppress(YardError):
            await self._do(event, databases)
        if event.planned is None:
            self._tell(Fact(at=self._now, came=Occurrence.CHANGED, subject=event.subject))

    async def _do(self, event: HistoryEvent, databases: list[Database]) -> None:
        if event.planned is not None:
            await self._submit(event.planned)
        elif event.lease is not None:
            await self._lease(event)
        elif event.team is not None:
            await self._set_team(event.team)
        elif event.kind in (
            EventKind.POLICY,
            EventKind.OUTAGE,
            EventKind.DIED,
            EventKind.SUPERSEDED,
        ):
            await self._upset_server(event, databases)
        elif event.kind in ENGINE_FAULTS:
            self._upset_engine(event)
        elif event.kind is EventKind.LEASE_DROPPED:
            await self._drop_lease(event.subject)
        elif event.kind is EventKind.NODE_UP:
            self.engine.add_node(self._report(event.subject))
        elif event.kind in (EventKind.NODE_DOWN, EventKind.NODE_DRAINED):
            self.engine.lose_node(event.subject)
        else:
            await self._change_job(event)

    async def _upset_server(self, event: HistoryEvent, databases: list[Database]) -> None:
        if event.kind is EventKind.SUPERSEDED:
            await self._supersede(databases)
            return
        if event.kind is EventKind.DIED:
            looked = await self.scheduler._look(self.scheduler.board)
            await self.database.write(lambda tx: self.scheduler._apply(tx, looked))
        self._policy = event.policy or self._policy
        await self._restart(event.value)

    def _upset_engine(self, event: HistoryEvent) -> None:
        engine, until = self.engine, self._clock.monotonic() + event.value
        if event.kind is EventKind.LOST_ANSWER:
            engine.lose_next_answer()
        elif event.kind is EventKind.REFUSED:
            engine.refuse_next_launch("busy")
        elif event.kind is EventKind.LOST_NOTICES:
            engine.lost_until = until
        elif event.kind is EventKind.LATE_NOTICES:
            engine.late_until = until
        elif event.kind is EventKind.ENGINE_AWAY:
            engine.away_until = until

    async def _drop_lease(self, name: str) -> None:
        lease = next(one.lease for one in self.history.events if one.subject == name)
        assert lease is not None
        person = who(self._people[f"{lease.team}-a"], is_admin=True)
        await self.leases.release(person, name, LeaseEnd())

    async def _submit(self, planned: PlannedJob) -> None:
        job, request = planned.job, planned.job.request
        known = {name: job_id for job_id, name in self._names.items()}
        gpus = request.gpus if request.gpu_milli == 1000 else request.gpu_milli / 1000
        wish = JobRequest(
            command=["train"],
            name=job.name,
            priority=job.priority.name.lower(),
            gpus=gpus,
            cpus=request.cpu_milli / 1000,
            nodes=request.nodes,
            same=request.same,
            exclusive=request.exclusive,
            time_limit_seconds=job.time_limit_seconds,
            estimate_seconds=job.estimate_seconds,
            preemptible=job.preemptible,
            retries=planned.retries,
            after=[
                After(job=known[one.job], when=one.when.value)
                for one in job.dependencies
                if one.job in known
            ],
            not_before_ms=int((BEGIN.timestamp() + job.not_before) * 1000)
            if job.not_before
            else 0,
            hold=job.held,
            grace_seconds=planned.grace_seconds,
        )
        done = await self.jobs.submit(self._people[job.user], wish)
        job_id = done.jobs[0].job_id
        self._jobs_of[job_id], self._names[job_id] = planned, job.id

    async def _lease(self, event: HistoryEvent) -> None:
        lease = event.lease
        assert lease is not None
        begin = BEGIN.timestamp()
        wish = NewLease(
            name=lease.id,
            nodes=list(lease.nodes),
            starts_ms=int((begin + lease.starts_at) * 1000),
            ends_ms=int((begin + lease.ends_at) * 1000),
        )
        await self.leases.create(who(self._people[f"{lease.team}-a"], is_admin=True), wish)

    async def _change_job(self, event: HistoryEvent) -> None:
        job_id = next((one for one, name in self._names.items() if name == event.subject), "")
        if not job_id:
            return
        person = self._people[self._jobs_of[job_id].job.user]
        if event.kind is EventKind.CANCEL:
            await self.jobs.stop_jobs(person, job_id, None)
        elif event.kind is EventKind.HOLD:
            await self.jobs.hold_jobs(person, job_id)
        elif event.kind is EventKind.RELEASE:
            await self.jobs.release_jobs(person, job_id)
        elif job_id not in self._settled:
            level = PriorityClass(int(event.value)).name.lower()
            change = Requeue(priority=level) if event.kind is EventKind.RECLASS else Requeue()
            await self.jobs.requeue_jobs(person, job_id, change)

    def _report(self, name: str) -> Any:
        node = next(one for one in self.history.nodes if one.id == name)
        report = fake_node(
            name,
            gpus=len(node.gpus),
            cpus=node.cpu_milli / 1000,
            memory_bytes=node.memory_bytes,
        )
        return replace(report, labels=dict(node.labels))

    # -- what is seen -----------------------------------------------------------------------

    async def _seen(self, looked: LastPass) -> None:
        """Show a pass to the invariants, and then what came of it."""
        self._passes += 1
        look = self._last = PassRecord(snapshot=looked.loaded.snapshot, decisions=looked.decisions)
        for one in self._invariants:
            self._note(one, one.on_look(look))
        await self._hear()

    async def _hear(self) -> None:
        """Tell the invariants what the ledger says came about."""
        rows = await self.database.read(
            lambda reader: reader.all(
                "SELECT id, kind, subject_id, data FROM events WHERE id > ? ORDER BY id",
                (self._cursor,),
            )
        )
        for number, kind, subject, data in rows:
            self._cursor = number
            came = {
                "job.submitted": Occurrence.SUBMITTED,
                "job.admitted": Occurrence.STARTED,
                "job.preempting": Occurrence.STOPPING,
                "job.stopping": Occurrence.STOPPING,
                "job.requeued": Occurrence.REQUEUED,
            }.get(kind, Occurrence.ENDED if kind in _ENDED else None)
            if kind.startswith("job.") or kind in ("attempt.ended", "attempt.lost"):
                words = data if kind in ("job.requeued", "attempt.ended", "attempt.lost") else ""
                self._say(f"{kind} {self._names.get(subject, subject)} {words}")
            if came is None:
                continue
            self._facts += 1
            if came is Occurrence.ENDED:
                self._settled.add(subject)
            elif came is Occurrence.REQUEUED:
                self._settled.discard(subject)
            self._tell(Fact(at=self._now, came=came, subject=subject, state=_ENDED.get(kind)))
        for fault in self.engine.faults:
            self._fail("one attempt", fault)
        self.engine.faults.clear()

    async def _judge_the_end(self) -> None:
        rows = await self.database.read(lambda reader: load_jobs(reader, "1 = 1"))
        there = {row.job_id for row in rows}
        for job_id, name in self._names.items():
            if job_id not in there:
                self._fail("one attempt", f"{name} was accepted and is lost")
        looked = await self.scheduler._look(self.scheduler.board)
        rest = FinalState(
            at=self._now, snapshot=looked.loaded.snapshot, serial_seconds=self._serial
        )
        for one in self._invariants:
            self._note(one, one.on_end(rest))

    _serial = 0.0

    def _tell(self, fact: Fact) -> None:
        for one in self._invariants:
            self._note(one, one.on_fact(fact))

    def _note(self, invariant: Invariant, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            self._fail(invariant.name, sentence)

    def _fail(self, name: str, sentence: str) -> None:
        for job_id, known in self._names.items():
            sentence = sentence.replace(job_id, known)
        self._violations.append(Violation(invariant=name, at=self._since, sentence=sentence))
        self._say(f"VIOLATION of {name}: {sentence}")

    def _say(self, words: str) -> None:
        self._log.append(f"{clock(self._now)} {words}")


def _settings(queue: Queue) -> QueueSettings:
    return QueueSettings(
        quota_gpus=queue.quota_gpus,
        max_gpus_per_user=queue.max_gpus_per_user,
        max_running_per_user=queue.max_running_per_user,
    )


def check_live(
    history: CheckHistory, invariants: Sequence[type[Invariant]], template: Path, home: Path
) -> HistoryOutcome:
    """Run a history over a new SQLite database, copied from a prepared one."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "yard.db"
    path.write_bytes(template.read_bytes())

    async def run() -> HistoryOutcome:
        return await Live(history, invariants, f"sqlite:///{path}", home).run()

    return asyncio.run(run())
