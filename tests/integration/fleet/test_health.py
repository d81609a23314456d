"""Nodes fall ill, are quarantined, heal and are given back, on both databases."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.jobs.yard import Yard
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.health import CheckName, CheckReport, CheckVerdict
from trackyard.core.node import NodeState
from trackyard.core.ports import ExitCause, ExitRecord
from trackyard.fleet import nodes, verdicts
from trackyard.fleet.nodes import NodeRow
from trackyard.testing.engine import fake_node

LOOK = 10.0


def check(yard: Yard, verdict: str = "fail", name: str = "ecc", number: float = 1) -> CheckReport:
    return CheckReport(
        name=CheckName(name),
        verdict=CheckVerdict(verdict),
        sentence=f"{name} is {verdict}.",
        number=number,
        unit="errors",
        at_ms=yard.clock.time_ms(),
    )


async def node(yard: Yard, node_id: str = "n1") -> NodeRow:
    return await yard.database.read(lambda reader: nodes.find(reader, node_id))


async def checks(yard: Yard) -> dict[str, str]:
    found = await yard.database.read(lambda reader: verdicts.load_checks(reader, "n1"))
    return {row.name: row.verdict for row in found.get("n1", [])}


async def report(yard: Yard, gpus: int = 2, looks: Sequence[CheckReport] = ()) -> None:
    """Let the engine tell of its node, one look later."""
    yard.engine.add_node(replace(fake_node("n1", gpus=gpus), checks=tuple(looks)))
    await yard.tick(LOOK)


async def look(yard: Yard, verdict: str, **more: Any) -> str:
    """Let one look pass with such a verdict; return the node's state after it."""
    await report(yard, looks=[check(yard, verdict, **more)])
    return (await node(yard)).state


async def operator(yard: Yard, state: NodeState, **more: Any) -> None:
    fleet = yard.scheduler.fleet
    await yard.database.write(
        lambda tx: fleet.set_state(tx, "n1", state, note="by hand", actor="ops", **more)
    )
    await yard.tick()


async def test_a_lost_gpu_quarantines_and_its_return_lifts(yard: Yard) -> None:
    """The job that waits says which node is out and why; it starts when the node is well."""
    await report(yard, gpus=1)
    await yard.tick(LOOK)
    row = await node(yard)
    assert (row.state, row.state_by, row.expected_gpus) == ("quarantined", "health", 2)
    assert row.note == "gpus: 1 of 2 GPUs is gone; it reports 1"
    job = (await yard.submit(gpus=2)).job_id
    reason = (await yard.detail(job)).reasons[0]
    assert reason.code == "nodes_unhealthy"
    assert "n1 (quarantined: gpus: 1 of 2 GPUs is gone" in reason.sentence
    await report(yard, gpus=2)
    assert await yard.state(job) == "queued"
    await yard.tick(LOOK)
    assert await yard.state(job) == "starting"
    kinds = [kind for kind, _ in await yard.events("node.")]
    assert kinds[-4:] == [
        "node.quarantined",
        "node.changed",
        "node.check_passed",
        "node.unquarantined",
    ]


async def test_one_bad_look_is_forgiven(yard: Yard) -> None:
    assert [await look(yard, verdict) for verdict in ("fail", "ok", "fail", "warn", "fail")] == [
        "ready"
    ] * 5
    assert await look(yard, "fail") == "quarantined"


async def test_the_same_look_told_twice_counts_once(yard: Yard) -> None:
    """The engine's nodes are read more often than it looks at them."""
    seen = check(yard)
    for _ in range(5):
        await report(yard, looks=[seen])
    assert (await node(yard)).state == "ready"


async def test_what_runs_goes_on_and_nothing_new_starts(yard: Yard) -> None:
    running = await yard.run_job(gpus=1)
    await look(yard, "fail")
    assert await look(yard, "fail") == "quarantined"
    waiting = (await yard.submit(gpus=1)).job_id
    assert await yard.states(running, waiting) == ["running", "queued"]
    await yard.end(running)
    assert await yard.states(running, waiting) == ["succeeded", "queued"]


