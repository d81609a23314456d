"""Order, limits and reasons as the whole loop applies them, on both databases."""

from dataclasses import replace

import pytest

from tests.integration.jobs.yard import Yard, member
from trackyard.control.listing import ListQuery
from trackyard.core.errors import InvalidInput
from trackyard.core.node import NodeState
from trackyard.fleet import nodes
from trackyard.queue.records import load_jobs
from trackyard.queue.shares.queues import (
    QueueSettings,
    TeamShare,
    apply_config,
    delete_queue,
    read_config,
    set_queue,
    set_share,
)
from trackyard.queue.specification import After, JobRequest
from trackyard.testing.engine import fake_node


async def test_half_gpus_share_a_gpu(yard: Yard) -> None:
    """Three half-GPU jobs take two GPUs, one of which holds two."""
    for _ in range(3):
        await yard.run_job(gpus=0.5)
    placed = [
        attempt.placement[0].gpus[0]
        for job in (
            await yard.jobs.listing(ListQuery(team_id=yard.user.team_id, states=["running"]))
        ).jobs
        for attempt in (await yard.detail(job.job_id)).attempts
    ]
    assert sorted(placed.count(gpu) for gpu in set(placed)) == [1, 2]


async def test_an_infeasible_job_says_so_once_and_starts_when_a_node_that_fits_joins(
    yard: Yard,
) -> None:
    job = (await yard.submit(gpus=4)).job_id
    detail = await yard.detail(job)
    assert (detail.job.state, detail.reasons[0].code) == ("queued", "too_large")
    await yard.tick(20)
    assert await yard.events("job.blocked") == [("job.blocked", job)]
    yard.engine.add_node(fake_node("big", gpus=8))
    await yard.tick(11)
    assert await yard.state(job) == "starting"
    assert (await yard.attempt(job)).where.nodes == ("big",)


async def test_a_higher_class_preempts_and_its_victim_resumes(yard: Yard) -> None:
    """The victim saves, waits, and goes on once the other is done; nothing is over-committed."""
    victim = await yard.run_job(gpus=2, preemptible=True, priority="low")
    await yard.tick(1)
    urgent = (await yard.submit(gpus=2, priority="high")).job_id
    await yard.tick()
    assert await yard.states(victim, urgent) == ["queued", "starting"]
    assert ("job.preempting", victim) in await yard.events()
    found = (await yard.jobs.listing(ListQuery(team_id=yard.user.team_id, states=["queued"]))).jobs
    assert [(job.job_id, job.made_room_for) for job in found] == [(victim, urgent)]
    await yard.beat(urgent)
    await yard.end(urgent)
    assert await yard.states(victim, urgent) == ["starting", "succeeded"]
    detail = await yard.detail(victim)
    assert [one.cause for one in detail.attempts] == ["preempted", None]


async def test_who_is_not_preemptible_is_left_alone(yard: Yard) -> None:
    holder = await yard.run_job(gpus=2, priority="low")
    urgent = (await yard.submit(gpus=2, priority="high")).job_id
    await yard.tick(30)
    assert await yard.states(holder, urgent) == ["running", "queued"]
    detail = await yard.detail(urgent)
    assert detail.reasons[0].code == "no_free_gpus"
    assert detail.reasons[0].holders == [holder]
    assert detail.position == 1


async def test_a_chain_runs_in_order_and_a_broken_link_says_so(yard: Yard) -> None:
    first = (await yard.submit(name="one", gpus=1)).job_id
    second = (await yard.submit(name="two", gpus=1, after=[After(job="one")])).job_id
    third = (await yard.submit(gpus=1, after=[After(job=second)])).job_id
    assert await yard.states(first, second, third) == ["starting", "queued", "queued"]
    assert (await yard.detail(second)).reasons[0].code == "waits_for_job"
    await yard.beat(first)
    await yard.end(first)
    assert await yard.states(second, third) == ["starting", "queued"]
    await yard.beat(second)
    await yard.end(second, 1)
    assert (await yard.detail(third)).reasons[0].code == "dependency_never"


async def test_an_array_keeps_its_cap_and_every_member_its_own_run(yard: Yard) -> None:
    done = await yard.jobs.submit(
        yard.user, JobRequest(command=["train"], gpus=0.25, array="0-4%2", name="sweep")
    )
    await yard.tick()
    jobs = [job.job_id for job in done.jobs]
    assert jobs == [f"{done.jobs[0].array_id}-{index}" for index in range(5)]
    assert len({job.run_id for job in done.jobs}) == 5
    assert (await yard.states(*jobs)).count("starting") == 2
    env = yard.specs[f"{jobs[0]}-a1"].platform_env
    assert (env["YARD_ARRAY_INDEX"], env["YARD_ARRAY_SIZE"]) == ("0", "5")
    for job in jobs[:2]:
        await yard.beat(job)
        await yard.end(job)
    assert await yard.states(*jobs) == ["succeeded"] * 2 + ["starting"] * 2 + ["queued"]
    await yard.jobs.stop_jobs(yard.user, done.jobs[0].array_id, 0.0)
    await yard.tick()
    assert await yard.states(*jobs) == ["succeeded"] * 2 + ["stopped"] * 3


