"""Restarts, lost answers and rival servers: nothing starts twice, nothing is forgotten."""

import pytest

from tests.integration.jobs.yard import Yard, make_scheduler
from trackyard.control.leader import Superseded
from trackyard.queue.records import load_attempts
from trackyard.queue.specification import JobRequest
from trackyard.store.database import Database


async def test_a_lost_answer_to_a_launch_is_looked_up_not_repeated(yard: Yard) -> None:
    yard.engine.lose_next_answer()
    job = (await yard.submit(gpus=1)).job_id
    assert await yard.state(job) == "starting"
    await yard.tick(6)
    await yard.tick(6)
    await yard.beat(job)
    assert await yard.state(job) == "running"
    assert yard.engine.started == [f"{job}-a1"]


async def test_a_server_that_dies_between_the_ledger_and_the_engine_starts_it_after_all(
    yard: Yard,
) -> None:
    """The attempt is there with its epoch; the new server launches that same attempt, once."""
    done = await yard.jobs.submit(yard.user, JobRequest(command=["x"], gpus=1))
    job = done.jobs[0].job_id
    await yard.admit_only()
    assert yard.engine.started == []
    await yard.restart()
    assert yard.engine.started == [f"{job}-a1"]
    await yard.beat(job)
    assert await yard.state(job) == "running"


async def test_what_ended_while_the_server_was_away_ends_in_the_truth(yard: Yard) -> None:
    good, bad, lost = [await yard.run_job(gpus=0.5) for _ in range(3)]
    yard.deafen()
    for job, code in ((good, 0), (bad, 2)):
        yard.engine.finish((await yard.attempt(job)).attempt_id, exit_code=code)
    yard.engine.lose((await yard.attempt(lost)).attempt_id)
    await yard.restart()
    assert await yard.states(good, bad, lost) == ["succeeded", "failed", "starting"]
    assert (await yard.row(lost)).attempt == 2


async def test_what_still_runs_is_attached_again(yard: Yard) -> None:
    job = await yard.run_job(gpus=1)
    await yard.restart()
    await yard.beat(job)
    assert await yard.state(job) == "running"
    assert yard.engine.started == [f"{job}-a1"]


async def test_one_of_two_servers_schedules_and_the_frozen_one_is_refused(
    database_url: str, yard: Yard
) -> None:
    """A rival takes over only when the lease is over; what the old one decided then is dropped."""
    rival_database = Database(database_url, clock=yard.clock)
    rival_database.start()
    rival = make_scheduler(rival_database, yard.engine)
    rival.leadership._alone = False
    await rival.open()
    try:
        await rival.tick()
        assert (yard.scheduler.is_leader, rival.is_leader) == (True, False)
        done = await yard.jobs.submit(yard.user, JobRequest(command=["x"], gpus=1))
        frozen = await yard.scheduler._look(yard.scheduler.board)
        assert frozen.decisions.admissions
        yard.clock.advance(11)
        await rival.tick()
        await rival.drain()
        assert rival.is_leader
        with pytest.raises(Superseded):
            await yard.database.write(lambda tx: yard.scheduler._apply(tx, frozen))
        yard.scheduler.leadership._alone = False
        yard.scheduler._due["claim"] = 0.0
        await yard.scheduler.tick()
        assert not yard.scheduler.is_leader
        assert yard.engine.started == [f"{done.jobs[0].job_id}-a1"]
    finally:
        await rival.drain()
        await rival.dispatcher.close()
        await rival_database.close()


async def test_a_deposed_server_gives_up_no_attempt_of_its_successor(yard: Yard) -> None:
    """What it makes of an attempt it does not know is refused, and its token stays good."""
    await yard.jobs.submit(yard.user, JobRequest(command=["x"], gpus=1))
    await yard.admit_only()
    rows = await yard.database.read(lambda reader: load_attempts(reader, "state = 'starting'"))
    await yard.database.write(
        lambda tx: tx.run("UPDATE leaders SET holder = 'rival', epoch = epoch + 1")
    )
    with pytest.raises(Superseded):
        await yard.scheduler.dispatcher._compare(rows[0], None)
    assert yard.engine.started == []
    revoked = await yard.database.read(
        lambda reader: reader.one(
            "SELECT revoked_ms FROM tokens WHERE id = ?", (rows[0].token_id,)
        )
    )
    assert revoked == (None,)


async def test_a_server_that_does_not_lead_still_says_why(database_url: str, yard: Yard) -> None:
    job = (await yard.submit(gpus=16)).job_id
    rival_database = Database(database_url, clock=yard.clock)
    rival_database.start()
    rival = make_scheduler(rival_database, yard.engine)
    try:
        looked = await rival.view()
        assert looked.decisions.reasons[job][0].code == "too_large"
        assert not rival.is_leader
    finally:
        await rival.dispatcher.close()
        await rival_database.close()


async def test_a_refused_launch_waits_with_the_engine_own_word(yard: Yard) -> None:
    """The engine says no: the job goes back with that reason and is offered again later."""
    yard.engine.refuse_next_launch("the disk is full")
    job = (await yard.submit(gpus=1)).job_id
    detail = await yard.detail(job)
    assert (detail.job.state, detail.attempts[0].cause) == ("queued", "engine")
    assert "the disk is full" in (detail.attempts[0].sentence or "")
    assert await yard.run_status(detail.job.run_id) == "SCHEDULED"
    await yard.tick(2)
    assert yard.engine.started == [f"{job}-a2"]


async def test_an_ended_attempt_is_forgotten_by_the_engine_once_its_log_is_whole(
    yard: Yard,
) -> None:
    """The rest of the log is fetched before its end is told, then its folder may go."""
    job = await yard.run_job(gpus=1)
    attempt = await yard.attempt(job)
    runner = await yard.runner(job)
    await yard.jobs.take_log(*runner, member=0, offset=0, data=b"one\n")
    yard.engine._attempts[attempt.attempt_id].program = type(
        yard.engine._attempts[attempt.attempt_id].program
    )(output=b"one\ntwo\n")
    await yard.end(job)
    assert await yard.jobs.read_log(attempt, 0, 0, 100) == b"one\ntwo\n"
    await yard.tick(10)
    assert yard.engine.lookup(attempt.attempt_id) is None
    settled = await yard.attempt(job)
    assert settled.settled == 1
    assert await yard.jobs.read_log(settled, 0, 0, 100) == b"one\ntwo\n"
