"""Making and changing leases on a real store: who wins, who is refused, who is told."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.jobs.yard import member
from tests.integration.leases.yard import LeaseYard, at, explained
from trackyard.core.errors import Denied, LeaseRefused, NotFound
from trackyard.leases.service import Leases
from trackyard.leases.wishes import LeaseTransfer, NewLease
from trackyard.store.database import Database


async def test_a_lease_is_bound_to_nodes_at_once_and_shown(calendar: LeaseYard) -> None:
    made = await calendar.add("mltrain_ann", type="fake", count=2, starts_ms=at(2))
    assert [node.node_id for node in made.lease.nodes] == ["n1", "n2"]
    shown = await calendar.show("mltrain_ann")
    assert (shown.state, shown.gpus, shown.units) == ("pending", 4, 2.0)
    assert shown.sentence == "Starts in 2 h on n1, n2."
    assert await calendar.kinds() == ["lease.created"]


async def test_a_dry_run_answers_the_same_and_changes_nothing(calendar: LeaseYard) -> None:
    tried = await calendar.add("a", starts_ms=at(1), dry_run=True)
    assert tried.dry_run
    assert tried.lease.starts_ms == at(1)
    assert (await calendar.leases.list(calendar.ann)).leases == []
    assert await calendar.kinds() == []


async def test_an_overlap_names_the_lease_its_holder_and_the_nearest_slots(
    calendar: LeaseYard,
) -> None:
    await calendar.add("thesis", calendar.bob, starts_ms=at(2), minutes=120)
    facts = await calendar.refusal("mine", starts_ms=at(3), minutes=60)
    assert facts["refusal"] == "overlap"
    assert "lease thesis of bob (team vision)" in facts["sentence"]
    assert (
        facts["conflicts"][0]["lease_id"] == (await calendar.show("thesis", calendar.bob)).lease_id
    )
    starts = [slot["starts_ms"] for slot in facts["slots"]]
    assert starts[0] == at(4)
    assert at(1) in starts
    for slot in facts["slots"]:
        name = f"try-{slot['starts_ms']}"
        answer = await calendar.add(
            name, nodes=slot["nodes"], starts_ms=slot["starts_ms"], dry_run=True
        )
        assert answer.lease.ends_ms == slot["ends_ms"]


async def test_of_simultaneous_requests_exactly_one_wins(
    calendar: LeaseYard, database_url: str
) -> None:
    """Two servers on one database, five requests each for the same slot."""
    other = None
    servers = [calendar.leases]
    if not calendar.yard.database.is_sqlite:
        other = Database(database_url, clock=calendar.yard.clock)
        other.start()
        servers.append(Leases(other))

    async def ask(server: Leases, number: int) -> str:
        wish = NewLease(name=f"r{number}", nodes=["n2"], starts_ms=at(1), minutes=60)
        try:
            await server.create(calendar.ann if number % 2 else calendar.bob, wish)
        except LeaseRefused as fault:
            return str(explained(fault)["refusal"])
        return "won"

    try:
        answers = await asyncio.gather(
            *(ask(servers[number % len(servers)], number) for number in range(10))
        )
    finally:
        if other is not None:
            await other.close()
    assert sorted(answers) == ["overlap"] * 9 + ["won"]


async def test_leases_back_to_back_just_work(calendar: LeaseYard) -> None:
    """The turnaround is the system's duty: both are granted, the first is told to save early."""
    await calendar.add("first", starts_ms=at(1), minutes=180)
    second = await calendar.add("second", calendar.bob, starts_ms=at(4), minutes=180)
    assert second.lease.follows == (await calendar.show("first")).lease_id
    first = await calendar.show("first")
    assert first.ends_ms == at(4)
    assert first.usable_until_ms == at(4) - 5 * 60_000
    assert await calendar.kinds() == ["lease.created", "lease.created", "lease.changed"]


async def test_extending_is_possible_when_nothing_follows(calendar: LeaseYard) -> None:
    await calendar.add("mine", starts_ms=at(1))
    await calendar.add("next", calendar.bob, starts_ms=at(3))
    done = await calendar.extend("mine", minutes=60)
    assert done.lease.ends_ms == at(3)
    with pytest.raises(LeaseRefused) as fault:
        await calendar.extend("mine", minutes=30)
    facts = explained(fault.value)
    assert facts["refusal"] == "followed"
    assert "lease next of bob" in facts["sentence"]
    assert all(slot["starts_ms"] >= at(4) or slot["ends_ms"] <= at(1) for slot in facts["slots"])


async def test_a_partly_free_extension_says_how_far_it_goes(calendar: LeaseYard) -> None:
    await calendar.add("mine", starts_ms=at(1))
    await calendar.add("next", calendar.bob, starts_ms=at(3))
    with pytest.raises(LeaseRefused, match=r"It can be extended until Thu 1 Jan 2026 03:00"):
        await calendar.extend("mine", minutes=120)


async def test_shrinking_gives_time_and_nodes_back(calendar: LeaseYard) -> None:
    await calendar.add("mine", where="gpu.count = 2", count=3, starts_ms=at(1), minutes=120)
    await calendar.shrink("mine", minutes=60, nodes=["n2"])
    await calendar.add("other", calendar.bob, nodes=["n2"], starts_ms=at(1))
    await calendar.add("later", calendar.bob, nodes=["n1"], starts_ms=at(2))
    with pytest.raises(LeaseRefused, match="Nothing would be left"):
        await calendar.shrink("mine", minutes=60)


