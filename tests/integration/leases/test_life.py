"""What time does to leases and to the jobs around them, on a clock that a test moves."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.leases.yard import LeaseYard, at, explained, open_lease_yard
from trackyard.control.lease_sync import LeaseSync
from trackyard.core.errors import LeaseRefused
from trackyard.core.node import NodeState
from trackyard.core.ports import EngineNotice, NoticeKind
from trackyard.core.reasons import Code
from trackyard.leases.rules import LeaseRules
from trackyard.testing.engine import fake_node


async def test_a_lease_goes_through_its_states_by_itself(calendar: LeaseYard) -> None:
    await calendar.add("mine", starts_ms=at(1), minutes=180)
    await calendar.until(1, -1)
    assert await calendar.state("mine") == "pending"
    await calendar.until(1)
    assert await calendar.state("mine") == "active"
    await calendar.until(3.5)
    assert await calendar.state("mine") == "active"
    await calendar.until(4)
    assert await calendar.state("mine") == "terminated"
    assert [kind for kind in await calendar.kinds() if kind != "lease.idle"] == [
        "lease.created",
        "lease.starting",
        "lease.started",
        "lease.ending",
        "lease.terminating",
        "lease.ended",
    ]


async def test_the_engine_is_told_and_told_again_when_it_is_over(calendar: LeaseYard) -> None:
    made = await calendar.add("mine", starts_ms=at(1))
    await calendar.yard.tick()
    hold = calendar.yard.engine.leases[made.lease.lease_id]
    assert (hold.node_ids, hold.starts_at.timestamp() * 1000) == (("n1",), at(1))
    await calendar.extend("mine", minutes=30)
    await calendar.yard.tick()
    held = calendar.yard.engine.leases[made.lease.lease_id]
    assert held.ends_at.timestamp() * 1000 == at(2.5)
    # What the engine says of it is in its history.
    for kind in (NoticeKind.LEASE_CROSSED, NoticeKind.LEASE_SHAKEN):
        notice = EngineNotice(
            kind=kind, subject=held.lease_id, at=held.starts_at, detail=f"So it is: {kind}."
        )
        calendar.yard.scheduler._take_hint(notice)
    await calendar.yard.tick()
    said = await calendar.yard.database.read(
        lambda reader: reader.all(
            "SELECT kind, data FROM events WHERE kind IN ('lease.crossed', 'lease.shaken')"
        )
    )
    assert sorted(kind for kind, _ in said) == ["lease.crossed", "lease.shaken"]
    assert all(f"So it is: {kind.replace('.', '_')}." in str(data) for kind, data in said)
    await calendar.release("mine")
    await calendar.yard.tick()
    assert calendar.yard.engine.leases == {}


async def test_an_engine_that_forgot_is_told_again_by_the_next_server(calendar: LeaseYard) -> None:
    """As a cluster's engine does with its process; and what meanwhile ended is dropped."""
    await calendar.add("kept", nodes=["n1"], starts_ms=at(1))
    await calendar.add("gone", nodes=["n2"], starts_ms=at(1))
    await calendar.until(0, 1)
    engine = calendar.yard.engine
    assert len(engine.leases) == 2
    gone = engine.leases[(await calendar.show("gone")).lease_id]
    engine.leases.clear()
    fresh = LeaseSync(calendar.yard.database, calendar.leases, calendar.yard.scheduler)
    await fresh.tick()
    assert {hold.node_ids for hold in engine.leases.values()} == {("n1",), ("n2",)}
    await calendar.release("gone")
    other = LeaseSync(calendar.yard.database, calendar.leases, calendar.yard.scheduler)
    await other.tick()
    engine.hold_lease(gone)
    await fresh.tick()
    assert {hold.node_ids for hold in engine.leases.values()} == {("n1",)}


async def test_a_server_that_was_down_catches_up(calendar: LeaseYard) -> None:
    await calendar.add("missed", starts_ms=at(1), minutes=60)
    await calendar.add("now", nodes=["n2"], starts_ms=at(2), minutes=600)
    await calendar.until(5)
    assert await calendar.state("missed") == "terminated"
    assert await calendar.state("now") == "active"


