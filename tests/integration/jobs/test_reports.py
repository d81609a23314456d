"""What runners report and what becomes of it: logs, samples, checkpoints, stalls, curves."""

import asyncio
import hashlib

import pytest

from tests.integration.jobs.yard import Yard, member
from trackyard.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from trackyard.core.ports import ExitCause, ExitRecord
from trackyard.queue.attempts import logs
from trackyard.queue.attempts.heartbeats import Heartbeat, Sample, Samples
from trackyard.queue.specification import JobRequest
from trackyard.queue.submit import packages
from trackyard.tracking.metrics import history


async def pieces(data: bytes, size: int = 1000):
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def curve(yard: Yard, run_id: str, key: str, *, orphans: bool = False) -> list[int]:
    """Return the visible steps of a metric."""

    def load(reader):
        run = reader.one("SELECT id FROM runs WHERE uuid = ?", (run_id,))
        name = reader.one("SELECT id FROM names WHERE name = ?", (key,))
        points = history.load(reader, run[0], name[0], orphans=orphans)
        return sorted(int(step) for step in points.steps)

    return await yard.database.read(load)


async def test_logs_arrive_without_a_gap_whatever_is_sent_twice(yard: Yard) -> None:
    """Overlaps are cut, a gap is refused with the end held, and any range can be read."""
    job = await yard.run_job(gpus=1)
    runner = await yard.runner(job)
    attempt = await yard.attempt(job)
    text = b"".join(b"line %06d of the log\n" % number for number in range(12_000))
    sent = 0
    for size in (10, 70_000, 3, 150_000, 5):
        start = max(0, sent - 7)
        fits, end = await yard.jobs.take_log(
            *runner, member=0, offset=start, data=text[start : sent + size]
        )
        sent += size
        assert (fits, end) == (True, sent)
    assert await yard.jobs.take_log(*runner, member=0, offset=sent + 1, data=b"x") == (False, sent)
    assert await yard.jobs.take_log(*runner, member=0, offset=0, data=text[:100]) == (True, sent)
    held = await yard.database.read(lambda r: logs.read(r, attempt.id, 0, 0, 10**9))
    assert held == text[:sent]
    for start, limit in ((0, 1), (65_530, 20), (sent - 5, 100), (131_072, 65_536)):
        found = await yard.jobs.read_log(attempt, 0, start, limit)
        assert found == text[start : min(sent, start + limit)]
    tail = await yard.jobs.tail(attempt, 0, 3)
    assert text[tail:sent].count(b"\n") in (2, 3)
    assert tail == 0 or text[tail - 1 : tail] == b"\n"
    with pytest.raises(NotFound):
        await yard.jobs.take_log(*runner, member=7, offset=0, data=b"x")


async def test_follow_tells_the_whole_log_and_ends_with_the_attempt(yard: Yard) -> None:
    """So does who reads it once, right after the end: the rest of the log is waited for."""
    job = await yard.run_job(gpus=1)
    runner = await yard.runner(job)
    attempt = await yard.attempt(job)

    async def follow() -> bytes:
        return b"".join([part async for part in yard.jobs.follow(attempt, 0, 0)])

    following = asyncio.create_task(follow())
    await yard.jobs.take_log(*runner, member=0, offset=0, data=b"one\n")
    await asyncio.sleep(0.02)
    await yard.jobs.take_log(*runner, member=0, offset=4, data=b"two\n")
    await take_exit(yard, job, log_bytes=12)
    reading = asyncio.create_task(yard.jobs.log_end(await yard.attempt(job), 0))
    await asyncio.sleep(0.02)
    assert not following.done()
    assert not reading.done()
    await yard.jobs.take_log(*runner, member=0, offset=8, data=b"end\n")
    assert await asyncio.wait_for(following, 120) == b"one\ntwo\nend\n"
    assert await asyncio.wait_for(reading, 120) == 12


async def take_exit(yard: Yard, job: str, *, code: int = 0, log_bytes: int = 0) -> None:
    principal, attempt_id, epoch = await yard.runner(job)
    data = {
        "attempt_id": attempt_id, "epoch": epoch, "member": 0, "exit_code": code, "signal": None,
        "cause": "succeeded" if code == 0 else "exit_code", "sentence": "It ended.",
        "started_ms": 1, "ended_ms": 2, "duration_seconds": 0.001, "log_bytes": log_bytes,
        "checkpoint": {"name": "step-00000009-ab", "step": 9}, "step": 11,
    }  # fmt: skip
    import msgspec

    record = ExitRecord.from_json(data)
    await yard.jobs.take_exit(principal, attempt_id, epoch, record, msgspec.json.encode(data))