async def test_moving_keeps_the_length_and_takes_other_nodes_where_it_must(
    calendar: LeaseYard,
) -> None:
    await calendar.add("mine", type="fake", starts_ms=at(1), minutes=90)
    await calendar.add("bobs", calendar.bob, nodes=["n1"], starts_ms=at(5))
    moved = await calendar.move("mine", starts_ms=at(5))
    assert (moved.lease.starts_ms, moved.lease.ends_ms) == (at(5), at(6.5))
    assert [node.node_id for node in moved.lease.nodes] == ["n2"]
    await calendar.move("mine", name="renamed", purpose="lab 3")
    assert (await calendar.show("renamed")).purpose == "lab 3"
    assert (await calendar.leases.find(calendar.bob, moved.lease.lease_id)).purpose == ""


async def test_only_the_holder_maintainers_and_admins_change_a_lease(calendar: LeaseYard) -> None:
    made = await calendar.add("mine", starts_ms=at(1))
    with pytest.raises(Denied, match=r"lease mine is ann's \(team lab\)"):
        await calendar.release(made.lease.lease_id, calendar.bob)
    with pytest.raises(NotFound, match="yard lease ls"):
        await calendar.release("mine", calendar.bob)


async def test_a_lease_is_handed_over_within_the_team(calendar: LeaseYard) -> None:
    await calendar.add("mine", starts_ms=at(1))
    eve = await member(calendar.yard.directory, "eve", "lab")
    done = await calendar.leases.transfer(calendar.ann, "mine", LeaseTransfer(user=eve.name))
    assert (done.lease.user, done.lease.mine) == ("eve", False)
    with pytest.raises(Denied):
        await calendar.release("mine")
    assert "lease.transferred" in await calendar.kinds()


async def test_staff_sets_a_pool_aside_and_hands_out_parts(calendar: LeaseYard) -> None:
    staff = replace(calendar.ann, is_admin=True)
    with pytest.raises(Denied, match="platform admins"):
        await calendar.add("course", pool=True, type="fake", count=2, starts_ms=at(1))
    await calendar.add(
        "course", staff, pool=True, type="fake", count=2, starts_ms=at(1), minutes=600
    )
    facts = await calendar.refusal("direct", calendar.bob, nodes=["n1"], starts_ms=at(2))
    assert "lease course" in facts["sentence"]
    part = await calendar.add(
        "part",
        staff,
        parent="course",
        team="vision",
        user="bob",
        where="gpu.count=2",
        starts_ms=at(2),
    )
    assert (part.lease.parent_name, part.lease.user) == ("course", "bob")
    with pytest.raises(LeaseRefused, match="Release them first"):
        await calendar.release("course", staff)
    with pytest.raises(LeaseRefused, match="is part of this pool"):
        await calendar.shrink("course", staff, starts_ms=at(2.5))
    outside = await calendar.refusal(
        "late", staff, parent="course", where="gpu.count=2", starts_ms=at(10.5)
    )
    assert outside["refusal"] == "outside_pool"


async def test_a_running_job_that_may_not_be_preempted_is_in_the_way(calendar: LeaseYard) -> None:
    for _ in range(3):
        await calendar.yard.run_job(gpus=2, name="stays")
    facts = await calendar.refusal("now", calendar.bob)
    assert facts["refusal"] == "busy"
    assert "may not be preempted" in facts["sentence"]
    assert facts["jobs"][0]["job_id"] == ""
    own = await calendar.add("own", calendar.ann)
    assert own.effects == []


async def test_a_dry_run_names_the_jobs_that_are_drained_and_those_that_wait_longer(
    calendar: LeaseYard,
) -> None:
    await calendar.yard.run_job(gpus=2, name="soft", preemptible=True, time_limit_seconds=7200)
    for _ in range(2):
        await calendar.yard.run_job(gpus=2, name="done", time_limit_seconds=1800)
    waiting = await calendar.yard.submit(gpus=2, nodes=3, name="wide", time_limit_seconds=3600)
    tried = await calendar.add(
        "mine",
        calendar.bob,
        where="gpu.count=2",
        count=3,
        starts_ms=at(1),
        minutes=300,
        dry_run=True,
    )
    effects = [(one.effect, one.name) for one in tried.effects]
    assert sorted(effects) == [
        ("drained", ""),
        ("ends_before", ""),
        ("ends_before", ""),
        ("waits", ""),
    ]
    # Of one's own team the job is named: it would start after two hours, and not before six.
    again = await calendar.add(
        "theirs",
        replace(calendar.ann, is_admin=True),
        team="vision",
        where="gpu.count=2",
        count=3,
        starts_ms=at(1),
        minutes=300,
        dry_run=True,
    )
    [later] = [one for one in again.effects if one.effect == "waits"]
    assert (later.job_id, later.at_ms) == (waiting.job_id, at(6))


async def test_the_list_filters(calendar: LeaseYard, tmp_path: Path) -> None:
    await calendar.add("a", starts_ms=at(1))
    await calendar.add("b", calendar.bob, nodes=["n2"], starts_ms=at(2))
    await calendar.release("a")

    async def names(**how: object) -> list[str]:
        found = await calendar.leases.list(calendar.ann, **how)  # type: ignore[arg-type]
        return [one.name for one in found.leases]

    assert await names() == ["b"]
    assert await names(all_=True) == ["a", "b"]
    assert await names(mine=True) == []
    assert await names(team="vision") == ["b"]
    assert await names(node="n1") == []
    assert await names(span_ms=(at(0), at(2))) == []
