"""Usage of real histories over a fake engine and a clock that stands, on both databases."""

import json

import pytest

from tests.integration.jobs.yard import Yard, member
from trackyard.core.errors import Conflict, InvalidInput
from trackyard.core.node import NodeState
from trackyard.core.ports import ExitCause
from trackyard.fleet import nodes
from trackyard.insight.rates import Rate, RateCard
from trackyard.insight.report import Filter, UsageReport
from trackyard.insight.service import Usage
from trackyard.queue.shares.budgets import TeamBudget, month_bounds, month_of
from trackyard.queue.shares.queues import set_share
from trackyard.queue.shares.settings import TeamShare

HOUR = 3600.0
ALL = Filter()


async def report(yard: Yard, *by: str, wanted: Filter = ALL, hours: float = 100) -> UsageReport:
    now = yard.clock.time_ms()
    since = now - int(hours * HOUR * 1000)
    return await Usage(yard.database).report(since, now, by or ("team",), wanted)


def rounded(classes: dict[str, float]) -> dict[str, float]:
    return {name: round(hours, 3) for name, hours in classes.items() if hours}


async def test_each_phase_of_a_job_is_in_its_class_and_all_adds_up(yard: Yard) -> None:
    """Setup, load, work, a stall, a checkpoint, a lost node: the hours of each class."""
    job = (await yard.submit("train", gpus=2, name="long", experiment="vision")).job_id
    yard.clock.advance(HOUR)
    await yard.beat(job, "environment")
    yard.clock.advance(HOUR)
    await yard.beat(job)
    yard.clock.advance(HOUR)
    await yard.beat(job, progress={"step": 1})
    yard.clock.advance(4 * HOUR)
    now = yard.clock.time_ms()
    saved = {"name": "s1", "step": 100, "created_ms": now, "blocked_ms": 1_800_000}
    await yard.beat(job, checkpoint=saved, progress={"step": 100})
    asked = "SELECT data FROM events WHERE kind = 'checkpoint.saved'"
    ((told,),) = await yard.database.read(lambda reader: reader.all(asked))
    times = json.loads(told)
    assert (times["saved_ms"], times["began_ms"]) == (now, now - 1_800_000)
    yard.clock.advance(2 * HOUR)
    stalled = {"step": 100, "promised_seconds": 60, "stalled": True, "age_seconds": 70}
    await yard.beat(job, progress=stalled)
    yard.clock.advance(HOUR)
    await yard.beat(job, progress={"step": 101, "promised_seconds": 60})
    yard.clock.advance(HOUR)
    await yard.end(job, cause=ExitCause.NODE_LOST)
    found = await report(yard, "job")
    (group,) = [one for one in found.groups if one.key == {"job": job}]
    assert group.name == "long"
    assert rounded(group.classes) == {
        "starting_package": 2.0,
        "starting_environment": 2.0,
        "starting_load": 2.0,
        "productive": 7.0,
        "checkpointing": 1.0,
        "lost": 6.0,
        "stalled": 2.0,
    }
    assert group.goodput == pytest.approx(7 / 22)
    assert sum(found.fleet.values()) == pytest.approx(found.wall_gpu_hours)
    lost = next(one for one in found.losses if one.kind == "lost")
    assert (lost.cause, lost.job, round(lost.gpu_hours, 3)) == ("node_lost", job, 6.0)
    assert (found.interruptions, found.job_mtbf_hours) == (1, pytest.approx(9.0))
    (project,) = (await report(yard, "project", wanted=Filter(project="vision"))).groups
    assert project.key == {"project": "vision"}
    kinds = [kind for kind, about in await yard.events("attempt.first") if about == job]
    assert kinds == ["attempt.first_step"], "said once"