async def test_the_runner_word_ends_the_attempt_before_the_engine_notices(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await take_exit(yard, job, code=4)
    detail = await yard.detail(job)
    assert (detail.job.state, detail.attempts[0].exit_code) == ("failed", 4)
    assert detail.attempts[0].step == 11
    assert [one.step for one in detail.checkpoints] == [9]
    await take_exit(yard, job, code=0)
    assert (await yard.detail(job)).job.state == "failed"


async def test_a_job_that_is_over_before_its_first_heartbeat_still_has_a_start(
    yard: Yard,
) -> None:
    """Very short jobs end before they are heard of; their record says how long they ran."""
    job = (await yard.submit(gpus=1)).job_id
    yard.clock.advance(3)
    await yard.end(job)
    detail = await yard.detail(job)
    assert (detail.job.state, detail.job.ended_ms) == ("succeeded", yard.clock.time_ms())
    assert detail.job.started_ms is not None
    assert detail.attempts[0].started_ms == detail.job.started_ms
    assert detail.attempts[0].admitted_ms <= detail.job.started_ms <= detail.job.ended_ms
    kinds = [kind for kind, _ in await yard.events("job.")]
    assert kinds.index("job.running") < kinds.index("job.succeeded")


async def test_the_last_checkpoint_is_listed_when_the_engine_brings_the_end_first(
    yard: Yard,
) -> None:
    job = await yard.run_job(gpus=1)
    await yard.end(job)
    await take_exit(yard, job)
    detail = await yard.detail(job)
    assert [one.step for one in detail.checkpoints] == [9]
    assert detail.attempts[0].step == 11


async def test_reports_of_another_attempt_or_epoch_are_refused(yard: Yard) -> None:
    """A runner speaks for its own attempt, with its own epoch, and no user speaks as one."""
    first, second = [await yard.run_job(gpus=1) for _ in range(2)]
    principal, attempt_id, epoch = await yard.runner(first)
    _, other_id, _ = await yard.runner(second)
    with pytest.raises(NotFound):
        await yard.jobs.heartbeat(principal, other_id, epoch, Heartbeat())
    with pytest.raises(NotFound):
        await yard.jobs.heartbeat(yard.user, attempt_id, epoch, Heartbeat())
    with pytest.raises(Conflict):
        await yard.jobs.heartbeat(principal, attempt_id, epoch - 1, Heartbeat())
    await yard.end(first)
    with pytest.raises(Conflict, match="over"):
        await yard.jobs.heartbeat(principal, attempt_id, epoch, Heartbeat())


async def test_checkpoints_are_listed_once_and_the_next_attempt_knows_the_last(
    yard: Yard,
) -> None:
    job = await yard.run_job(gpus=1)
    for step in (10, 20, 20):
        saved = {"name": f"step-{step:08d}-aa", "step": step, "size_bytes": 7, "created_ms": 5}
        await yard.beat(job, checkpoint=saved)
    await yard.beat(job, progress={"step": 23})
    yard.engine.lose((await yard.attempt(job)).attempt_id)
    await yard.tick()
    detail = await yard.detail(job)
    assert [one.step for one in detail.checkpoints] == [20, 10]
    assert detail.attempts[1].resume_step == 20
    assert [one.lost_steps for one in detail.attempts] == [3, None]
    assert yard.specs[detail.attempts[1].attempt_id].platform_env["YARD_RESUME_STEP"] == "20"
    assert len(await yard.events("checkpoint.saved")) == 2


async def test_a_stall_and_its_end_become_events(yard: Yard) -> None:
    job = await yard.run_job(gpus=1, progress_seconds=60)
    stalled = {"age_seconds": 90.0, "promised_seconds": 60.0, "stalled": True}
    await yard.beat(job, progress=stalled)
    assert (await yard.detail(job)).job.stalled
    yard.clock.advance(11)
    await yard.log(job, loss=(1, 0.5))
    await yard.beat(job, progress=stalled)
    assert not (await yard.detail(job)).job.stalled
    kinds = [kind for kind, about in await yard.events("job.") if about == job]
    assert kinds[-2:] == ["job.stalled", "job.recovered"]


async def test_a_loss_that_is_no_number_is_told_once(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await yard.log(job, **{"train/loss": (3, float("nan")), "other": (3, 1.0)})
    for _ in range(2):
        yard.clock.advance(11)
        await yard.beat(job)
    assert await yard.events("job.loss_nan") == [("job.loss_nan", job)]


async def test_a_resumed_attempt_cuts_what_it_went_back_behind(yard: Yard) -> None:
    """One curve over three attempts; what was rolled back stays; lone values cut nothing."""
    job = await yard.run_job(gpus=1)
    run_id = (await yard.row(job)).run_uuid
    for step in range(1, 10):
        await yard.log(job, loss=(step, 10.0 - step))
    yard.engine.lose((await yard.attempt(job)).attempt_id)
    await yard.tick()
    await yard.log(job, parameters=(0, 7e9))
    await yard.log(job, loss=(6, 100.0))
    latest = (await yard.tracking.run(yard.user, run_id)).data.metrics
    assert b'"step":6' in bytes(latest)  # type: ignore[arg-type]
    for step in (7, 8):
        await yard.log(job, loss=(step, 100.0 + step))
    assert await curve(yard, run_id, "loss") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert await curve(yard, run_id, "loss", orphans=True) == [6, 7, 8, 9]
    assert await yard.events("job.rolled_back") == [("job.rolled_back", job)]
    yard.engine.lose((await yard.attempt(job)).attempt_id)
    await yard.tick(2)
    await yard.log(job, loss=(9, 1.0))
    assert await curve(yard, run_id, "loss") == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert len(await yard.events("job.rolled_back")) == 1


async def test_samples_become_system_metrics_once_and_are_never_rolled_back(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    run_id = (await yard.row(job)).run_uuid
    runner = await yard.runner(job)
    now = yard.clock.time_ms()
    batch = Samples(
        samples=[
            Sample(seq=n, time_ms=now + n * 5000, values={"system/cpu": n * 10.0})
            for n in (1, 2, 3)
        ]
    )
    await yard.jobs.take_samples(*runner, batch)
    await yard.jobs.take_samples(*runner, batch)
    await yard.log(job, loss=(5, 1.0))
    yard.engine.lose((await yard.attempt(job)).attempt_id)
    await yard.tick()
    await yard.log(job, loss=(1, 1.0))
    assert await curve(yard, run_id, "system/cpu") == [5, 10, 15]


async def test_packages_are_what_their_name_says_and_stay_in_their_team(yard: Yard) -> None:
    """A wrong digest and an oversized upload are refused; only its job's token may fetch it."""
    data = b"PK" + bytes(range(256)) * 40
    digest = hashlib.sha256(data).hexdigest()
    keeper = yard.jobs.packages
    row, created = await keeper.put(
        yard.user, digest, pieces(data), length=len(data), format_="zip"
    )
    again, fresh = await keeper.put(yard.user, digest, pieces(data), length=None, format_="zip")
    assert (created, fresh, row.blob) == (True, False, again.blob)
    wrong = hashlib.sha256(b"x").hexdigest()
    with pytest.raises(InvalidInput, match="nothing was kept"):
        await keeper.put(yard.user, wrong, pieces(data), length=None, format_="zip")
    with pytest.raises(TooLarge):
        await keeper.put(
            yard.user, wrong, pieces(data), length=packages.LIMIT_BYTES + 1, format_="zip"
        )
    other = await member(yard.directory, "bob", "other")
    with pytest.raises(NotFound):
        await keeper.open(other, digest)
    with pytest.raises(InvalidInput, match="upload it first"):
        await yard.jobs.submit(other, JobRequest(command=["x"], package=digest))
    job = await yard.run_job(gpus=1, package=digest)
    spec = yard.specs[f"{job}-a1"]
    assert spec.package is not None
    assert spec.package.location.endswith(f"/api/v1/packages/{digest}")
    mine, _, _ = await yard.runner(job)
    assert b"".join([p async for p in keeper.read(await keeper.open(mine, digest))]) == data
    stranger, _, _ = await yard.runner(await yard.run_job(gpus=1))
    with pytest.raises(NotFound):
        await keeper.open(stranger, digest)


async def test_an_engine_cause_keeps_the_job_waiting_with_its_word(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await yard.end(job, 1, ExitCause.ENGINE)
    detail = await yard.detail(job)
    assert detail.job.state == "queued"
    await yard.tick(2)
    assert (await yard.row(job)).attempt == 2


async def test_the_step_of_an_attempt_is_the_last_one_it_logged(yard: Yard) -> None:
    """While it runs as of the last heartbeat, at its end to the last; the next one starts anew."""
    job = await yard.run_job(retries=1)
    await yard.log(job, loss=(41, 1.0))
    yard.clock.advance(30)
    await yard.beat(job)
    assert (await yard.detail(job)).job.step == 41
    await yard.log(job, loss=(57, 0.5), accuracy=(50, 0.1))
    await yard.end(job, exit_code=1)
    await yard.tick(30)
    await yard.beat(job)
    await yard.log(job, loss=(3, 2.0))
    await yard.end(job)
    assert [one.step for one in (await yard.detail(job)).attempts] == [57, 3]


async def test_a_step_told_to_the_runner_counts_where_nothing_is_logged(yard: Yard) -> None:
    job = await yard.run_job()
    yard.clock.advance(30)
    await yard.beat(job, progress={"step": 12})
    await yard.end(job)
    assert [one.step for one in (await yard.detail(job)).attempts] == [12]
