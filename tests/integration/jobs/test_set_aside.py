"""One job must never stop the queue for the others, on both databases."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.integration.jobs.yard import Yard
from trackyard.control import isolation
from trackyard.control.listing import ListQuery
from trackyard.core.errors import InvalidInput
from trackyard.queue.requeue import Requeue
from trackyard.queue.specification import JobRequest
from trackyard.scheduling import Cause, Decisions, Snapshot, Stop, decide
from trackyard.store.database import Tx


async def _spoil(yard: Yard, job: str, **values: Any) -> None:
    """Give a job a request that today's checks would refuse, as an older server stored it."""
    row = await yard.row(job)

    def change(tx: Tx) -> None:
        found = tx.one("SELECT spec FROM job_specs WHERE id = ?", (row.spec_id,))
        assert found is not None
        spec = {**msgspec.json.decode(found[0]), **values}
        tx.run("INSERT INTO job_specs (spec) VALUES (?)", (msgspec.json.encode(spec).decode(),))
        newest = tx.one("SELECT max(id) FROM job_specs")
        assert newest is not None
        tx.run(
            "UPDATE jobs SET spec_id = ?, version = version + 1 WHERE id = ?", (newest[0], row.id)
        )

    await yard.database.write(change)


@pytest.mark.parametrize(
    "change",
    [
        Requeue(nodes=10**16),
        Requeue(nodes=0),
        Requeue(gpus=5000),
        Requeue(time_limit_seconds=1e300),
        Requeue(time_limit_seconds=0.5),
    ],
)
async def test_requeue_keeps_the_bounds_of_submit(yard: Yard, change: Requeue) -> None:
    job = (await yard.submit(gpus=2, hold=True)).job_id
    with pytest.raises(InvalidInput):
        await yard.jobs.requeue_jobs(yard.user, job, change)
    assert (await yard.detail(job)).job.nodes == 1


async def test_a_declared_gang_keeps_the_bounds_of_submit(yard: Yard) -> None:
    with pytest.raises(InvalidInput, match="cpus on one node"):
        await yard.jobs.submit(yard.user, JobRequest(command=["x"], gang="2x9007199254740992cpu"))


async def test_a_job_beyond_all_bounds_is_set_aside_and_the_others_start(yard: Yard) -> None:
    spoiled = (await yard.submit(gpus=1, hold=True)).job_id
    await _spoil(yard, spoiled, nodes=10**16)
    await yard.jobs.release_jobs(yard.user, spoiled)
    other = await yard.run_job(gpus=1)
    assert await yard.states(spoiled, other) == ["queued", "running"]
    detail = await yard.detail(spoiled)
    assert (detail.reasons[0].code, detail.reasons[0].tier) == ("set_aside", "misconfigured")
    assert "10000000000000000" in detail.reasons[0].sentence
    assert detail.position is None
    listed = await yard.jobs.listing(ListQuery(team_id=None))
    assert {job.job_id for job in listed.jobs} == {spoiled, other}
    line = await yard.jobs.listing(ListQuery(team_id=None, by_position=True))
    assert [job.job_id for job in line.jobs] == [spoiled]
    await yard.restart()
    await yard.beat(other)
    another = await yard.run_job(gpus=1)
    assert await yard.states(spoiled, another) == ["queued", "running"]
    assert await yard.events("job.blocked") == [("job.blocked", spoiled)]
    assert yard.scheduler.trouble() == ""
    # Mended by its owner, it is weighed again.
    await yard.end(another)
    await yard.jobs.requeue_jobs(yard.user, spoiled, Requeue(nodes=1))
    await yard.tick()
    assert await yard.state(spoiled) == "starting"


async def test_a_running_job_is_counted_by_what_it_holds(yard: Yard) -> None:
    """What its row asks for by now must not distort what is free."""
    running = await yard.run_job(gpus=1)
    await _spoil(yard, running, nodes=10**16, gpus=2)
    assert await yard.run_job(gpus=1)
    assert (await yard.detail((await yard.submit(gpus=1)).job_id)).reasons[0].code == (
        "no_free_gpus"
    )