async def test_days_and_weeks_add_up_to_the_window(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    yard.clock.advance(50 * HOUR)
    await yard.end(job)
    whole = await report(yard)
    days = await report(yard, "day", "team")
    assert len(days.groups) >= 3
    assert sum(one.gpu_hours for one in days.groups) == pytest.approx(whole.total.gpu_hours)
    assert days.fleet == pytest.approx(whole.fleet)


async def test_quarantine_and_drain_are_broken_and_what_runs_there_is_not(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await yard.database.write(
        lambda tx: nodes.set_state(tx, "n1", NodeState.QUARANTINED, note="ecc", actor="ann")
    )
    yard.clock.advance(10 * HOUR)
    await yard.end(job)
    found = await report(yard)
    assert rounded(found.fleet) == {"productive": 10.0, "broken": 10.0}
    by_node = await report(yard, "node")
    assert rounded(by_node.groups[0].classes) == {"productive": 10.0, "broken": 10.0}
    assert found.node_failures == 1


async def test_cost_follows_the_rate_card_and_a_closed_month_keeps_its_own(yard: Yard) -> None:
    usage = Usage(yard.database)
    card = RateCard(currency="EUR", default=Rate(per_gpu_hour=2.0))
    await usage.set_rates(card, actor="admin")
    month = month_of(yard.clock.time_ms())
    job = await yard.run_job(gpus=2)
    yard.clock.advance(10 * HOUR)
    await yard.end(job)
    with pytest.raises(InvalidInput, match="not over"):
        await usage.close_month(month, actor="admin")
    until = month_bounds(month)[1]
    yard.clock.advance((until - yard.clock.time_ms()) / 1000 + 1)
    before = await usage.month(month, ("team",), ALL)
    assert before.closed_ms is None
    assert (before.total.cost, before.currency) == (pytest.approx(40.0), "EUR")
    closed = await usage.close_month(month, actor="admin")
    await usage.set_rates(RateCard(default=Rate(per_gpu_hour=9.0)), actor="admin")
    await yard.database.write(lambda tx: tx.run("DELETE FROM attempts"))
    after = await usage.month(month, ("team",), ALL)
    assert (after.closed_ms, after.closed_by) == (closed.closed_ms, "admin")
    assert after.total == before.total
    assert (await usage.month(month, ("day",), ALL)).total.cost == pytest.approx(40.0)
    with pytest.raises(Conflict, match="closed already"):
        await usage.close_month(month, actor="admin")


async def test_a_spent_budget_holds_new_jobs_and_says_why(yard: Yard) -> None:
    usage = Usage(yard.database)
    await usage.set_budget("lab", TeamBudget(gpu_hours=10, warn_at=0.5), actor="admin")
    running = await yard.run_job(gpus=1)
    yard.clock.advance(6 * HOUR)
    await usage.count_budgets()
    assert [row.state for row in await usage.budgets()] == ["warned"]
    yard.clock.advance(6 * HOUR)
    await usage.count_budgets()
    await usage.count_budgets()
    assert [kind for kind, _ in await yard.events("budget.")] == [
        "budget.set",
        "budget.warned",
        "budget.exhausted",
    ]
    waiting = await yard.submit("train", gpus=1, name="next")
    (reason, *_) = (await yard.detail(waiting.job_id)).reasons
    assert reason.code == "budget_used_up"
    assert "`lab` has used up its budget of the month: 12.0 GPU-hours of 10" in reason.sentence
    assert await yard.state(running) == "running", "what runs goes on"
    await usage.set_budget("lab", TeamBudget(gpu_hours=100), actor="admin")
    await yard.tick()
    assert await yard.state(waiting.job_id) == "starting"


async def test_a_department_s_budget_counts_and_holds_its_teams(yard: Yard) -> None:
    usage = Usage(yard.database)
    await yard.directory.create_team("dept", actor="test")
    await member(yard.directory, "bob", "other")
    await yard.database.write(
        lambda tx: set_share(tx, "lab", TeamShare(parent="dept"), actor="admin")
    )
    await usage.set_budget("dept", TeamBudget(gpu_hours=5), actor="admin")
    await yard.run_job(gpus=1)
    yard.clock.advance(6 * HOUR)
    await usage.count_budgets()
    held = await yard.submit("train", gpus=1)
    (reason, *_) = (await yard.detail(held.job_id)).reasons
    assert (reason.code, "`dept`" in reason.sentence) == ("budget_used_up", True)
    await usage.set_budget("dept", TeamBudget(gpu_hours=5, hold=False), actor="admin")
    await yard.tick()
    assert await yard.state(held.job_id) == "starting"


async def test_counters_for_prometheus_agree_with_usage(yard: Yard) -> None:
    usage = Usage(yard.database)
    await usage.gpu_seconds()
    job = await yard.run_job(gpus=1)
    yard.clock.advance(2 * HOUR)
    mid = await usage.gpu_seconds()
    assert (mid["productive"], mid["free"]) == (0.0, 2 * HOUR)
    yard.clock.advance(HOUR)
    await yard.end(job)
    end = await usage.gpu_seconds()
    found = await report(yard)
    assert end == pytest.approx({kind: hours * HOUR for kind, hours in found.fleet.items()})


async def test_the_fleet_over_time_shows_gpus_and_the_queue(yard: Yard) -> None:
    usage = Usage(yard.database)
    job = await yard.run_job(gpus=1)
    await yard.submit("train", gpus=2)
    yard.clock.advance(6 * HOUR)
    await yard.end(job)
    now = yard.clock.time_ms()
    found = await usage.fleet(now - int(10 * HOUR * 1000), now, 10)
    assert [(one.node, one.gpu, one.cells) for one in found.gpus] == [
        ("n1", 0, "....uuuuuu"),
        ("n1", 1, "....ffffff"),
    ]
    (normal,) = found.queue
    assert (normal.priority, normal.depth[-2], normal.started) == ("normal", 1, 1)
    trace = await usage.live_trace(30, 100)
    assert [(one.id, one.gpus, round(one.duration)) for one in trace.jobs] == [(job, 1, 6 * 3600)]
    assert [(one.id, one.gpus) for one in trace.nodes] == [("n1", 2)]