async def test_a_job_on_a_gpu_that_is_lost_is_still_counted(yard: Yard) -> None:
    """Its placement names a GPU that the node does not list any more."""
    first, second = await yard.run_job(gpus=1), await yard.run_job(gpus=1)
    await report(yard, gpus=1)
    assert (await node(yard)).state == "ready"
    assert await yard.states(first, second) == ["running", "running"]
    third = (await yard.submit(gpus=1)).job_id
    assert await yard.state(third) == "queued"


async def test_an_operators_word_is_not_undone(yard: Yard) -> None:
    await operator(yard, NodeState.QUARANTINED)
    for _ in range(4):
        assert await look(yard, "ok") == "quarantined"
    await operator(yard, NodeState.DRAINED)
    for _ in range(3):
        assert await look(yard, "fail") == "drained"


async def test_giving_a_node_back_accepts_what_was_counted(yard: Yard) -> None:
    """Two old memory errors are a warning from then on; a third one is news."""
    for _ in range(2):
        state = await look(yard, "fail", number=2)
    assert state == "quarantined"
    await operator(yard, NodeState.READY)
    for _ in range(4):
        assert await look(yard, "fail", number=2) == "ready"
    assert (await checks(yard))["ecc"] == "warn"
    assert await look(yard, "fail", number=3) == "ready"
    assert await look(yard, "fail", number=3) == "quarantined"


async def test_a_node_may_be_given_back_with_fewer_gpus(yard: Yard) -> None:
    await report(yard, gpus=1)
    await yard.tick(LOOK)
    assert (await node(yard)).state == "quarantined"
    await operator(yard, NodeState.READY)
    for _ in range(4):
        await yard.tick(LOOK)
    row = await node(yard)
    assert (row.state, row.expected_gpus) == ("ready", 1)
    assert (await checks(yard))["gpus"] == "ok"


async def test_lifting_may_be_left_to_people(yard: Yard) -> None:
    fleet = yard.scheduler.fleet
    fleet.policy = replace(fleet.policy, lift="hand")
    for verdict in ("fail", "fail", "ok", "ok", "ok"):
        state = await look(yard, verdict)
    assert state == "quarantined"