def _overflowing(*jobs: str) -> Callable[[Snapshot], Decisions]:
    """Return a decision that fails as long as one of these waits."""

    def fail(snapshot: Snapshot) -> Decisions:
        if any(one.job.name in jobs for one in snapshot.waiting):
            raise OverflowError("Python int too large to convert to C long")
        return decide(snapshot)

    return fail


async def test_whatever_breaks_a_pass_is_found_and_set_aside(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass itself fails on some jobs, for a reason nobody thought of."""
    await yard.run_job(gpus=2)
    bad = [(await yard.submit(gpus=1, name=f"bad{number}")).job_id for number in range(2)]
    good = [(await yard.submit(gpus=1)).job_id for _ in range(5)]
    monkeypatch.setattr(isolation, "decide", _overflowing("bad0", "bad1"))
    await yard.tick(1)
    reasons = [(await yard.detail(job)).reasons[0].code for job in [*bad, *good]]
    assert reasons == ["set_aside"] * 2 + ["no_free_gpus"] * 5
    blocked = await yard.events("job.blocked")
    assert sorted(blocked) == sorted(("job.blocked", job) for job in bad)
    assert yard.scheduler.trouble() == ""
    small = await yard.run_job("cpu", gpus=0)
    assert await yard.state(small) == "running"


async def test_a_pass_that_fails_whatever_waits_is_told_and_lists_still_answer(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = (await yard.submit(gpus=1, hold=True)).job_id

    def fail(_snapshot: Snapshot) -> Decisions:
        raise OverflowError("no number is large enough")

    monkeypatch.setattr(isolation, "decide", fail)
    yard.scheduler.wake()
    await yard.scheduler.attend()
    assert "the last scheduling pass failed" in yard.scheduler.trouble()
    listed = await yard.jobs.listing(ListQuery(team_id=None))
    assert [job.job_id for job in listed.jobs] == [waiting]
    assert (await yard.detail(waiting)).reasons[0].code == "evaluating"
    monkeypatch.setattr(isolation, "decide", decide)
    yard.scheduler.wake()
    await yard.scheduler.attend()
    assert yard.scheduler.trouble() == ""
    assert (await yard.detail(waiting)).reasons[0].code == "held"


async def test_decisions_that_break_a_rule_are_dropped_and_told(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that would stop an equal stops nobody; what else it decides goes on."""
    victim = await yard.run_job(gpus=1, preemptible=True)

    def thrash(snapshot: Snapshot) -> Decisions:
        stops = tuple(
            Stop(
                job=victim,
                for_job=one.job.id,
                cause=Cause.HIGHER_CLASS,
                grace_seconds=60.0,
                lost_seconds=0.0,
            )
            for one in snapshot.waiting
        )
        return replace(decide(snapshot), admissions=(), stops=stops)

    monkeypatch.setattr(isolation, "decide", thrash)
    other = await yard.run_job("other", gpus=1)
    assert await yard.states(victim, other) == ["running", "running"]
    large = (await yard.submit(gpus=2)).job_id
    assert await yard.states(victim, large) == ["running", "queued"]
    assert await yard.events("queue.decision_refused")
    assert "no higher class" in yard.scheduler.warning()
    assert yard.scheduler.trouble() == ""
    monkeypatch.setattr(isolation, "decide", decide)
    yard.scheduler.wake()
    await yard.scheduler.attend()
    assert yard.scheduler.warning() == ""


async def test_a_scheduler_that_stands_still_is_told(yard: Yard) -> None:
    await yard.scheduler.attend()
    assert yard.scheduler.trouble() == ""
    yard.clock.advance(300)
    assert "300 s" in yard.scheduler.trouble()
    await yard.scheduler.attend()
    assert yard.scheduler.trouble() == ""
