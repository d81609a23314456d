"""What a request comes to, rule by rule: each refusal is one sentence with a remedy."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.leases.plan.worlds import ANN, BOB, NOW, Book, explained, hours, machine
from trackyard.core.errors import InvalidInput, LeaseRefused, SetupError
from trackyard.core.lease import LeaseState
from trackyard.core.node import NodeState
from trackyard.leases.plan import changing
from trackyard.leases.plan.calendar import RunningJob
from trackyard.leases.plan.planning import new
from trackyard.leases.rules import MINUTE_MS, LeaseRules, read_rules
from trackyard.leases.wishes import LeaseExtension, LeaseShrinking, NewLease

FOUR = [machine(f"g{number}") for number in range(1, 5)]


def refused(book: Book, holder: Any = ANN, **wish: Any) -> dict[str, Any]:
    with pytest.raises(LeaseRefused) as fault:
        book.add(holder, **wish)
    return explained(fault.value)


@pytest.mark.parametrize(
    ("wish", "kind", "words"),
    [
        ({"starts_ms": hours(-1), "minutes": 120}, "past_start", "is past"),
        ({"starts_ms": hours(1), "ends_ms": hours(1)}, "zero_length", "not after its start"),
        ({"starts_ms": hours(2), "ends_ms": hours(1)}, "zero_length", "not after its start"),
        ({"minutes": 0}, "zero_length", "not after its start"),
        ({"nodes": ["gg1"], "minutes": 60}, "unknown_node", "did you mean g1"),
        ({"minutes": 60 * 24 * 8}, "too_long", "A lease lasts at most 7 days"),
        ({"starts_ms": hours(24 * 61), "minutes": 60}, "too_far_ahead", "over 60 days ahead"),
        ({"type": "h100", "minutes": 60}, "no_such_hardware", "no nodes of type h100"),
        ({"type": "a100", "count": 5, "minutes": 60}, "no_such_hardware", "needs 5"),
        ({"where": "gpu.cuont = 1", "minutes": 60}, "bad_where", "there is no property"),
    ],
)
def test_each_refusal_is_one_sentence_and_a_remedy(
    wish: dict[str, Any], kind: str, words: str
) -> None:
    facts = refused(Book(FOUR), **wish)
    assert facts["refusal"] == kind
    assert words in facts["sentence"]


def test_admins_are_exempt_from_lengths_but_not_from_the_calendar() -> None:
    book, staff = Book(FOUR), replace(ANN, is_exempt=True)
    book.add(staff, starts_ms=hours(24 * 90), minutes=60 * 24 * 30)
    assert refused(book, staff, starts_ms=hours(24 * 91), minutes=60)["refusal"] == "overlap"


def test_a_lease_from_now_begins_with_this_minute_and_lasts_as_long_as_asked() -> None:
    book = Book(FOUR)
    book.now_ms = NOW + 30_500
    made = book.add(minutes=180)
    assert (made.row.starts_ms, made.row.ends_ms) == (NOW, hours(3))


def test_of_free_nodes_the_smallest_with_the_least_waste_is_taken() -> None:
    machines = [machine("big", 8), machine("a", 2), machine("b", 2)]
    book = Book(machines)
    book.add(BOB, nodes=["b"], starts_ms=hours(0), minutes=60)
    assert book.add(where="gpu.count >= 2", starts_ms=hours(1), minutes=60).nodes == ("a",)
    book = Book(machines, occupants=[occupant("a", preemptible=True)])
    assert book.add(where="gpu.count >= 2", starts_ms=hours(1), minutes=60).nodes == ("b",)


def test_nodes_of_one_type_that_differ_are_told_apart() -> None:
    book = Book([machine("c03-04", 1, "MI100"), machine("c03-05", 2, "MI100")])
    assert book.add(where="gpu.model = mi100 and gpu.count = 2", minutes=60).nodes == ("c03-05",)


def test_min_and_max_take_what_is_there() -> None:
    book = Book(FOUR)
    book.add(BOB, nodes=["g2", "g3"], minutes=60)
    assert len(book.add(type="a100", min=1, max=3, minutes=60).nodes) == 2
    with pytest.raises(InvalidInput, match="--min 3 is more than --max 2"):
        book.add(type="a100", min=3, max=2, minutes=60)


def occupant(node: str, *, preemptible: bool = False, ends: int | None = None) -> RunningJob:
    return RunningJob(
        job_id="j1",
        name="train",
        user="eve",
        team="other",
        nodes=(node,),
        ends_ms=ends,
        preemptible=preemptible,
    )


def test_a_job_that_stays_is_in_the_way_and_one_that_ends_is_not() -> None:
    only = [machine("g1")]
    facts = refused(Book(only, occupants=[occupant("g1")]), starts_ms=hours(1), minutes=60)
    assert facts["refusal"] == "busy"
    assert facts["sentence"].endswith("with no known end.")
    late = Book(only, occupants=[occupant("g1", ends=hours(2))])
    slots = refused(late, starts_ms=hours(1), minutes=60)["slots"]
    assert [slot["starts_ms"] for slot in slots] == [hours(2)]
    assert Book(only, occupants=[occupant("g1", ends=hours(1))]).add(
        starts_ms=hours(1), minutes=60
    )


def test_a_node_that_does_not_work_is_not_promised_for_now() -> None:
    down = replace(FOUR[0], state=NodeState.DOWN)
    book = Book([down, *FOUR[1:]])
    assert refused(book, nodes=["g1"], minutes=60)["refusal"] == "not_working"
    assert book.add(nodes=["g1"], starts_ms=hours(24), minutes=60).nodes == ("g1",)
    assert "g1" not in book.add(type="a100", count=3, minutes=60).nodes


def test_a_team_that_would_hold_too_much_of_a_class_is_refused() -> None:
    book = Book(FOUR)
    book.add(nodes=["g1", "g2", "g3"], minutes=60)
    facts = refused(book, nodes=["g4"], minutes=60)
    assert facts["refusal"] == "hoarding"
    assert "4 of 4 nodes of class A100 at once; 3 is the most" in facts["sentence"]
    book.add(BOB, nodes=["g4"], minutes=60)
    book.add(nodes=["g4"], starts_ms=hours(1), minutes=60)


def test_a_quota_counts_service_units_by_class_within_its_period() -> None:
    rules = read_rules({"quota_units": 10, "classes": {"a100": {"units": 2}}})
    book = Book(FOUR, rules=rules)
    book.add(nodes=["g1"], minutes=240)
    facts = refused(book, nodes=["g2"], minutes=90)
    assert facts["refusal"] == "over_quota"
    assert "It costs 3 service units; team lab has 2 of 10 left" in facts["sentence"]
    book.add(nodes=["g2"], minutes=60)
    book.add(BOB, nodes=["g3"], minutes=300)
    book.add(nodes=["g4"], starts_ms=hours(24 * 31), minutes=240)


def test_a_string_of_leases_is_granted_and_reported() -> None:
    book = Book(FOUR)
    for week in range(2):
        book.add(starts_ms=hours(168 * week), minutes=168 * 60)
    wish = NewLease(name="third", nodes=["g2"], starts_ms=hours(336), minutes=168 * 60)
    plan = new(book.world, wish, ANN)
    assert len(plan.flags) == 1
    assert "follow one another over 100% of the coming 21 days" in plan.flags[0]
    assert new(book.world, wish, BOB).flags == ()


def test_an_active_lease_is_extended_in_its_last_hours_only() -> None:
    book = Book(FOUR)
    made = book.add(minutes=60 * 24 * 5)
    active = replace(made, row=made.row._replace(state=LeaseState.ACTIVE.value))
    book.records[made.row.lease_id] = active
    with pytest.raises(LeaseRefused) as fault:
        changing.extend(book.world, active, LeaseExtension(minutes=60), ANN)
    assert explained(fault.value)["refusal"] == "extend_too_early"
    book.now_ms = hours(24 * 4)
    plan = changing.extend(book.world, active, LeaseExtension(minutes=60), ANN)
    assert plan.ends_ms == made.row.ends_ms + 3_600_000
    with pytest.raises(LeaseRefused, match="at most 7 days"):
        changing.extend(book.world, active, LeaseExtension(minutes=60 * 24 * 7), ANN)


def test_a_lease_in_between_two_states_is_left_alone() -> None:
    book = Book(FOUR)
    made = book.add(minutes=60)
    moving = replace(made, row=made.row._replace(state=LeaseState.STARTING.value))
    with pytest.raises(LeaseRefused, match="is starting this moment"):
        changing.shrink(book.world, moving, LeaseShrinking(minutes=10), ANN)
    over = replace(made, row=made.row._replace(state=LeaseState.TERMINATED.value))
    with pytest.raises(LeaseRefused, match="is over since"):
        changing.shrink(book.world, over, LeaseShrinking(minutes=10), ANN)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_hour": 3}, "max_hour"),
        ({"hoard_share": 0}, "hoard_share lies above 0"),
        ({"gap_minutes": -1}, "gap_minutes cannot be negative"),
        ({"max_hours": 0}, "above 0"),
    ],
)
def test_rules_that_make_no_sense_are_refused_at_start(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        read_rules(values)


def test_rules_of_a_class_are_found_by_class_or_model() -> None:
    rules = read_rules({"lend_minutes": -1, "classes": {"a100": {"gap_minutes": 9, "units": 3}}})
    assert rules.lend_minutes is None
    assert rules.gap_ms(FOUR[0]) == 9 * MINUTE_MS
    assert rules.units_an_hour(machine("x", model="V100")) == 1.0
    assert LeaseRules().gap_ms(FOUR[0]) == 5 * MINUTE_MS
