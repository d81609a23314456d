"""Forecasts over a long queue come from a process of their own, which may die at any time."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.integration.jobs.yard import POLICY, Yard
from trackyard.control.forecast import client as desks
from trackyard.control.forecast.client import ForecastClient, ForecastUnavailable
from trackyard.control.forecast.forecasts import Forecaster
from trackyard.control.forecast.messages import ForecastSetup, StartsQuery
from trackyard.control.forecast.preview import foresee_many, full, lessen
from trackyard.control.listing import ListQuery
from trackyard.leases.rules import LeaseRules
from trackyard.queue.specification import JobRequest, check
from trackyard.queue.views import EtaView


@pytest.fixture
async def desk(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ForecastClient]:
    """A queue too long for a thread, and the process that looks ahead of it."""
    monkeypatch.setattr(desks, "REST_SECONDS", 0.0)
    # On a busy machine the process alone may take long to start.
    monkeypatch.setattr(desks, "PATIENCE_SECONDS", 120.0)
    await yard.run_job(gpus=2, time_limit_seconds=600)
    await yard.submit(gpus=1, time_limit_seconds=60, array="0-119")
    made = ForecastClient(ForecastSetup(yard.database.url, POLICY, LeaseRules()))
    yield made
    await made.close()


async def test_the_process_foresees_what_a_thread_would(yard: Yard, desk: ForecastClient) -> None:
    looked = await yard.scheduler.view()
    snapshot, head = looked.loaded.snapshot, list(looked.decisions.line[:20])
    ahead = Forecaster(desk)
    found = await ahead.starts(looked, head)
    assert found == foresee_many(snapshot, head)
    assert await ahead.start(looked, head[7]) == found[head[7]]
    assert await ahead.lesser(looked, head[0]) == lessen(snapshot, head[0])
    wish = JobRequest(command=["train"], gpus=1, time_limit_seconds=30)
    answer = await ahead.wished(looked, yard.user, wish, check(wish))
    assert answer == full(snapshot, yard.user, wish, check(wish))
    assert desk.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, desk.pid) > 0
    yard.jobs._lists.foresight._ahead.desk = desk
    wanted = ListQuery(team_id=yard.user.team_id, by_position=True, with_eta=True, limit=20)
    await yard.jobs.listing(wanted)
    await yard.jobs._lists.foresight.close()
    listed = (await yard.jobs.listing(wanted)).jobs
    assert {job.job_id: job.eta for job in listed} == found


async def test_a_process_that_was_killed_is_replaced(yard: Yard, desk: ForecastClient) -> None:
    looked = await yard.scheduler.view()
    ahead, first = Forecaster(desk), looked.decisions.line[0]
    known = await ahead.start(looked, first)
    assert known is not None
    killed = desk.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert await ahead.start(looked, first) in (None, known)
    assert await ahead.start(looked, first) == known
    assert desk.pid not in (None, killed)


async def test_the_end_waits_for_no_forecast(yard: Yard, desk: ForecastClient) -> None:
    question = StartsQuery(now_ms=yard.clock.time_ms(), jobs=["any"])
    await desk.ask(question, dict[str, EtaView | None])
    assert desk.pid is not None
    os.kill(desk.pid, signal.SIGSTOP)
    asking = asyncio.ensure_future(desk.ask(question, dict[str, EtaView | None]))
    await asyncio.sleep(0)
    await asyncio.wait_for(desk.close(), 120)
    with pytest.raises(ForecastUnavailable):
        await asking
    with pytest.raises(ForecastUnavailable):
        await desk.ask(question, dict[str, EtaView | None])
