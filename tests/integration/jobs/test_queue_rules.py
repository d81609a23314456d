"""What queues and teams allow: default requests, classes and budgets, preemption by default."""

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.jobs.yard import Yard, member
from trackyard.access.principal import Principal, Role
from trackyard.control.service import Submitted
from trackyard.core.errors import Denied, InvalidInput
from trackyard.queue.requeue import Requeue
from trackyard.queue.shares.queues import set_queue, set_share
from trackyard.queue.shares.settings import QueueSettings, SlurmOptions, TeamShare
from trackyard.queue.specification import After, JobRequest

GIB = 2**30
HOUR = 3600.0


async def queue(yard: Yard, name: str, **rules: Any) -> None:
    settings = QueueSettings(**rules)
    await yard.database.write(lambda tx: set_queue(tx, name, settings, actor="test"))


async def team(yard: Yard, **share: Any) -> None:
    settings = TeamShare(**share)
    await yard.database.write(lambda tx: set_share(tx, "lab", settings, actor="test"))


async def ask(yard: Yard, who: Principal | None = None, **wish: Any) -> Submitted:
    return await yard.jobs.submit(who or yard.user, JobRequest(command=["train"], **wish))


def maintainer(yard: Yard) -> Principal:
    return replace(yard.user, role=Role.maintainer)


# -- default requests ---------------------------------------------------------------------------


async def test_sixty_jobs_without_cpus_do_not_run_at_once_on_eight(yard: Yard) -> None:
    array = (await ask(yard, array="0-59")).jobs
    await yard.tick()
    states = await yard.states(*(job.job_id for job in array))
    assert states.count("starting") == 8
    waiting = array[states.index("queued")].job_id
    reason = (await yard.detail(waiting)).reasons[0]
    assert reason.code == "no_free_cpus"
    assert "1 CPU" in reason.sentence
    assert "GPU" not in reason.sentence


async def test_no_cpus_may_be_asked_for_where_the_queue_allows_it(yard: Yard) -> None:
    await queue(yard, "strict", zero_cpus=False)
    array = (await ask(yard, array="0-19", cpus=0)).jobs
    await yard.tick()
    assert set(await yard.states(*(job.job_id for job in array))) == {"starting"}
    with pytest.raises(InvalidInput, match="takes no jobs without CPUs"):
        await ask(yard, cpus=0, queue="strict")
    with pytest.raises(InvalidInput, match="takes no jobs without CPUs"):
        await yard.jobs.requeue_jobs(yard.user, array[0].job_id, Requeue(queue="strict"))
    assert (await ask(yard, queue="strict")).jobs


async def test_a_gpu_job_holds_its_part_of_the_node_and_is_not_limited_by_it(yard: Yard) -> None:
    """Memory that nobody asked for is reserved, but is no reason to end the job."""
    job = await yard.run_job(gpus=1)
    share = (await yard.detail(job)).attempts[0].placement[0]
    assert (share.cpus, share.memory_bytes) == (3.5, 28 * GIB)
    launched = yard.specs[f"{job}-a1"].placement[0]
    assert (launched.cpus, launched.memory_bytes, launched.limits_memory) == (
        3.5,
        28 * GIB,
        False,
    )
    stated = await yard.run_job(gpus=1, memory_bytes=GIB)
    assert yard.specs[f"{stated}-a1"].placement[0].limits_memory


async def test_defaults_follow_the_queue_and_its_limits_hold(yard: Yard) -> None:
    await queue(yard, "small", default_cpus=2, default_memory_bytes=GIB, max_cpus_per_job=4)
    job = await yard.run_job(queue="small")
    share = (await yard.detail(job)).attempts[0].placement[0]
    assert (share.cpus, share.memory_bytes) == (2, GIB)
    with pytest.raises(InvalidInput, match="8 CPUs and queue small allows 4"):
        await ask(yard, cpus=4, nodes=2, queue="small")
    # A change of the queue holds for what waits already.
    held = (await ask(yard, queue="small", hold=True)).jobs[0].job_id
    await queue(yard, "small", default_cpus=3)
    await yard.jobs.release_jobs(yard.user, held)
    await yard.tick()
    assert (await yard.detail(held)).attempts[0].placement[0].cpus == 3


async def test_the_answer_tells_what_is_asked_for_by_default(yard: Yard) -> None:
    answer = (await ask(yard, gpus=1, dry_run=True)).answer
    assert (answer.cpus, answer.memory_bytes) == (3.5, 28 * GIB)


# -- classes and budgets --------------------------------------------------------------------------


