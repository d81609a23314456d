"""Engines that may lose sight of what runs, and nodes that others use as well."""

from dataclasses import replace

from tests.integration.jobs.yard import Yard
from trackyard.core.ports import ExitCause, ForeignUse


async def test_a_lost_attempt_that_is_still_heard_ends_before_the_next_one_starts(
    yard: Yard,
) -> None:
    job = await yard.run_job(gpus=1)
    yard.engine.loses_sight = True
    yard.engine.lose(f"{job}-a1")
    await yard.tick()
    assert yard.engine.started == [f"{job}-a1"]
    answer = await yard.beat(job)
    assert answer["stop"]["reason"] == ExitCause.NODE_LOST
    assert 0 < answer["stop"]["grace_seconds"] <= 10
    await yard.tick(15)
    assert yard.engine.started == [f"{job}-a1", f"{job}-a2"]


async def test_a_lost_attempt_that_goes_on_for_ever_is_given_up(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    yard.engine.loses_sight = True
    yard.engine.lose(f"{job}-a1")
    for _ in range(9):
        await yard.tick(5)
        if (await yard.row(job)).attempt > 1:
            break
        await yard.beat(job)
    assert (await yard.row(job)).attempt == 2


async def test_a_lost_attempt_that_is_silent_is_replaced_at_once(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    yard.engine.loses_sight = True
    yard.clock.advance(14)
    yard.engine.lose(f"{job}-a1")
    await yard.tick()
    assert (await yard.row(job)).attempt == 2


async def test_what_is_held_past_the_queue_is_not_given_out_and_is_named(yard: Yard) -> None:
    node = yard.engine.nodes()[0]
    foreign = ForeignUse(name="raysubmit_1", gpus=tuple(gpu.index for gpu in node.gpus), cpus=1)
    yard.engine.add_node(replace(node, foreign=(foreign,)))
    await yard.tick(11)
    job = (await yard.submit(gpus=1)).job_id
    assert await yard.state(job) == "queued"
    reasons = (await yard.detail(job)).reasons
    assert "foreign:raysubmit_1" in reasons[0].sentence
    yard.engine.add_node(replace(node, foreign=()))
    await yard.tick(11)
    assert await yard.state(job) == "starting"
