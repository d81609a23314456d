"""What a running job asks for after it has started, over a fake engine, on both databases."""

from typing import Any

import pytest

from tests.integration.jobs.asking import ask
from tests.integration.jobs.yard import Yard, member
from trackyard.control.late_demand import DemandReply
from trackyard.core.errors import Conflict, Denied, InvalidInput
from trackyard.core.ports import ExitCause
from trackyard.queue.attempts.demand import DemandRequest
from trackyard.queue.requeue import Requeue
from trackyard.queue.shares.queues import QueueSettings, TeamShare, set_queue, set_share


async def give_back(yard: Yard, job: str, key: str = "train") -> bool:
    runner, _, _ = await yard.runner(job)
    done = await yard.jobs.demands.release(runner, key)
    await yard.tick()
    return done.released


def nodes_of(reply: DemandReply) -> list[str]:
    return sorted(one.node for one in reply.nodes)


async def test_a_demand_is_given_shown_and_charged_and_ends_with_its_release(
    two_nodes: Yard,
) -> None:
    """Two workers get a GPU on each node; the claim names its parent, and its team pays."""
    yard = two_nodes
    job = await yard.run_job("python train.py", name="train")
    reply = await ask(yard, job)
    assert (reply.state, reply.workers, nodes_of(reply)) == ("granted", 2, ["n1", "n2"])
    shown = await yard.detail(reply.claim)
    assert (shown.job.state, shown.job.parent, shown.job.gpus) == ("running", job, 2)
    assert shown.job.command == f"2x1gpu,1cpu for {job}"
    assert shown.job.run_id == (await yard.detail(job)).job.run_id
    assert yard.engine.started == [f"{job}-a1"]
    await yard.tick(10)
    assert await give_back(yard, job)
    assert not await give_back(yard, job)
    detail = await yard.detail(job)
    assert [(one.state, one.demand, one.gpus) for one in detail.claims] == [
        ("released", "2x1gpu,1cpu", 2.0)
    ]
    assert detail.gpu_seconds == 20.0
    assert await yard.state(reply.claim) == "succeeded"
    assert await yard.state(job) == "running"
    use = await yard.database.read(lambda reader: reader.one("SELECT usage FROM team_shares"))
    assert use is not None
    assert use[0] == pytest.approx(20.0, abs=0.1)
    kinds = [kind for kind, about in await yard.events("claim.") if about == job]
    assert kinds == ["claim.asked", "claim.granted", "claim.released"]


async def test_a_demand_waits_as_a_whole_with_its_reason_and_no_half_gang_is_held(
    two_nodes: Yard,
) -> None:
    """Two gangs of two on two GPUs run one after the other; neither sits on one GPU."""
    yard = two_nodes
    first, second = await yard.run_job(name="a"), await yard.run_job(name="b")
    assert (await ask(yard, first)).state == "granted"
    waiting = await ask(yard, second)
    assert (waiting.state, waiting.nodes, waiting.position) == ("waiting", [], 1)
    assert waiting.reason
    assert waiting.sentence.startswith("2x1gpu,1cpu waits: ")
    assert (await yard.detail(waiting.claim)).reasons[0].code == waiting.reason
    await give_back(yard, first)
    assert (await ask(yard, second)).state == "granted"


@pytest.mark.parametrize("how", ["ends", "fails", "is lost", "is stopped", "is preempted"])
async def test_a_claim_ends_with_the_attempt_whatever_ends_it(two_nodes: Yard, how: str) -> None:
    """Granted or waiting, nothing is left of it."""
    yard = two_nodes
    job = await yard.run_job(preemptible=True)
    granted = await ask(yard, job)
    waiting = await ask(yard, job, key="more")
    assert (granted.state, waiting.state) == ("granted", "waiting")
    if how == "is lost":
        yard.engine.lose((await yard.attempt(job)).attempt_id)
        await yard.tick()
    elif how == "is stopped":
        await yard.jobs.stop_jobs(yard.user, job, 0)
        await yard.tick(1)
        await yard.tick(1)
    elif how == "is preempted":
        await yard.end(job, cause=ExitCause.PREEMPTED)
    else:
        await yard.end(job, 0 if how == "ends" else 1)
    assert await yard.states(granted.claim, waiting.claim) == ["succeeded", "stopped"]
    snapshot = (await yard.scheduler.view()).loaded.snapshot
    assert not [one for one in (*snapshot.running, *snapshot.waiting) if one.job.part_of]