async def test_attempts_that_end_as_on_broken_hardware_are_evidence(yard: Yard) -> None:
    """Three within a day quarantine the node; a day later it is tried again."""
    for number in range(3):
        job = await yard.run_job(gpus=1)
        attempt = await yard.attempt(job)
        record = ExitRecord(
            attempt_id=attempt.attempt_id,
            epoch=attempt.epoch,
            member=0,
            cause=ExitCause.EXIT_CODE,
            exit_code=1,
            signal=None,
            sentence="The command ended with exit code 1.",
            started_ms=0,
            ended_ms=1,
            duration_seconds=0.001,
            error_line="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        )
        principal, attempt_id, epoch = await yard.runner(job)
        raw = (
            b'{"attempt_id":"%s","epoch":%d,"member":0,"cause":"exit_code","sentence":"It ended.",'
            b'"started_ms":0,"ended_ms":1,"duration_seconds":0.001,"exit_code":1,'
            b'"error_line":"RuntimeError: CUDA error: uncorrectable ECC error encountered"}'
            % (attempt_id.encode(), epoch)
        )
        await yard.jobs.take_exit(principal, attempt_id, epoch, record, raw)
        await yard.tick(LOOK)
        expected = "quarantined" if number == 2 else "ready"
        assert (await node(yard)).state == expected
    assert (await node(yard)).note.startswith("jobs: 3 attempts ended there")
    log = await yard.database.read(lambda reader: verdicts.load_verdicts(reader, "n1"))
    assert sum(row.source == "job" and "uncorrectable ECC" in row.sentence for row in log) == 3
    await yard.tick(25 * 3600)
    await yard.tick(LOOK)
    assert (await node(yard)).state == "ready"


async def test_a_clock_that_is_off_is_found_by_heartbeats(yard: Yard) -> None:
    """By those of several jobs: one alone may tell what it likes."""
    jobs = [await yard.run_job(gpus=1)]
    for expected in ("ready", "ready", "quarantined"):
        for job in jobs:
            await yard.beat(job, time_ms=yard.clock.time_ms() + 45_000)
        await yard.tick(LOOK)
        assert (await node(yard)).state == expected
        if len(jobs) == 1:
            jobs.append(await yard.run_job(gpus=1))
    row = await node(yard)
    assert (row.state, row.note) == (
        "quarantined",
        "clock: Its clock is 45.0 s ahead of the server's",
    )


async def test_a_runners_look_counts_and_is_kept_with_its_attempt(yard: Yard) -> None:
    """A heartbeat repeats the look; it is taken once."""
    job = await yard.run_job(gpus=1)
    found = {
        "name": "disk",
        "verdict": "fail",
        "sentence": "Only 0.1 GB are free.",
        "number": 0.1,
        "unit": "GB",
        "at_ms": yard.clock.time_ms(),
    }
    for _ in range(3):
        yard.clock.advance(1)
        await yard.beat(job, health=[found])
    log = await yard.database.read(lambda reader: verdicts.load_verdicts(reader, "n1"))
    assert [(row.name, row.source, row.attempt_id) for row in log if row.name == "disk"] == [
        ("disk", "runner", f"{job}-a1")
    ]
    other = await yard.run_job(gpus=1)
    await yard.beat(other, health=[{**found, "at_ms": yard.clock.time_ms()}])
    assert (await node(yard)).state == "quarantined"


async def test_a_drain_ends_by_itself(yard: Yard) -> None:
    until = yard.clock.time_ms() + 60_000
    await operator(yard, NodeState.DRAINED, until_ms=until)
    job = (await yard.submit(gpus=1)).job_id
    await yard.tick(50)
    assert await yard.state(job) == "queued"
    await yard.tick(11)
    assert (await node(yard)).state == "ready"
    assert await yard.state(job) == "starting"
    with pytest.raises(InvalidInput, match="in the future"):
        await operator(yard, NodeState.DRAINED, until_ms=until)


async def test_labels_of_operators_outlive_restarts_and_reach_the_queue(yard: Yard) -> None:
    async def label(set_: dict[str, str], *remove: str) -> dict[str, str]:
        return await yard.database.write(
            lambda tx: nodes.set_labels(tx, "n1", set_, remove, actor="ops")
        )

    assert await label({"rack": "r1", "class": "big"}) == {"rack": "r1", "class": "big"}
    await yard.restart()
    await report(yard)
    row = await node(yard)
    assert (row.labels["rack"], row.properties.node_class) == ("r1", "big")
    job = (await yard.submit(gpus=1, labels={"rack": "r1"})).job_id
    assert await yard.state(job) == "starting"
    assert await label({}, "rack") == {"class": "big"}
    for wrong in ({"": "x"}, {"a b": "x"}, {"a": ""}, {"a": "x\ny"}):
        with pytest.raises(InvalidInput):
            await label(wrong)
    with pytest.raises(NotFound):
        await yard.database.write(
            lambda tx: nodes.set_labels(tx, "n9", {"a": "b"}, [], actor="ops")
        )


async def test_old_verdicts_are_forgotten(yard: Yard) -> None:
    await look(yard, "fail")
    await yard.tick(31 * 86_400)
    await yard.tick(LOOK)
    log = await yard.database.read(lambda reader: verdicts.load_verdicts(reader, "n1"))
    assert all(yard.clock.time_ms() - row.at_ms < 30 * 86_400_000 for row in log)
    assert all(row.name != "ecc" for row in log)
