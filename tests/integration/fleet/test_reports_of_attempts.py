"""What attempts say of their nodes: a suspicion until others confirm it, on both databases."""

from dataclasses import replace
from typing import Any

import msgspec

from tests.integration.fleet.test_health import checks, look, node, operator
from tests.integration.jobs.yard import Yard, member
from trackyard.core.node import NodeState
from trackyard.core.ports import ExitRecord
from trackyard.fleet import verdicts

LOOK = 10.0
TEXT = "Buy gold at example.org."


async def other_team(yard: Yard, name: str = "bob", team: str = "plant") -> Yard:
    """Return the same yard as seen by a user of another team."""
    return replace(yard, user=await member(yard.directory, name, team))


async def tell(yard: Yard, job: str, verdict: str = "fail", name: str = "disk") -> None:
    """Have the job's runner report what it found, in words of its own."""
    yard.clock.advance(1)
    found = {
        "name": name,
        "verdict": verdict,
        "sentence": TEXT,
        "number": 0.1,
        "unit": "gold",
        "at_ms": yard.clock.time_ms(),
    }
    await yard.beat(job, health=[found])


async def end_as_on_broken_hardware(yard: Yard, job: str) -> None:
    """End the job's command with a line that drivers print on broken hardware."""
    principal, attempt_id, epoch = await yard.runner(job)
    facts: dict[str, Any] = {
        "attempt_id": attempt_id, "epoch": epoch, "member": 0, "cause": "exit_code",
        "sentence": "It ended.", "started_ms": 0, "ended_ms": 1, "duration_seconds": 0.001,
        "exit_code": 1, "error_line": "RuntimeError: CUDA error: uncorrectable ECC error",
    }  # fmt: skip
    raw = msgspec.json.encode(facts)
    await yard.jobs.take_exit(principal, attempt_id, epoch, ExitRecord.from_json(facts), raw)
    await yard.tick(LOOK)


async def test_one_jobs_runner_never_quarantines(yard: Yard) -> None:
    """However often it says so; not even where there is but one team."""
    job = await yard.run_job(gpus=1)
    for name in ("disk", "ecc", "gpus", "xid"):
        for _ in range(10):
            await tell(yard, job, name=name)
    await yard.tick(LOOK)
    assert (await node(yard)).state == "ready"
    assert (await checks(yard))["ecc"] == "warn"


async def test_jobs_of_one_team_do_not_quarantine_for_the_others(yard: Yard) -> None:
    """A job of another team that finds the same confirms it."""
    other = await other_team(yard)
    for _ in range(3):
        job = await yard.run_job(gpus=0.1)
        await tell(yard, job)
        await tell(yard, job)
    assert (await node(yard)).state == "ready"
    theirs = await other.run_job(gpus=0.1)
    await tell(other, theirs)
    assert (await node(yard)).state == "quarantined"


async def test_two_jobs_are_enough_where_there_is_one_team(yard: Yard) -> None:
    for expected in ("ready", "quarantined"):
        await tell(yard, await yard.run_job(gpus=0.1))
        assert (await node(yard)).state == expected


async def test_a_runners_words_reach_no_other_team(yard: Yard) -> None:
    """Checks, events and the node's note have ours; the log keeps the runner's, with its team."""
    other = await other_team(yard)
    jobs = [(one, await one.run_job(gpus=0.1)) for one in (yard, yard, other, other)]
    for one, job in jobs:
        await tell(one, job)
    row = await node(yard)
    assert row.state == "quarantined"
    assert row.note == "disk: A job's runner found that the check `disk` fails (0.1)"
    stand = await yard.database.read(lambda reader: verdicts.load_checks(reader, "n1"))
    told = await yard.database.read(lambda reader: reader.all("SELECT data FROM events"))
    for text in (repr(row), repr(stand), repr(told)):
        assert "gold" not in text
    log = await yard.database.read(lambda reader: verdicts.load_verdicts(reader, "n1"))
    own = [(line.sentence, line.team_id) for line in log if line.source == "runner"]
    teams = [other.user.team_id] * 2 + [yard.user.team_id] * 2
    assert own == [(TEXT, team) for team in teams]


async def test_what_the_engine_checks_itself_no_job_changes(yard: Yard) -> None:
    """Neither for the worse nor for the better."""
    await look(yard, "ok")
    for _ in range(3):
        await tell(yard, await yard.run_job(gpus=0.1), name="ecc")
    assert (await checks(yard))["ecc"] == "ok"
    await look(yard, "fail")
    await tell(yard, await yard.run_job(gpus=0.1), "ok", name="ecc")
    assert await look(yard, "fail") == "quarantined"


async def test_a_job_may_not_print_a_node_into_quarantine(yard: Yard) -> None:
    """Ends as on broken hardware are one team's word too, however many."""
    other = await other_team(yard)
    for _ in range(5):
        await end_as_on_broken_hardware(yard, await yard.run_job(gpus=0.1))
    assert ((await node(yard)).state, (await checks(yard))["jobs"]) == ("ready", "warn")
    await end_as_on_broken_hardware(other, await other.run_job(gpus=0.1))
    assert (await node(yard)).state == "quarantined"


async def test_a_runner_may_not_make_the_servers_own_checks(yard: Yard) -> None:
    for name in ("clock", "jobs"):
        await tell(yard, await yard.run_job(gpus=0.1), name=name)
    found = await checks(yard)
    assert "jobs" not in found
    assert found.get("clock", "ok") == "ok"


async def test_an_operators_return_of_a_node_forgets_what_jobs_said(yard: Yard) -> None:
    """The one said before does not confirm the one said after."""
    await tell(yard, await yard.run_job(gpus=0.1))
    await operator(yard, NodeState.READY)
    yard.clock.advance(1)
    job = await yard.run_job(gpus=0.1)
    for _ in range(3):
        await tell(yard, job)
    assert (await node(yard)).state == "ready"
