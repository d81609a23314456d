"""What jobs leave behind: the load of their nodes, and how long logs and keys are kept."""

from typing import Any

import pytest

from tests.integration.jobs.yard import Yard
from trackyard.core.errors import NotFound
from trackyard.queue.attempts.heartbeats import Sample, Samples
from trackyard.queue.attempts.node_load import (
    HOUR_MS,
    MINUTE_MS,
    LoadHistory,
    history,
    roll_up,
)
from trackyard.queue.retention import Removed, Retention, clean

DAY = 86_400.0


async def sample(yard: Yard, job: str, seq: int, **values: float) -> None:
    """Send one sample of the machine as the job's runner."""
    found = {f"system/{name}": value for name, value in values.items()}
    batch = Samples(samples=[Sample(seq=seq, time_ms=yard.clock.time_ms(), values=found)])
    await yard.jobs.take_samples(*await yard.runner(job), batch)


async def load(yard: Yard, span_ms: int, points: int = 60) -> LoadHistory:
    now = yard.clock.time_ms()
    return await yard.database.read(
        lambda reader: history(reader, now - span_ms, now + MINUTE_MS, points)
    )


def means(found: LoadHistory) -> dict[str, list[float]]:
    return {one.what: [point.mean for point in one.points] for one in found.loads}


async def test_samples_of_jobs_tell_how_busy_a_node_was(yard: Yard) -> None:
    """Means per minute of CPU and each GPU; a sample sent twice counts once."""
    job = await yard.run_job(gpus=2)
    names: dict[str, Any] = {"cpu_utilization_percentage": 20.0}
    await sample(yard, job, 1, **names, gpu_0_utilization_percentage=100.0)
    await sample(yard, job, 1, **names, gpu_0_utilization_percentage=100.0)
    await sample(yard, job, 2, **names, gpu_0_utilization_percentage=50.0, disk_free=5.0)
    yard.clock.advance(60)
    await sample(yard, job, 3, gpu_0_utilization_percentage=10.0, gpu_1_power_usage_watts=90.0)
    found = await load(yard, 10 * MINUTE_MS)
    assert {one.node_id for one in found.loads} == {"n1"}
    assert means(found) == {"cpu": [20.0], "gpu0": [75.0, 10.0]}
    assert [point.most for one in found.loads for point in one.points if one.what == "gpu0"] == [
        100.0,
        10.0,
    ]
    assert found.width_ms == MINUTE_MS
    assert means(await load(yard, 10 * MINUTE_MS, points=1))["gpu0"] == [pytest.approx(53.33)]


async def test_old_minutes_become_hours_with_the_same_mean(yard: Yard) -> None:
    yard.clock.advance((HOUR_MS - yard.clock.time_ms() % HOUR_MS) / 1000)
    job = await yard.run_job(gpus=1)
    for seq, value in enumerate((10.0, 20.0, 90.0), start=1):
        await sample(yard, job, seq, gpu_0_utilization_percentage=value)
        yard.clock.advance(60)
    yard.clock.advance(4 * DAY)
    await yard.database.write(roll_up)
    await yard.database.write(roll_up)
    found = await load(yard, 5 * 24 * HOUR_MS, points=500)
    assert found.width_ms == HOUR_MS
    (gpu,) = found.loads
    assert [(point.mean, point.most) for point in gpu.points] == [(40.0, 90.0)]
    yard.clock.advance(500 * DAY)
    await yard.database.write(roll_up)
    assert (await load(yard, 600 * 24 * HOUR_MS)).loads == []


async def test_logs_of_ended_jobs_are_removed_after_their_time_and_say_so(yard: Yard) -> None:
    """A dry run removes nothing; younger and running jobs keep theirs; the job itself stays."""
    old = await yard.run_job()
    await yard.jobs.take_log(*await yard.runner(old), member=0, offset=0, data=b"a line\n")
    await yard.end(old)
    await yard.tick(10)
    running = await yard.run_job()
    await yard.jobs.take_log(*await yard.runner(running), member=0, offset=0, data=b"alive\n")
    yard.clock.advance(31 * DAY)
    keep = Retention(log_days=30)
    expected = Removed(logs=1, log_bytes=7, keys=0)
    assert await clean(yard.database, keep, dry_run=True) == expected
    _, attempt = await yard.jobs.log_source(yard.user, old, None)
    assert attempt is not None
    assert await yard.jobs.read_log(attempt, 0, 0, 100) == b"a line\n"
    assert await clean(yard.database, keep) == expected
    assert await clean(yard.database, keep) == Removed()
    with pytest.raises(NotFound, match=r"was removed on .* log_days"):
        await yard.jobs.log_source(yard.user, old, None)
    _, attempt = await yard.jobs.log_source(yard.user, running, None)
    assert attempt is not None
    assert await yard.jobs.read_log(attempt, 0, 0, 100) == b"alive\n"
    detail = await yard.detail(old)
    assert detail.job.state == "succeeded"
    assert detail.attempts[0].log_removed_ms == yard.clock.time_ms()
    assert await yard.events("attempt.log_removed") == [("attempt.log_removed", old)]


async def test_a_submissions_key_is_forgotten_after_its_time(yard: Yard) -> None:
    first = await yard.submit(key="once")
    assert (await yard.submit(key="once")).job_id == first.job_id
    yard.clock.advance(29 * DAY)
    assert (await clean(yard.database, Retention())).keys == 0
    yard.clock.advance(2 * DAY)
    assert (await clean(yard.database, Retention(key_days=None))).keys == 0
    assert (await clean(yard.database, Retention())).keys == 1
    assert (await yard.submit(key="once")).job_id != first.job_id
