"""Alerts of jobs on both databases, by a clock that the test moves."""

from typing import Any

import pytest

from tests.integration.jobs.yard import Yard
from trackyard.notify.alerts.loop import AlertLoop


class Watcher:
    """The loop over a yard's rules, passed by hand."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.loop = self.restarted()

    def restarted(self) -> AlertLoop:
        """Return a loop that knows nothing but the database, as after a restart."""
        scheduler = self.yard.scheduler
        return AlertLoop(
            self.yard.database,
            is_leader=lambda: scheduler.is_leader,
            prove=scheduler.leadership.prove,
            told=lambda: None,
        )

    async def at(self, seconds: float, *, restart: bool = False) -> list[tuple[str, str, str]]:
        """Let time pass and look; return the incidents by subject, state and sentence."""
        self.yard.clock.advance(seconds)
        if restart:
            self.loop = self.restarted()
        while await self.loop.step() == 0.0:
            pass
        rows: list[Any] = await self.yard.database.read(
            lambda reader: reader.all(
                "SELECT subject_id, state, sentence FROM alert_incidents ORDER BY id"
            )
        )
        return [(row[0], row[1], row[2]) for row in rows]


@pytest.fixture
async def watcher(yard: Yard) -> Watcher:
    found = Watcher(yard)
    await yard.tick()
    await found.at(0)
    return found


async def test_a_long_wait_fires_and_ends_with_the_start(yard: Yard, watcher: Watcher) -> None:
    first = await yard.run_job(gpus=2)
    waiting = (await yard.submit(gpus=2, alerts=["wait > 2h"])).job_id
    assert await watcher.at(0) == []
    assert await watcher.at(3600) == []
    [(subject, state, _)] = await watcher.at(3601, restart=True)
    assert (subject, state) == (waiting, "open")
    await yard.beat(first)
    await yard.end(first)
    await yard.tick()
    assert [one[1] for one in await watcher.at(6)] == ["resolved"]


async def test_a_stall_is_no_sign_at_all_for_its_time(yard: Yard, watcher: Watcher) -> None:
    job = await yard.run_job(gpus=1, alerts=["stall 20m"])
    runner = await yard.runner(job)
    await watcher.at(6)
    await yard.log(job, loss=(1, 2.0))
    assert await watcher.at(900) == []
    await yard.jobs.take_log(*runner, member=0, offset=0, data=b"a line\n")
    assert await watcher.at(900) == []
    assert await watcher.at(600) == []
    assert [one[:2] for one in await watcher.at(700)] == [(job, "open")]
    await yard.log(job, loss=(2, 2.0))
    assert [one[1] for one in await watcher.at(6)] == ["resolved"]


async def test_a_threshold_for_a_time_survives_restarts_between_any_two_looks(
    yard: Yard, watcher: Watcher
) -> None:
    job = await yard.run_job(gpus=1, alerts=["loss > 10 for 5m"])
    await yard.log(job, loss=(1, 20.0))
    assert await watcher.at(6) == []
    assert await watcher.at(200, restart=True) == []
    [(_, state, sentence)] = await watcher.at(101, restart=True)
    assert (state, sentence) == ("open", "loss is 20 (> 10) at step 1, for 5 min.")
    assert len(await watcher.at(6, restart=True)) == 1


async def test_no_point_of_a_metric_counts_only_while_it_runs(
    yard: Yard, watcher: Watcher
) -> None:
    blocker = await yard.run_job(gpus=2)
    job = (await yard.submit(gpus=1, alerts=["no loss for 15m"])).job_id
    assert await watcher.at(7200) == []
    await yard.beat(blocker)
    await yard.end(blocker)
    await yard.tick()
    await yard.beat(job)
    assert await watcher.at(6) == []
    assert [one[:2] for one in await watcher.at(900)] == [(job, "open")]


async def test_a_line_in_the_log_fires_once_for_an_attempt(yard: Yard, watcher: Watcher) -> None:
    job = await yard.run_job(gpus=1, alerts=["log cuda-oom"])
    runner = await yard.runner(job)
    text = b"step 1\nRuntimeError: CUDA out of mem"
    await yard.jobs.take_log(*runner, member=0, offset=0, data=text)
    assert await watcher.at(6) == []
    rest = b"ory. Tried to allocate\nCUDA out of memory again\n"
    await yard.jobs.take_log(*runner, member=0, offset=len(text), data=rest)
    [(subject, _, sentence)] = await watcher.at(6)
    assert subject == job
    assert sentence == ("CUDA out of memory: RuntimeError: CUDA out of memory. Tried to allocate")
    assert len(await watcher.at(6, restart=True)) == 1


async def test_an_array_shares_its_rules_until_its_last_job_ends(
    yard: Yard, watcher: Watcher
) -> None:
    array = await yard.submit(gpus=1, array="0-1", alerts=["state succeeded"])
    await watcher.at(0)
    for job in (f"{array.array_id}-0", f"{array.array_id}-1"):
        await yard.beat(job)
        await yard.end(job)
        await watcher.at(6)
    assert [one[0] for one in await watcher.at(6)] == [
        f"{array.array_id}-0",
        f"{array.array_id}-1",
    ]
    rules = await yard.database.read(
        lambda reader: reader.all("SELECT scope, enabled FROM alert_rules")
    )
    assert [tuple(row) for row in rules] == [(array.array_id, 0)]
