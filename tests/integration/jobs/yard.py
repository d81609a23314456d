"""A yard in memory: the jobs half over a real database, a fake engine and a clock that stands.

Runners are played by the test: it beats, ships logs and ends with the token each launch carries.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trackyard.access.directory import Directory
from trackyard.access.principal import Principal
from trackyard.artifacts.disk import DiskBlobs
from trackyard.control.dispatch import Dispatcher
from trackyard.control.launching import LaunchSite
from trackyard.control.loop import SchedulingLoop
from trackyard.control.service import Jobs
from trackyard.core.ports import ExitCause, LaunchSpec
from trackyard.queue.attempts.heartbeats import Heartbeat, RunnerProgress, Saved
from trackyard.queue.records import AttemptRow, JobRow, find_job, latest_attempt
from trackyard.queue.specification import JobRequest
from trackyard.queue.submit.packages import Packages
from trackyard.queue.transitions import Admitted
from trackyard.queue.views import JobDetail, JobView
from trackyard.scheduling import Policy, PreemptionRules
from trackyard.store.database import Database
from trackyard.testing.clock import FakeClock
from trackyard.testing.engine import FakeEngine, Program, fake_node
from trackyard.tracking.metrics.ingest import write_batch
from trackyard.tracking.service import Tracking

POLICY = Policy(preemption=PreemptionRules(min_run_seconds=0.0))


@dataclass
class Yard:
    clock: FakeClock
    database: Database
    engine: FakeEngine
    directory: Directory
    tracking: Tracking
    jobs: Jobs
    user: Principal
    home: Path
    #: what was launched, by attempt id
    specs: dict[str, LaunchSpec] = field(default_factory=dict)

    @property
    def scheduler(self) -> SchedulingLoop:
        return self.jobs.scheduler

    async def tick(self, seconds: float = 0.0) -> None:
        """Let time pass, then let the loop do what is due until nothing more happens."""
        self.clock.advance(seconds)
        for _ in range(4):
            self.scheduler.wake()
            await self.scheduler.tick()
            await asyncio.sleep(0)
            await self.scheduler.drain()

    async def submit(self, *command: str, **wish: Any) -> JobView:
        """Submit one job and let the loop look at it."""
        done = await self.jobs.submit(
            self.user, JobRequest(command=list(command or ["train"]), **wish)
        )
        await self.tick()
        return done.jobs[0]

    async def row(self, job: str) -> JobRow:
        return await self.database.read(lambda reader: find_job(reader, self.user, job))

    async def state(self, job: str) -> str:
        return (await self.row(job)).shown

    async def states(self, *jobs: str) -> list[str]:
        return [await self.state(job) for job in jobs]

    async def detail(self, job: str) -> JobDetail:
        return await self.jobs.detail(self.user, job)

    async def attempt(self, job: str) -> AttemptRow:
        row = await self.row(job)
        found = await self.database.read(lambda reader: latest_attempt(reader, row))
        assert found is not None
        return found

    async def runner(self, job: str, number: int | None = None) -> tuple[Principal, str, int]:
        """Return what the runner of an attempt knows: its principal, id and epoch."""
        row = await self.row(job)
        attempt_id = f"{row.job_id}-a{number or row.attempt}"
        spec = self.specs[attempt_id]
        assert spec.report is not None
        principal = await self.directory.authenticate(spec.report.token)
        assert principal is not None
        return principal, attempt_id, spec.epoch

    async def beat(self, job: str, state: str = "running", **more: Any) -> dict[str, Any]:
        """Send one heartbeat as the job's runner."""
        progress, saved = more.pop("progress", None), more.pop("checkpoint", None)
        beat = Heartbeat(
            state=state,
            hostname="n",
            progress=RunnerProgress(**progress) if progress else None,
            checkpoint=Saved(**saved) if saved else None,
            **more,
        )
        return await self.jobs.heartbeat(*await self.runner(job), beat)

    async def log(self, job: str, **points: tuple[int, float]) -> None:
        """Log metrics as the job's script: name=(step, value)."""
        principal, _, _ = await self.runner(job)
        assert principal.scope is not None
        run_id, now = principal.scope.run_id, self.clock.time_ms()
        series = {name: ([step], [now], [value]) for name, (step, value) in points.items()}
        await self.database.write(
            lambda tx: write_batch(tx, self.tracking.names, principal, run_id, series=series)
        )

    async def run_job(self, *command: str, **wish: Any) -> str:
        """Submit a job and bring it to running."""
        job = (await self.submit(*command, **wish)).job_id
        await self.beat(job)
        return job

    async def end(self, job: str, exit_code: int = 0, cause: ExitCause | None = None) -> None:
        """End the job's command, as the engine tells it."""
        self.engine.finish((await self.attempt(job)).attempt_id, exit_code=exit_code, cause=cause)
        await asyncio.sleep(0)
        await self.tick()

    async def events(self, kind: str = "") -> list[tuple[str, str]]:
        rows = await self.database.read(
            lambda reader: reader.all(
                "SELECT kind, subject_id FROM events WHERE kind LIKE ? ORDER BY id", (f"{kind}%",)
            )
        )
        return [(row[0], row[1]) for row in rows]

    async def run_status(self, run_id: str) -> str:
        return (await self.tracking.run(self.user, run_id)).info.status

    async def admit_only(self) -> list[Admitted]:
        """Decide and write down, and stop short of telling the engine: where a server may die."""
        looked = await self.scheduler._look(self.scheduler.board)
        return await self.database.write(lambda tx: self.scheduler._apply(tx, looked))

    def deafen(self) -> None:
        """Let the scheduler hear nothing more of the engine, as if its server were dead."""
        self.scheduler._unsubscribe()
        self.scheduler._unsubscribe = lambda: None

    async def restart(self, after: float = 11.0) -> None:
        """Put a new scheduler in the old one's place, as a server restarted after a kill.

        On PostgreSQL the lead of the dead one has to run out first.
        """
        self.deafen()
        scheduler = make_scheduler(self.database, self.engine)
        self.jobs = Jobs(self.database, self.tracking, self.jobs.packages, scheduler)
        await scheduler.open()
        await self.tick(after)


