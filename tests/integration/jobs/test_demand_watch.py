"""What jobs take without having asked, as an engine tells it, on both databases."""

from typing import Any

from tests.integration.jobs.asking import ask
from tests.integration.jobs.yard import Yard
from trackyard.control.undeclared_use import STOP, UndeclaredUseRule, beyond


def uses(yard: Yard, job: str, **nodes: dict[str, float]) -> None:
    """Let the engine tell that a job holds something."""
    told = {f"{job}-a1": nodes} if nodes else {}
    yard.engine.usage = lambda: told  # type: ignore[attr-defined]


async def looks(yard: Yard, *, seconds: float = 4.0, times: int = 2) -> None:
    for _ in range(times):
        await yard.tick(seconds)


async def claims(yard: Yard, job: str) -> list[tuple[Any, ...]]:
    detail = await yard.detail(job)
    return [(one.source, one.state, one.nodes, one.gpus) for one in detail.claims]


async def test_gpus_that_nobody_asked_for_are_charged_where_they_were_seen(
    two_nodes: Yard,
) -> None:
    """Seen once it may be a moment; seen twice it is held, shown, and gone when it is gone."""
    yard = two_nodes
    job = await yard.run_job(name="tune")
    uses(yard, job, n2={"GPU": 1.0, "CPU": 1.0})
    await looks(yard, times=1)
    assert await claims(yard, job) == []
    await looks(yard)
    assert await claims(yard, job) == [("watch", "granted", ["n2"], 1.0)]
    other = await yard.submit(gpus=1, nodes=2)
    reason = (await yard.detail(other.job_id)).reasons[0]
    assert reason.needed == 2 or reason.free == 1
    assert [about for kind, about in await yard.events("claim.seen")] == [job]
    uses(yard, job)
    await looks(yard)
    assert await claims(yard, job) == [("watch", "released", ["n2"], 1.0)]
    assert await yard.state(other.job_id) == "starting"
    assert (await yard.detail(job)).gpu_seconds > 0


async def test_what_was_asked_for_or_declared_is_not_charged_twice(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job()
    await ask(yard, job)
    uses(yard, job, n1={"GPU": 1.0, "CPU": 1.0}, n2={"GPU": 1.0, "CPU": 1.0})
    await looks(yard)
    assert [one[0] for one in await claims(yard, job)] == ["gate"]
    await yard.end(job)
    declared = await yard.run_job(gang="2x1gpu,1cpu")
    uses(yard, declared, n1={"GPU": 1.0, "CPU": 1.0}, n2={"GPU": 1.0, "CPU": 1.0})
    await looks(yard)
    assert await claims(yard, declared) == []
    assert await yard.events("claim.seen") == []


async def test_by_rule_a_job_that_keeps_what_it_did_not_ask_for_is_stopped(
    two_nodes: Yard,
) -> None:
    """Within the grace nothing happens to it; after that it is stopped with the remedy."""
    yard = two_nodes
    yard.jobs.watch.rule = UndeclaredUseRule(action=STOP, grace_seconds=30)
    job = await yard.run_job(gang="1x1gpu,1cpu")
    uses(yard, job, n1={"GPU": 1.0}, n2={"GPU": 1.0})
    await looks(yard)
    assert await yard.state(job) == "running"
    await yard.beat(job)
    await looks(yard, seconds=15, times=3)
    assert await yard.state(job) == "stopped"
    rows = await yard.database.read(
        lambda reader: reader.all("SELECT data FROM events WHERE kind = 'job.stopping'")
    )
    assert "yard submit --gang" in str(rows)


async def test_a_declared_gang_is_held_where_its_workers_really_sit(two_nodes: Yard) -> None:
    """Ray put the worker on the other node than the queue meant: the gang moves, nobody pays."""
    yard = two_nodes
    job = await yard.run_job(gang="1x1gpu,1cpu")
    [meant] = (await yard.attempt(job)).where.nodes
    other = "n2" if meant == "n1" else "n1"
    uses(yard, job, **{other: {"GPU": 1.0, "CPU": 1.0}})
    await looks(yard, times=3)
    assert list((await yard.attempt(job)).where.nodes) == [other]
    assert await claims(yard, job) == []
    assert await yard.events("claim.seen") == []
    beside = await yard.submit(gpus=1)
    assert list((await yard.attempt(beside.job_id)).where.nodes) == [meant]


async def test_what_comes_and_goes_is_charged_by_what_lasts_and_a_restart_forgets_nothing(
    two_nodes: Yard,
) -> None:
    yard = two_nodes
    job = await yard.run_job()
    for amount in (2.0, 3.0, 2.0, 3.0):
        uses(yard, job, n1={"CPU": amount})
        await looks(yard, times=1)
    assert await claims(yard, job) == [("watch", "granted", ["n1"], 0.0)]
    uses(yard, job)
    await yard.restart()
    await yard.beat(job)
    await looks(yard)
    assert (await claims(yard, job))[0][1] == "released"


async def test_more_cpus_alone_are_counted_but_end_no_job(two_nodes: Yard) -> None:
    yard = two_nodes
    yard.jobs.watch.rule = UndeclaredUseRule(action=STOP, grace_seconds=0)
    job = await yard.run_job()
    uses(yard, job, n1={"CPU": 3.0})
    await looks(yard, times=3)
    assert await claims(yard, job) == [("watch", "granted", ["n1"], 0.0)]
    assert await yard.state(job) == "running"
    assert await yard.events("claim.seen") == []


def test_only_what_goes_beyond_is_left() -> None:
    used = {"a": {"GPU": 2.0, "CPU": 1.0}, "b": {"GPU": 0.5}, "c": {"memory": 5.0}}
    assert beyond(used, {"a": {"GPU": 1.0, "CPU": 4.0}, "b": {"GPU": 0.5}}) == {"a": {"GPU": 1.0}}
