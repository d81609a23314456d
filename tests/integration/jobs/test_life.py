"""A job from submission to its end, over a fake engine, on both databases."""

import pytest

from tests.integration.jobs.yard import Yard, member
from trackyard.core.errors import Conflict, InvalidInput, NotFound
from trackyard.core.ports import ExitCause
from trackyard.queue.attempts.heartbeats import Heartbeat
from trackyard.queue.requeue import Requeue
from trackyard.queue.specification import JobRequest


async def test_a_job_waits_starts_runs_and_succeeds_with_its_run(yard: Yard) -> None:
    """State, run and events agree at every step."""
    job = await yard.submit("train", gpus=1, name="first")
    assert await yard.state("first") == "starting"
    assert await yard.run_status(job.run_id) == "SCHEDULED"
    await yard.beat("first", "setup")
    assert await yard.state("first") == "starting"
    await yard.beat("first")
    assert await yard.state("first") == "running"
    assert await yard.run_status(job.run_id) == "RUNNING"
    await yard.end("first")
    assert await yard.state("first") == "succeeded"
    assert await yard.run_status(job.run_id) == "FINISHED"
    kinds = [kind for kind, about in await yard.events() if about == job.job_id]
    assert kinds == [
        "job.submitted",
        "job.admitted",
        "job.running",
        "attempt.ended",
        "job.succeeded",
    ]


async def test_the_job_is_told_where_its_run_is(yard: Yard) -> None:
    """Stock MLflow finds run, experiment and credential; our own calls do, too."""
    job = await yard.submit("train", gpus=1, experiment="exp")
    spec = yard.specs[f"{job.job_id}-a1"]
    assert spec.report is not None
    env = spec.platform_env
    assert env["MLFLOW_RUN_ID"] == job.run_id == env["YARD_RUN_ID"]
    assert env["MLFLOW_EXPERIMENT_ID"] == job.experiment_id != "0"
    (token,) = {
        env[n] for n in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "YARD_TOKEN")
    }
    assert token != spec.report.token, "the runner's credential is not the command's"
    assert env["YARD_ATTEMPT"] == "1"


async def test_a_failing_command_fails_the_job_and_a_retry_waits_its_delay(yard: Yard) -> None:
    """Without retries it is over; with one it comes back after a second, then is over."""
    once = await yard.run_job(gpus=1)
    await yard.end(once, 3)
    assert await yard.state(once) == "failed"
    twice = await yard.run_job(gpus=1, retries=1)
    await yard.end(twice, 3)
    assert await yard.state(twice) == "queued"
    assert (await yard.detail(twice)).reasons[0].code == "not_before"
    await yard.tick(1.5)
    await yard.beat(twice)
    await yard.end(twice, 3)
    detail = await yard.detail(twice)
    assert detail.job.state == "failed"
    assert [one.exit_code for one in detail.attempts] == [3, 3]
    assert detail.waited_ms == 1500


async def test_a_wrong_command_is_not_retried(yard: Yard) -> None:
    job = await yard.run_job("trian", gpus=1, retries=5)
    await yard.end(job, 127, ExitCause.COMMAND)
    assert (await yard.detail(job)).job.state == "failed"


async def test_a_lost_runner_requeues_the_job_once_and_fences_the_old_attempt(yard: Yard) -> None:
    """Whatever hints at the end how often, one new attempt follows; the old epoch is refused."""
    job = await yard.run_job(gpus=1)
    old = await yard.runner(job)
    yard.engine.lose(old[1])
    yard.engine.lose(old[1])
    await yard.tick()
    await yard.scheduler.dispatcher.look(old[1])
    await yard.tick(6)
    assert (await yard.row(job)).attempt == 2
    assert [one.state for one in (await yard.detail(job)).attempts] == ["lost", "starting"]
    with pytest.raises(Conflict):
        await yard.jobs.heartbeat(*old, Heartbeat(state="running"))
    with pytest.raises(Conflict):
        await yard.jobs.take_log(*old, member=0, offset=0, data=b"late")
    with pytest.raises(Conflict):
        await yard.directory.authenticate(yard.specs[old[1]].platform_env["YARD_TOKEN"])