async def test_a_drained_node_takes_nothing_new(two_nodes: Yard) -> None:
    yard = two_nodes
    running = await yard.run_job(gpus=1)
    node = (await yard.attempt(running)).where.nodes[0]
    for name in ("n1", "n2"):
        await yard.database.write(
            lambda tx, name=name: nodes.set_state(
                tx, name, NodeState.DRAINED, note="new disk", actor="op"
            )
        )
    waiting = (await yard.submit(gpus=1)).job_id
    assert await yard.states(running, waiting) == ["running", "queued"]
    assert (await yard.detail(waiting)).reasons[0].tier in ("unhealthy", "capacity")
    await yard.database.write(
        lambda tx: nodes.set_state(
            tx, "n1" if node == "n2" else "n2", NodeState.READY, note="", actor="op"
        )
    )
    await yard.tick()
    assert await yard.state(waiting) == "starting"
    kinds = [kind for kind, _ in await yard.events("node.")]
    assert "node.drained" in kinds
    assert "node.undrained" in kinds


async def test_queue_and_team_limits_hold_and_are_audited(yard: Yard) -> None:
    other = await member(yard.directory, "bob", "other")
    await yard.database.write(
        lambda tx: set_queue(tx, "short", QueueSettings(max_running=1), actor="root")
    )
    await yard.database.write(
        lambda tx: set_share(tx, "other", TeamShare(share=2, limit_gpus=0), actor="root")
    )
    first = (await yard.submit(queue="short", gpus=0)).job_id
    second = (await yard.submit(queue="short", gpus=0)).job_id
    assert await yard.states(first, second) == ["starting", "queued"]
    assert (await yard.detail(second)).reasons[0].code == "queue_jobs"
    done = await yard.jobs.submit(other, JobRequest(command=["x"], gpus=1))
    await yard.tick()
    detail = await yard.jobs.detail(other, done.jobs[0].job_id)
    assert detail.reasons[0].tier == "over_quota"
    assert ("queue.set", "short") in await yard.events()
    assert ("team.updated", "other") in await yard.events()
    await yard.jobs.stop_jobs(yard.user, first, 0.0)
    await yard.jobs.stop_jobs(yard.user, second, 0.0)
    await yard.tick()
    await yard.database.write(lambda tx: delete_queue(tx, "short", actor="root"))


async def test_quota_comes_back_from_a_sibling_in_the_department(yard: Yard) -> None:
    """Two GPUs of a department, both with one of its teams; the other one's job takes its own."""
    other = await member(yard.directory, "bob", "other")
    await member(yard.directory, "eve", "research")
    tables = {
        # In this order each alone would be refused.
        "lab": {"parent": "research", "quota_gpus": 1},
        "other": {"parent": "research", "quota_gpus": 1},
        "research": {"quota_gpus": 2},
    }
    await yard.database.write(lambda tx: apply_config(tx, read_config({}, tables)))
    held = [await yard.run_job(f"job{number}", gpus=1, preemptible=True) for number in range(2)]
    mine = (await yard.jobs.submit(other, JobRequest(command=["own"], gpus=1))).jobs[0].job_id
    await yard.tick()
    reasons = (await yard.jobs.detail(other, mine)).reasons
    assert reasons[0].code == "quota_lent"
    assert "lent to" in reasons[0].sentence
    for _ in range(40):
        if await yard.states(*held) != ["running", "running"]:
            break
        for job in held:
            await yard.beat(job)
        await yard.tick(60)
    stopped = [job for job in held if await yard.state(job) != "running"]
    assert len(stopped) == 1
    assert ("job.preempting", stopped[0]) in await yard.events("job.preempting")


async def test_two_teams_share_by_weight(yard: Yard) -> None:
    """With shares of 2:1 and a full queue, GPU time goes 2:1."""
    other = await member(yard.directory, "bob", "other")
    await yard.database.write(lambda tx: set_share(tx, "lab", TeamShare(share=2), actor="root"))
    for who in (yard.user, other):
        await yard.jobs.submit(who, JobRequest(command=["x"], gpus=1, array="0-59"))
    used = {"lab": 0, "other": 0}
    ids = {yard.user.team_id: "lab", other.team_id: "other"}
    for _ in range(45):
        await yard.tick(1)
        for row in await yard.database.read(
            lambda reader: load_jobs(reader, "state = 'starting'")
        ):
            used[ids[row.team_id]] += 1
            yard.engine.finish(f"{row.job_id}-a{row.attempt}")
    assert sum(used.values()) > 60
    assert 1.7 < used["lab"] / used["other"] < 2.4, used