def make_scheduler(
    database: Database, engine: FakeEngine, policy: Policy = POLICY
) -> SchedulingLoop:
    dispatcher = Dispatcher(database, lambda: engine, LaunchSite(url="http://127.0.0.1:1"))
    return SchedulingLoop(database, dispatcher, policy)


async def member(directory: Directory, name: str, team: str, role: str = "member") -> Principal:
    """Return a user of a team, making both where needed."""
    if team not in {row["name"] for row in await directory.teams()}:
        await directory.create_team(team, actor="test")
    await directory.create_user(name, actor="test")
    await directory.set_member(team, name, role, actor="test")
    made = await directory.create_token(user=name, team=team, role=role, label="", actor="test")
    found = await directory.authenticate(made["token"])
    assert found is not None
    return found


@contextlib.asynccontextmanager
async def open_yard(
    database_url: str, home: Path, *, gpus: int = 2, nodes: int = 1
) -> AsyncIterator[Yard]:
    """Open a yard with a few nodes and one user."""
    clock = FakeClock()
    database = Database(database_url, clock=clock)
    database.start()
    specs: dict[str, LaunchSpec] = {}

    def program(spec: LaunchSpec) -> Program:
        specs[spec.attempt_id] = spec
        return Program(on_stop=85)

    found = [fake_node(f"n{number}", gpus=gpus) for number in range(1, nodes + 1)]
    engine = FakeEngine(clock, found, program=program)
    directory, tracking = Directory(database), Tracking(database)
    packages = Packages(database, DiskBlobs(home / "blobs"))
    jobs = Jobs(database, tracking, packages, make_scheduler(database, engine))
    user = await member(directory, "ann", "lab")
    yard = Yard(clock, database, engine, directory, tracking, jobs, user, home, specs)
    await jobs.scheduler.open()
    await yard.tick()
    try:
        yield yard
    finally:
        await yard.scheduler.drain()
        await yard.scheduler.dispatcher.close()
        await database.close()