async def test_work_that_may_be_preempted_is_drained_in_time_with_its_grace(
    calendar: LeaseYard,
) -> None:
    soft = await calendar.yard.run_job(gpus=2, preemptible=True, grace_seconds=60)
    node = (await calendar.yard.attempt(soft)).where.nodes[0]
    await calendar.add("bobs", calendar.bob, nodes=[node], starts_ms=at(1))
    await calendar.until(1, -70)
    assert await calendar.yard.state(soft) == "running"
    await calendar.until(1, -61)
    ended = {one.number: one.cause for one in (await calendar.yard.detail(soft)).attempts}
    assert ended[1] == "preempted"
    await calendar.until(1)
    assert await calendar.state("bobs", calendar.bob) == "active"
    again = await calendar.yard.attempt(soft)
    assert again.number == 2
    assert node not in again.where.nodes


async def test_a_long_grace_does_not_stop_a_job_as_soon_as_it_starts(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        await calendar.add("bobs", calendar.bob, starts_ms=at(1))
        await calendar.until(1, -400)
        job = await calendar.yard.run_job(gpus=2, preemptible=True, grace_seconds=900)
        await calendar.until(1, -40)
        attempt = await calendar.yard.attempt(job)
        assert (attempt.number, attempt.stop_reason) == (1, None)
        await calendar.until(1, -31)
        attempt = await calendar.yard.attempt(job)
        assert (attempt.number, attempt.stop_reason, attempt.grace_ms) == (1, "preempted", 30_000)


async def test_nothing_is_started_that_would_run_into_a_lease(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        await calendar.add("bobs", calendar.bob, starts_ms=at(1))
        long = await calendar.yard.submit(gpus=2, time_limit_seconds=3700)
        detail = await calendar.yard.detail(long.job_id)
        assert detail.reasons[0].code == Code.RUNS_INTO_LEASE
        assert "`bobs`" in detail.reasons[0].sentence
        short = await calendar.yard.run_job(gpus=2, time_limit_seconds=600)
        assert await calendar.yard.state(short) == "running"


async def test_a_holders_job_starts_with_the_lease_and_saves_before_its_end(
    calendar: LeaseYard,
) -> None:
    """Hand-over on time: the job of the first lease is gone when the second begins."""
    await calendar.add("first", starts_ms=at(1), minutes=120)
    await calendar.add("second", calendar.bob, starts_ms=at(3), minutes=120)
    job = (await calendar.yard.submit(gpus=2, lease="first")).job_id
    detail = await calendar.yard.detail(job)
    assert detail.reasons[0].code == Code.LEASE_NOT_STARTED
    await calendar.until(1)
    await calendar.yard.tick()
    await calendar.yard.beat(job)
    assert await calendar.yard.state(job) == "running"
    assert (await calendar.yard.attempt(job)).where.nodes == ("n1",)
    # Bob's lease follows, so the turnaround of five minutes begins the drain.
    await calendar.until(3, -302)
    assert (await calendar.yard.attempt(job)).stop_reason is None
    await calendar.until(3, -299)
    attempt = await calendar.yard.attempt(job)
    assert (attempt.number, attempt.stop_reason) == (1, "preempted")
    await calendar.until(3)
    assert await calendar.state("second", calendar.bob) == "active"
    assert await calendar.yard.state(job) == "queued"
    assert (await calendar.yard.detail(job)).reasons[0].code == Code.LEASE_OVER


async def test_notify_leaves_jobs_alone_until_the_end(calendar: LeaseYard) -> None:
    await calendar.add("mine", starts_ms=at(1), before_end="notify")
    job = (await calendar.yard.submit(gpus=2, lease="mine")).job_id
    await calendar.until(1)
    await calendar.until(2, -1)
    assert (await calendar.yard.attempt(job)).stop_reason is None
    await calendar.until(2)
    attempt = await calendar.yard.attempt(job)
    assert (attempt.number, attempt.stop_reason) == (1, "preempted")
    assert await calendar.state("mine") == "terminated"


async def test_drain_lets_jobs_save_before_the_end_and_starts_none_for_the_rest(
    calendar: LeaseYard,
) -> None:
    await calendar.add("mine", starts_ms=at(1))
    job = (await calendar.yard.submit(gpus=2, lease="mine", grace_seconds=30)).job_id
    await calendar.until(1)
    await calendar.until(2, -33)
    assert (await calendar.yard.attempt(job)).stop_reason is None
    await calendar.until(2, -31)
    attempt = await calendar.yard.attempt(job)
    assert (attempt.number, attempt.stop_reason) == (1, "preempted")
    assert (await calendar.yard.detail(job)).reasons[0].code == Code.LEASE_OVER
    assert await calendar.state("mine") == "active"


async def test_holders_use_their_lease_without_naming_it_and_others_do_not(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        await calendar.add("bobs", calendar.bob, minutes=120)
        await calendar.until(0.01)
        job = await calendar.yard.submit(gpus=1, time_limit_seconds=60)
        assert (await calendar.yard.detail(job.job_id)).reasons[0].code == Code.LEASED_TO_OTHERS
        await calendar.release("bobs", calendar.bob)
        await calendar.yard.tick()
        assert await calendar.yard.state(job.job_id) == "starting"
        await calendar.add("anns", calendar.ann, minutes=120)
        await calendar.yard.tick()
        own = await calendar.yard.run_job(gpus=1)
        assert await calendar.yard.state(own) == "running"
        assert (await calendar.show("anns")).used_ms is not None


async def test_idle_nodes_are_nudged_lent_and_handed_back_at_once(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        await calendar.add("bobs", calendar.bob, minutes=600)
        hard = (await calendar.yard.submit(gpus=2)).job_id
        # It ends before the lease does, when the first in line has its room.
        soft = (
            await calendar.yard.submit(gpus=2, preemptible=True, time_limit_seconds=3600)
        ).job_id
        await calendar.until(0.51)
        assert (await calendar.kinds())[-1] == "lease.idle"
        assert await calendar.yard.states(hard, soft) == ["queued", "queued"]
        await calendar.until(1.1)
        assert "lease.lent" in await calendar.kinds()
        await calendar.yard.tick()
        assert await calendar.yard.states(hard, soft) == ["queued", "starting"]
        await calendar.leases.recall(calendar.bob, "bobs")
        await calendar.yard.tick()
        assert (await calendar.kinds())[-1] == "lease.recalled"
        assert (await calendar.yard.row(soft)).attempt == 1
        assert await calendar.yard.states(hard, soft) == ["queued", "queued"]
        shown = await calendar.show("bobs", calendar.bob)
        assert (shown.lent_ms, shown.state) == (None, "active")


async def test_the_holders_next_job_calls_lent_nodes_back(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        await calendar.add("mine", personal=True, minutes=600)
        await calendar.yard.tick()
        await calendar.until(0.51)
        await calendar.until(1.1)
        assert (await calendar.show("mine")).lent_ms is not None
        job = await calendar.yard.run_job(gpus=2)
        assert await calendar.yard.state(job) == "running"
        assert (await calendar.show("mine")).lent_ms is None


async def test_a_lease_nobody_uses_is_released_where_the_rules_say_so(
    database_url: str, tmp_path: Path
) -> None:
    rules = LeaseRules(release_idle_minutes=120)
    async with open_lease_yard(database_url, tmp_path, rules=rules) as calendar:
        await calendar.add("mine", minutes=600)
        await calendar.yard.tick()
        await calendar.until(2.1)
        shown = await calendar.show("mine")
        assert shown.state == "terminated"
        assert shown.sentence == "Nobody used it for 2 h 6 min, so it was released."


async def test_a_dead_node_is_replaced_by_an_equal_one(calendar: LeaseYard) -> None:
    await calendar.add("mine", nodes=["n1"], minutes=600)
    await calendar.until(0.1)
    calendar.yard.engine.lose_node("n1")
    await calendar.yard.tick(11)
    shown = await calendar.show("mine")
    assert (shown.degraded, [node.node_id for node in shown.nodes]) == (True, ["n1"])
    await calendar.yard.tick(70)
    shown = await calendar.show("mine")
    assert (shown.degraded, [node.node_id for node in shown.nodes]) == (False, ["n2"])
    assert (await calendar.kinds())[-2:] == ["lease.degraded", "lease.replaced"]


async def test_a_node_that_dies_before_the_start_is_replaced_in_time(calendar: LeaseYard) -> None:
    """Near its start; a lease far ahead keeps its node, which may well be back by then."""
    await calendar.add("soon", nodes=["n1"], starts_ms=at(0.5))
    await calendar.add("far", calendar.bob, nodes=["n1"], starts_ms=at(48))
    calendar.yard.engine.lose_node("n1")
    await calendar.yard.tick(11)
    await calendar.yard.tick(70)
    shown = await calendar.show("soon")
    assert (shown.state, [node.node_id for node in shown.nodes]) == ("pending", ["n2"])
    far = await calendar.show("far", calendar.bob)
    assert [node.node_id for node in far.nodes] == ["n1"]


async def test_without_an_equal_node_the_lease_is_degraded_until_it_is_back(
    calendar: LeaseYard,
) -> None:
    calendar.yard.engine.add_node(fake_node("big", gpus=8))
    await calendar.yard.tick(11)
    await calendar.add("mine", nodes=["big", "n1"], minutes=600)
    await calendar.until(0.1)
    calendar.yard.engine.lose_node("big")
    await calendar.yard.tick(11)
    await calendar.yard.tick(120)
    shown = await calendar.show("mine")
    assert (shown.degraded, shown.state) == (True, "active")
    assert shown.sentence.endswith("degraded: big does not work.")
    calendar.yard.engine.add_node(fake_node("big", gpus=8))
    await calendar.yard.tick(11)
    assert not (await calendar.show("mine")).degraded
    assert (await calendar.kinds())[-1] == "lease.restored"


async def test_a_lease_whose_nodes_are_all_dead_waits_in_error(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        await calendar.add("mine", starts_ms=at(1), minutes=600)
        calendar.yard.engine.lose_node("n1")
        await calendar.until(1)
        assert await calendar.state("mine") == "error"
        node = calendar.yard.engine._nodes["n1"]
        calendar.yard.engine.add_node(replace(node, state=NodeState.READY))
        await calendar.yard.tick(11)
        assert await calendar.state("mine") == "active"
        kinds = await calendar.kinds()
        assert "lease.failed" in kinds


async def test_the_start_is_frozen_once_it_has_begun(calendar: LeaseYard) -> None:
    await calendar.add("mine", minutes=600)
    await calendar.yard.tick()
    with pytest.raises(LeaseRefused) as fault:
        await calendar.move("mine", starts_ms=at(2))
    assert explained(fault.value)["refusal"] == "started"
    moved = await calendar.move("mine", nodes=["n3"])
    assert [node.node_id for node in moved.lease.nodes] == ["n3"]


async def test_jobs_on_a_part_of_a_pool_run_and_the_pool_gets_its_node_back(
    database_url: str, tmp_path: Path
) -> None:
    async with open_lease_yard(database_url, tmp_path, nodes=1) as calendar:
        staff = replace(calendar.bob, is_admin=True)
        await calendar.add("course", staff, pool=True, minutes=600)
        await calendar.yard.tick()
        job = (await calendar.yard.submit(gpus=1, time_limit_seconds=120)).job_id
        assert (await calendar.yard.detail(job)).reasons[0].code == Code.LEASED_TO_OTHERS
        await calendar.add("part", staff, parent="course", team="lab", user="ann", minutes=60)
        await calendar.yard.tick()
        assert await calendar.yard.state(job) == "starting"
        await calendar.until(1.1)
        assert await calendar.state("part") == "terminated"
        late = (await calendar.yard.submit(gpus=1, time_limit_seconds=120)).job_id
        assert (await calendar.yard.detail(late)).reasons[0].code == Code.LEASED_TO_OTHERS