async def test_the_answer_before_queueing(yard: Yard) -> None:
    """Free: at once. Full: behind whom and about when, and what would start now. Never: said."""
    at_once = await yard.jobs.submit(yard.user, JobRequest(command=["x"], gpus=2, dry_run=True))
    assert (at_once.answer.starts_now, at_once.jobs) == (True, [])
    await yard.run_job(gpus=1, time_limit_seconds=600)
    full = (
        await yard.jobs.submit(yard.user, JobRequest(command=["x"], gpus=2, dry_run=True))
    ).answer
    assert (full.feasible, full.starts_now, full.position) == (True, False, 1)
    assert full.eta is not None
    assert full.eta.latest_ms is not None
    assert 0 < full.eta.latest_ms - yard.clock.time_ms() <= 600_000
    assert full.smaller[0].gpus == 1
    never = (
        await yard.jobs.submit(yard.user, JobRequest(command=["x"], gpus=16, dry_run=True))
    ).answer
    assert (never.feasible, never.reasons[0].tier) == (False, "infeasible")
    assert await yard.events("job.submitted") != []
    assert len(await yard.events("job.submitted")) == 1


async def test_gpu_types_are_found_by_part_of_their_name(yard: Yard) -> None:
    fits = (await yard.submit(gpus=1, gpu_types=["FAK"])).job_id
    unknown = (await yard.submit(gpus=1, gpu_types=["H100"])).job_id
    assert await yard.states(fits, unknown) == ["starting", "queued"]
    assert (await yard.detail(unknown)).reasons[0].code == "unknown_gpu_type"


async def test_a_type_of_gpu_that_joins_is_found_by_those_who_wait_for_it(yard: Yard) -> None:
    """Equal requests are one object to a pass; what their words mean follows the nodes."""
    jobs = [(await yard.submit(gpus=1, gpu_types=["h100"])).job_id for _ in range(3)]
    now = yard.clock.time_ms()
    loaded = await yard.database.read(lambda reader: yard.scheduler.board.load(reader, now))
    assert len({id(one.job.request) for one in loaded.snapshot.waiting}) == 1
    node = fake_node("new", gpus=2)
    named = tuple(replace(gpu, model="H100-80GB") for gpu in node.gpus)
    yard.engine.add_node(replace(node, gpus=named))
    await yard.tick(30)
    assert await yard.states(*jobs) == ["starting", "starting", "queued"]
    assert (await yard.detail(jobs[2])).reasons[0].code == "no_free_gpus"


async def test_a_config_file_sets_queues_and_shares_once_and_audited(yard: Yard) -> None:
    """Applied at every start, but only what differs leaves an event."""
    config = read_config({"short": {"max_running": 3}}, {"lab": {"share": 2.0}})
    for _ in range(2):
        await yard.database.write(lambda tx: apply_config(tx, config))
    assert await yard.events("queue.") == [("queue.set", "short")]
    assert await yard.events("team.updated") == [("team.updated", "lab")]
    unknown = read_config({}, {"nobody": {"share": 1.0}})
    with pytest.raises(InvalidInput, match="nobody"):
        await yard.database.write(lambda tx: apply_config(tx, unknown))


async def test_who_looks_sees_what_started_and_what_was_queued_since_the_last_pass(
    yard: Yard,
) -> None:
    """What callers are shown is never older than the last change, whenever the next pass is."""
    job = (await yard.submit(gpus=1)).job_id
    looked = await yard.scheduler.view()
    assert [one.job.id for one in looked.loaded.snapshot.running] == [job]
    later = await yard.jobs.submit(yard.user, JobRequest(command=["train"], gpus=1))
    looked = await yard.scheduler.view()
    assert later.jobs[0].job_id in [one.job.id for one in looked.loaded.snapshot.waiting]
    assert await yard.scheduler.view() is looked


async def test_a_waiting_job_is_told_which_lesser_request_would_start_now(yard: Yard) -> None:
    """One of two GPUs is free: two must wait, one would start; who does not wait is told none."""
    await yard.run_job(gpus=1)
    job = (await yard.submit(gpus=2)).job_id
    (smaller, *_) = await yard.jobs.smaller(job)
    assert (smaller.gpus, smaller.nodes) == (1, 1)
    assert smaller.sentence == "Drop to 1 GPU: starts now."
    await yard.jobs.stop_jobs(yard.user, job, None)
    assert await yard.jobs.smaller(job) == []