async def test_urgent_needs_a_maintainer(yard: Yard) -> None:
    with pytest.raises(Denied, match="priority urgent in queue default needs the role maintainer"):
        await ask(yard, priority="urgent", dry_run=True)
    with pytest.raises(Denied, match="Use --priority high"):
        await ask(yard, priority="urgent")
    job = (await ask(yard, priority="high", hold=True)).jobs[0].job_id
    with pytest.raises(Denied):
        await yard.jobs.requeue_jobs(yard.user, job, Requeue(priority="urgent"))
    await yard.jobs.requeue_jobs(maintainer(yard), job, Requeue(priority="urgent"))
    # Its owner cannot send it round again in that class either.
    with pytest.raises(Denied):
        await yard.jobs.requeue_jobs(yard.user, job, Requeue(gpus=1))
    await yard.jobs.requeue_jobs(yard.user, job, Requeue(priority="normal"))


async def test_the_queue_decides_before_the_team_and_the_team_before_the_product(
    yard: Yard,
) -> None:
    await team(yard, classes={"urgent": "member", "high": "owner"})
    assert (await ask(yard, priority="urgent")).jobs
    with pytest.raises(Denied, match="Use --priority normal"):
        await ask(yard, priority="high")
    await queue(yard, "calm", classes={"urgent": "admin", "high": "member"})
    assert (await ask(yard, priority="high", queue="calm")).jobs
    with pytest.raises(Denied, match="is for admins"):
        await ask(yard, maintainer(yard), priority="urgent", queue="calm")
    admin = replace(yard.user, is_admin=True)
    assert (await ask(yard, admin, priority="urgent", queue="calm")).jobs


async def test_a_rule_about_an_unknown_class_or_role_is_refused(yard: Yard) -> None:
    with pytest.raises(InvalidInput, match="none of scavenge"):
        await queue(yard, "q", classes={"top": "member"})
    with pytest.raises(InvalidInput, match="none of member"):
        await team(yard, classes={"urgent": "boss"})


async def test_the_urgent_budget_is_a_bound(yard: Yard) -> None:
    """Used and promised hours count; what is beyond is refused with a way out."""
    await team(yard, classes={"urgent": "member"}, urgent_gpu_hours=4)
    with pytest.raises(InvalidInput, match="states a time limit"):
        await ask(yard, gpus=1, priority="urgent")
    first = await yard.run_job(gpus=2, priority="urgent", time_limit_seconds=HOUR)
    with pytest.raises(Denied, match="has 2 of 4 left"):
        await ask(yard, gpus=1, priority="urgent", time_limit_seconds=HOUR, array="0-2")
    await yard.tick(HOUR / 2)
    await yard.end(first)
    # It used one hour of the two that it might have.
    second = await yard.run_job(gpus=1, priority="urgent", time_limit_seconds=3 * HOUR)
    with pytest.raises(Denied, match="Use --priority high"):
        await ask(yard, gpus=1, priority="urgent", time_limit_seconds=600)
    # Moving it out of the class gives back what it has not used.
    await yard.tick(HOUR)
    await yard.end(second)
    await yard.jobs.requeue_jobs(yard.user, second, Requeue(priority="low"))
    with pytest.raises(Denied, match="has 2 of 4 left"):
        await ask(yard, gpus=1, priority="urgent", time_limit_seconds=3 * HOUR)
    # A week later all of it is back; jobs without GPUs cost nothing.
    assert (await ask(yard, priority="urgent")).jobs
    yard.clock.advance(8 * 24 * HOUR)
    assert (await ask(yard, gpus=1, priority="urgent", time_limit_seconds=4 * HOUR)).jobs


# -- a site of whole nodes ------------------------------------------------------------------------


async def test_jobs_of_a_partition_of_whole_nodes_share_no_node(yard: Yard) -> None:
    rules = {"whole_nodes": "OverSubscribe=EXCLUSIVE of partition gh: whole nodes alone"}
    await queue(yard, "gh", slurm=SlurmOptions(partition="gh", rules=rules))
    jobs = [(await ask(yard, queue="gh", gpus=1)).jobs[0].job_id for _ in range(2)]
    await yard.tick()
    # The node has two GPUs, and the site gives it to one job.
    assert await yard.states(*jobs) == ["starting", "queued"]
    with pytest.raises(InvalidInput, match="leave --memory and parts of GPUs out"):
        await ask(yard, queue="gh", memory_bytes=GIB)


# -- preemption by intent ------------------------------------------------------------------------