async def test_preempting_a_claim_preempts_its_job_with_its_grace(two_nodes: Yard) -> None:
    """The engine is told to stop the job, never the claim; the urgent job follows."""
    yard = two_nodes
    job = await yard.run_job(preemptible=True, grace_seconds=7)
    claim = (await ask(yard, job)).claim
    await yard.tick(5)
    urgent = await yard.submit(gpus=1, nodes=2, priority="high")
    await yard.tick(1)
    first = (await yard.detail(job)).attempts[0]
    assert (first.state, first.saved) == ("preempted", True)
    row = await yard.database.read(
        lambda reader: reader.one(
            "SELECT stop_reason, stops_for, grace_ms FROM attempts WHERE attempt_id = ?",
            (first.attempt_id,),
        )
    )
    assert row == ("preempted", urgent.job_id, 7000)
    assert await yard.states(claim, urgent.job_id) == ["succeeded", "starting"]
    assert not [one for one in yard.engine.started if one.startswith(claim)]


async def test_stopping_a_claim_stops_the_job_it_is_for(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job()
    claim = (await ask(yard, job)).claim
    await yard.jobs.stop_jobs(yard.user, claim, 0)
    await yard.tick(1)
    await yard.tick(1)
    assert await yard.states(job, claim) == ["stopped", "succeeded"]


async def test_a_claim_is_not_queued_again_by_itself_and_a_stopping_job_gets_nothing_more(
    two_nodes: Yard,
) -> None:
    yard = two_nodes
    job = await yard.run_job()
    claim = (await ask(yard, job, 1)).claim
    await give_back(yard, job)
    with pytest.raises(InvalidInput, match="part of"):
        await yard.jobs.requeue_jobs(yard.user, claim, Requeue())
    runner, _, _ = await yard.runner(job)
    await yard.jobs.stop_jobs(yard.user, job, 30)
    with pytest.raises(Conflict, match="nothing more"):
        await yard.jobs.demands.ask(runner, DemandRequest(key="late", workers=1))


async def test_asking_again_keeps_the_nodes_and_another_size_replaces_the_claim(
    two_nodes: Yard,
) -> None:
    """A worker group that starts again goes on where it was; a resized one stands in line."""
    yard = two_nodes
    job = await yard.run_job()
    first = await ask(yard, job, generation=1)
    again = await ask(yard, job, generation=2)
    assert (again.claim, again.state) == (first.claim, "granted")
    with pytest.raises(Conflict, match="newer demand"):
        await ask(yard, job, generation=1)
    smaller = await ask(yard, job, 1, generation=3)
    assert smaller.claim != first.claim
    assert len(smaller.nodes) == 1
    assert await yard.state(first.claim) == "succeeded"


async def test_a_claim_on_a_node_that_went_down_is_replaced_elsewhere(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job()
    first = await ask(yard, job, 1, generation=1)
    down = nodes_of(first)[0]
    yard.engine.lose_node(down)
    await yard.tick(11)
    if (await yard.row(job)).attempt != 1 or await yard.state(job) != "running":
        await yard.tick(2)
        await yard.beat(job)
    again = await ask(yard, job, 1, generation=2)
    assert again.state == "granted"
    assert down not in nodes_of(again)


async def test_an_elastic_demand_takes_what_is_free_and_at_least_its_least(
    two_nodes: Yard,
) -> None:
    yard = two_nodes
    await yard.run_job(gpus=1)
    job = await yard.run_job()
    reply = await ask(yard, job, 4, least=1)
    assert (reply.state, reply.workers, len(reply.nodes)) == ("granted", 1, 1)


async def test_several_workers_share_a_node_and_fractions_share_a_gpu(yard: Yard) -> None:
    """Two on one node of two GPUs; half a GPU each makes one."""
    whole = await yard.run_job()
    reply = await ask(yard, whole)
    assert [(one.node, one.gpus) for one in reply.nodes] == [("n1", 2.0)]
    await give_back(yard, whole)
    half = await ask(yard, whole, 1, 0.5, key="half")
    assert [one.gpus for one in half.nodes] == [0.5]
    more = await ask(yard, whole, 1, 0.5, key="other")
    assert more.state == "granted"


async def test_limits_hold_for_demands_and_do_not_count_them_as_jobs(two_nodes: Yard) -> None:
    """With one job at once a job still gets its workers; with one GPU its team gets no two."""
    yard = two_nodes

    async def limit(**share: Any) -> None:
        await yard.database.write(
            lambda tx: set_share(tx, "lab", TeamShare(**share), actor="test")
        )

    await limit(max_running=1)
    await yard.database.write(
        lambda tx: set_queue(tx, "default", QueueSettings(max_running=1), actor="test")
    )
    job = await yard.run_job()
    assert (await ask(yard, job)).state == "granted"
    await give_back(yard, job)
    await limit(limit_gpus=1)
    refused = await ask(yard, job, key="two")
    assert (refused.state, refused.reason) == ("waiting", "larger_than_quota")
    assert (await ask(yard, job, 1, key="one")).state == "granted"


async def test_only_the_running_attempt_itself_may_ask(two_nodes: Yard) -> None:
    yard = two_nodes
    demand = DemandRequest(key="train", workers=1, resources={"GPU": 1})
    with pytest.raises(Denied, match="token of an attempt"):
        await yard.jobs.demands.ask(yard.user, demand)
    job = await yard.run_job()
    runner, _, _ = await yard.runner(job)
    for wrong in (
        DemandRequest(key="", workers=1),
        DemandRequest(key="k", workers=0),
        DemandRequest(key="k", workers=1, resources={"GPU": 1.5}),
        DemandRequest(key="k", workers=1, strategy="SOMEWHERE"),
        DemandRequest(key="k", workers=1, least=2),
    ):
        with pytest.raises(InvalidInput):
            await yard.jobs.demands.ask(runner, wrong)
    await yard.end(job)
    with pytest.raises(Conflict, match="over"):
        await yard.jobs.demands.ask(runner, demand)


async def test_a_restarted_server_finds_claims_as_they_were(two_nodes: Yard) -> None:
    """Neither the engine nor silence can end a claim; a waiting one is given later."""
    yard = two_nodes
    job, other = await yard.run_job(), await yard.run_job()
    held = await ask(yard, job)
    waiting = await ask(yard, other)
    await yard.restart()
    for _ in range(8):
        await yard.tick(12)
        await yard.beat(job)
        await yard.beat(other)
    assert await yard.states(held.claim, waiting.claim) == ["running", "queued"]
    await give_back(yard, job)
    assert await yard.state(waiting.claim) == "running"


async def test_a_declared_gang_is_held_before_the_command_starts(two_nodes: Yard) -> None:
    """The engine starts the command alone, without GPUs; demands within the gang need no claim."""
    yard = two_nodes
    job = await yard.run_job(gang="2x1gpu,1cpu", cpus=1)
    spec = yard.specs[f"{job}-a1"]
    assert [(share.gpus, share.cpus) for share in spec.placement] == [((), 1.0)]
    assert spec.platform_env["YARD_GANG"] == "2x1gpu,1cpu"
    assert spec.platform_env["TUNE_MAX_PENDING_TRIALS_PG"] == "2"
    attempt = await yard.attempt(job)
    assert (attempt.members, sorted(attempt.where.nodes)) == (1, ["n1", "n2"])
    inside = await ask(yard, job)
    assert (inside.state, inside.claim, nodes_of(inside)) == ("granted", "", ["n1", "n2"])
    beyond = await ask(yard, job, 1, key="more")
    assert (beyond.state, bool(beyond.claim)) == ("waiting", True)
    other = await yard.submit(gpus=1)
    assert await yard.state(other.job_id) == "queued"
    await yard.end(job)
    assert await yard.state(other.job_id) == "starting"


async def test_a_queue_may_declare_the_gang_of_jobs_that_ask_for_nothing(two_nodes: Yard) -> None:
    yard = two_nodes
    await yard.database.write(
        lambda tx: set_queue(tx, "ray", QueueSettings(gang="1x1gpu"), actor="test")
    )
    job = await yard.submit(queue="ray")
    own = await yard.submit(queue="ray", gpus=1)
    assert ((await yard.detail(job.job_id)).job.gpus, own.gpus) == (1, 1)
    assert (await yard.detail(own.job_id)).spec.get("gang") is None


async def test_another_team_pays_nothing_for_a_claim(two_nodes: Yard) -> None:
    yard = two_nodes
    await member(yard.directory, "bob", "other")
    job = await yard.run_job()
    await ask(yard, job)
    teams = {one.id: one for one in (await yard.scheduler.view()).loaded.snapshot.teams}
    await yard.tick(10)
    teams = {one.id: one for one in (await yard.scheduler.view()).loaded.snapshot.teams}
    assert teams["lab"].usage_gpu_seconds > 15
    assert teams["other"].usage_gpu_seconds == 0


async def test_an_elastic_demand_keeps_to_its_team_limit_and_learns_when_it_may_grow(
    two_nodes: Yard,
) -> None:
    """One GPU is allowed, so one worker starts; a probe says when a second would be given."""
    yard = two_nodes

    async def limit(gpus: float | None) -> None:
        share = TeamShare(limit_gpus=gpus)
        await yard.database.write(lambda tx: set_share(tx, "lab", share, actor="test"))
        await yard.tick()

    await limit(1)
    job = await yard.run_job()
    first = await ask(yard, job, 2, least=1, generation=1)
    assert (first.state, first.workers) == ("granted", 1)
    runner, _, _ = await yard.runner(job)
    probe = DemandRequest(
        key="train", workers=2, least=1, resources={"GPU": 1, "CPU": 1}, probe=True
    )
    assert (await yard.jobs.demands.ask(runner, probe)).state == "waiting"
    await limit(2)
    assert (await yard.jobs.demands.ask(runner, probe)).state == "granted"
    grown = await ask(yard, job, 2, least=1, generation=2)
    assert (grown.state, grown.workers) == ("granted", 2)
