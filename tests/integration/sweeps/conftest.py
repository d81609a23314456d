"""A yard with sweeps on each database."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.yard import Yard, open_yard
from trackyard.access.sealing import Seal
from trackyard.artifacts.disk import DiskBlobs
from trackyard.artifacts.service import Artifacts
from trackyard.queue.specification import JobRequest
from trackyard.queue.submit.variables import opened
from trackyard.sweeps.controller import Controller
from trackyard.sweeps.service import Sweeps
from trackyard.sweeps.views import SweepDetail
from trackyard.sweeps.wishes import SweepBudget, SweepRequest


@dataclass
class SweepYard:
    yard: Yard
    artifacts: Artifacts
    seal: Seal
    sweeps: Sweeps
    controller: Controller

    async def look(self, times: int = 3) -> None:
        """Let the controller and the queue do what is due."""
        for _ in range(times):
            await self.controller.tick()
            for task in list(self.controller._copying.values()):
                await task
            await self.yard.tick(0.5)

    async def begin(self, **more: Any) -> str:
        fields: dict[str, Any] = {
            "metric": "loss",
            "space": {"lr": {"range": [0.1, 1]}},
            "job": JobRequest(command=["train"], gpus=1),
            "name": "search",
            "sampler": "random",
            "budget": SweepBudget(trials=4),
            "slots": 2,
        }
        made = await self.sweeps.create(self.yard.user, SweepRequest(**(fields | more)))
        assert made.sweep is not None
        await self.look()
        return made.sweep.sweep_id

    async def show(self, sweep: str) -> SweepDetail:
        return await self.sweeps.detail(self.yard.user, sweep)

    async def states(self, sweep: str) -> list[str]:
        return [trial.state for trial in (await self.show(sweep)).trials]

    async def report(self, sweep: str, number: int, step: int, loss: float) -> None:
        await self.yard.log(f"j{sweep[1:]}-{number}", loss=(step, loss))

    async def finish(self, sweep: str, number: int, loss: float) -> None:
        job = f"j{sweep[1:]}-{number}"
        await self.yard.beat(job)
        await self.report(sweep, number, 9, loss)
        await self.yard.end(job)
        await self.look()

    def restart(self) -> None:
        """Put a new controller in the old one's place: it knows nothing but the database."""
        self.controller = make_controller(self)
        self.sweeps = Sweeps(self.yard.database, self.yard.jobs, seal=self.seal)


def make_controller(found: SweepYard) -> Controller:
    yard = found.yard
    return Controller(
        yard.database, yard.scheduler, yard.tracking, found.artifacts, seal=found.seal
    )


@pytest.fixture
async def sweeping(database_url: str, tmp_path: Path) -> AsyncIterator[SweepYard]:
    """One node with two GPUs, one user, sweeps."""
    async with open_yard(database_url, tmp_path) as yard:
        seal = Seal(tmp_path / "key")
        artifacts = Artifacts(yard.database, DiskBlobs(tmp_path / "blobs"))
        yard.jobs._seal = seal
        yard.scheduler.dispatcher._open_spec = partial(opened, seal)
        sweeps = Sweeps(yard.database, yard.jobs, seal=seal)
        found = SweepYard(yard, artifacts, seal, sweeps, None)  # type: ignore[arg-type]
        found.controller = make_controller(found)
        yield found
        await found.controller.stop()