async def test_queues_make_jobs_preemptible_and_jobs_may_opt_out(yard: Yard) -> None:
    await queue(yard, "loose", preemptible_default="yes")
    await queue(yard, "spare", preemptible_default="always")
    found = {
        (name, wanted): (await ask(yard, queue=name, preemptible=wanted)).jobs[0].preemptible
        for name in ("default", "loose")
        for wanted in (None, True, False)
    }
    assert found == {
        ("default", None): False,
        ("default", True): True,
        ("default", False): False,
        ("loose", None): True,
        ("loose", True): True,
        ("loose", False): False,
    }
    assert (await ask(yard, queue="spare")).jobs[0].preemptible
    with pytest.raises(InvalidInput, match="may be stopped for others"):
        await ask(yard, queue="spare", preemptible=False)


async def test_the_answer_says_what_being_preemptible_means(yard: Yard) -> None:
    fixed = (await ask(yard, gpus=1, dry_run=True)).answer.preemption
    assert fixed.startswith("Not preemptible: ")
    loose = (await ask(yard, gpus=1, preemptible=True, dry_run=True)).answer.preemption
    assert loose.startswith("Preemptible: ")


async def test_a_job_that_recorded_a_checkpoint_is_known_to_save(yard: Yard) -> None:
    job = await yard.run_job(gpus=1, preemptible=True)

    async def known() -> tuple[float | None, float | None]:
        await yard.tick()
        looked = await yard.scheduler.view()
        running = next(one for one in looked.loaded.snapshot.running if one.job.id == job)
        return running.checkpoint_at, running.save_seconds

    assert await known() == (None, None)
    yard.clock.advance(100)
    saved_at = yard.clock.time_ms() / 1000
    await yard.beat(job, checkpoint={"name": "step-1", "step": 1, "sequence": 1, "size_bytes": 1})
    yard.clock.advance(50)
    await yard.beat(job)
    assert await known() == (saved_at, 100)
    await yard.jobs.requeue_jobs(yard.user, job, Requeue())
    await yard.end(job, exit_code=85)
    await yard.tick()
    await yard.beat(job)
    # The next attempt has saved nothing yet, but the job is one that saves.
    assert await known() == (None, 100)


# -- dependencies ---------------------------------------------------------------------------------


async def test_after_the_name_of_an_array_waits_for_all_its_members(yard: Yard) -> None:
    members = [job.job_id for job in (await ask(yard, name="sweep", array="0-2")).jobs]
    await yard.tick()
    job = await ask(yard, after=[After(job="sweep")])
    last = job.jobs[0].job_id
    assert (await yard.detail(last)).waits_for == members
    for one in members[1:]:
        await yard.beat(one)
        await yard.end(one)
    assert (await yard.detail(last)).reasons[0].code == "waits_for_job"
    await yard.beat(members[0])
    await yard.end(members[0])
    assert await yard.state(last) == "starting"


async def test_the_name_of_an_array_means_the_newest_one_whole(yard: Yard) -> None:
    await ask(yard, name="sweep", array="0-1")
    newest = [job.job_id for job in (await ask(yard, name="sweep", array="0-2")).jobs]
    stopped = await yard.jobs.stop_jobs(yard.user, "sweep", None)
    assert [job.job_id for job in stopped] == newest


async def test_members_of_other_teams_are_held_to_their_own_team_s_rules(yard: Yard) -> None:
    await team(yard, classes={"urgent": "member"})
    bob = await member(yard.directory, "bob", "ops")
    with pytest.raises(Denied):
        await ask(yard, bob, priority="urgent")


# -- places in the line ---------------------------------------------------------------------------


async def test_only_jobs_that_can_start_have_a_place(yard: Yard) -> None:
    """Held, dependent and impossible jobs stand in nobody's way and count nowhere."""
    await yard.run_job(gpus=2)
    out = [
        (await yard.submit(gpus=8)).job_id,
        (await yard.submit(gpus=1, hold=True)).job_id,
        (await yard.submit(gpus=1, not_before_ms=yard.clock.time_ms() + 10**7)).job_id,
    ]
    out.append((await yard.submit(gpus=1, after=[After(job=out[1])])).job_id)
    first = (await yard.submit(gpus=1, estimate_seconds=60)).job_id
    second = (await yard.submit(gpus=1, estimate_seconds=600)).job_id
    pages = [await yard.detail(job) for job in (*out, first, second)]
    assert [(page.position, page.waiting) for page in pages] == [
        *[(None, 2)] * 4,
        (1, 2),
        (2, 2),
    ]
    planned = (await ask(yard, gpus=1, estimate_seconds=6000, dry_run=True)).answer
    assert (planned.position, planned.waiting) == (3, 2)
    assert (await ask(yard, gpus=1, hold=True, dry_run=True)).answer.position is None