async def test_another_node_is_tried_where_there_is_one(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job(gpus=1, retries=2)
    first = (await yard.attempt(job)).where.nodes[0]
    await yard.end(job, 1)
    await yard.tick(2)
    assert (await yard.attempt(job)).where.nodes[0] != first


async def test_silence_of_a_minute_loses_an_attempt_but_not_right_after_a_start(
    yard: Yard,
) -> None:
    """The lease is sixty seconds; a restarted server gives everyone the whole of it again."""
    job = await yard.run_job(gpus=1)
    await yard.restart(after=300)
    assert await yard.state(job) == "running"
    for _ in range(12):
        await yard.tick(4.5)
    assert await yard.state(job) == "running"
    for _ in range(3):
        await yard.tick(4.5)
    assert (await yard.detail(job)).attempts[0].state == "lost"
    assert (await yard.row(job)).attempt == 2


async def test_a_server_that_was_frozen_gives_everyone_the_lease_anew(yard: Yard) -> None:
    """An hour in which the server did not run is no hour of silence."""
    job = await yard.run_job(gpus=1)
    await yard.tick(3600)
    assert await yard.state(job) == "running"
    for _ in range(15):
        await yard.tick(4.5)
    assert (await yard.detail(job)).attempts[0].state == "lost"


async def test_heartbeats_keep_an_attempt_alive(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    for _ in range(12):
        yard.clock.advance(10)
        await yard.beat(job)
        await yard.tick()
    assert await yard.state(job) == "running"
    assert (await yard.row(job)).attempt == 1


async def test_stop_works_at_every_state(yard: Yard) -> None:
    """Held, queued, starting, running; an ended one stays as it ended."""
    held = (await yard.submit(gpus=1, hold=True)).job_id
    running = await yard.run_job(gpus=1)
    starting = (await yard.submit(gpus=1)).job_id
    waiting = (await yard.submit(gpus=1)).job_id
    for job in (held, running, starting, waiting):
        await yard.jobs.stop_jobs(yard.user, job, 5.0)
    answer = await yard.beat(running)
    assert answer["stop"]["reason"] == "stopped"
    await yard.tick()
    assert await yard.states(held, running, starting, waiting) == ["stopped"] * 4
    before = await yard.row(held)
    await yard.jobs.stop_jobs(yard.user, held, None)
    assert await yard.row(held) == before


async def test_a_stopped_job_never_starts_though_its_launch_was_under_way(yard: Yard) -> None:
    """The engine is told before it has heard of the attempt; nothing runs, the job is stopped."""
    done = await yard.jobs.submit(yard.user, JobRequest(command=["train"], gpus=1))
    job = done.jobs[0].job_id
    admitted = await yard.admit_only()
    await yard.jobs.stop_jobs(yard.user, job, 0.0)
    attempt = await yard.attempt(job)
    await yard.scheduler.dispatcher.send_stops([attempt])
    await yard.scheduler.dispatcher.launch(admitted[0])
    await yard.tick()
    assert await yard.state(job) == "stopped"
    assert yard.engine.started == []


async def test_hold_and_release(yard: Yard) -> None:
    job = (await yard.submit(gpus=1, hold=True)).job_id
    assert (await yard.detail(job)).reasons[0].code == "held"
    await yard.jobs.release_jobs(yard.user, job)
    await yard.tick()
    assert await yard.state(job) == "starting"
    with pytest.raises(InvalidInput, match="only a queued job"):
        await yard.jobs.hold_jobs(yard.user, job)


async def test_requeue_changes_a_waiting_job_and_brings_an_ended_one_back(yard: Yard) -> None:
    """A job too large waits with the reason; made smaller it starts. An ended one runs again."""
    large = (await yard.submit(gpus=8)).job_id
    assert (await yard.detail(large)).reasons[0].tier == "infeasible"
    await yard.jobs.requeue_jobs(yard.user, large, Requeue(gpus=2))
    await yard.tick()
    assert await yard.state(large) == "starting"
    await yard.beat(large)
    await yard.end(large, 1)
    run_id = (await yard.row(large)).run_uuid
    yard.clock.advance(3600)
    await yard.jobs.requeue_jobs(yard.user, large, Requeue())
    await yard.tick(2)
    detail = await yard.detail(large)
    assert detail.waited_ms == 2000
    assert (detail.job.state, detail.job.attempt, detail.job.run_id) == ("starting", 2, run_id)


async def test_requeue_of_a_running_job_saves_and_waits_again(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await yard.jobs.requeue_jobs(yard.user, job, Requeue(priority="low"))
    await yard.tick()
    detail = await yard.detail(job)
    assert detail.attempts[0].state == "preempted"
    assert (detail.job.attempt, detail.job.priority) == (2, "low")


async def test_the_time_limit_reaches_the_engine_and_ends_the_job(yard: Yard) -> None:
    job = await yard.run_job(gpus=1, time_limit_seconds=30)
    await yard.tick(31)
    detail = await yard.detail(job)
    assert (detail.job.state, detail.job.cause) == ("failed", "time_limit")


async def test_the_same_key_submits_once(yard: Yard) -> None:
    first = await yard.jobs.submit(yard.user, JobRequest(command=["a"], key="k1"))
    again = await yard.jobs.submit(yard.user, JobRequest(command=["a"], key="k1"))
    assert [job.job_id for job in again.jobs] == [job.job_id for job in first.jobs]
    assert again.repeated
    assert len(await yard.events("job.submitted")) == 1


async def test_jobs_of_another_team_are_not_found(yard: Yard) -> None:
    job = (await yard.submit(gpus=1, name="secret")).job_id
    other = await member(yard.directory, "bob", "other")
    for word in (job, "secret"):
        with pytest.raises(NotFound):
            await yard.jobs.detail(other, word)
        with pytest.raises(NotFound):
            await yard.jobs.stop_jobs(other, word, None)


async def test_out_of_memory_becomes_an_event_with_a_sentence(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await yard.end(job, 137, ExitCause.OUT_OF_MEMORY)
    assert ("job.out_of_memory", job) in await yard.events()
