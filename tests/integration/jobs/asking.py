"""A demand as a running job's script makes it."""

from typing import Any

from tests.integration.jobs.yard import Yard
from trackyard.control.late_demand import DemandReply
from trackyard.queue.attempts.demand import DemandRequest


async def ask(yard: Yard, job: str, workers: int = 2, gpus: float = 1, **more: Any) -> DemandReply:
    """Ask as the job's script does, then let the queue look at it."""
    runner, _, _ = await yard.runner(job)
    demand = DemandRequest(
        key=more.pop("key", "train"),
        workers=workers,
        resources={"GPU": gpus, "CPU": 1.0},
        **more,
    )
    await yard.jobs.demands.ask(runner, demand)
    await yard.tick()
    return await yard.jobs.demands.ask(runner, demand)
