"""When a node is quarantined and when it is given back: pure, from how its checks stand."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from trackyard.core.errors import SetupError
from trackyard.core.health import LIMITS, CheckName, CheckReport, CheckVerdict
from trackyard.core.ports import ExitCause
from trackyard.fleet.evidence import EvidenceReporter, hardware_like
from trackyard.fleet.nodes import NodeFacts, StoredGpu, properties_of
from trackyard.fleet.policy import HealthPolicy, read_policy
from trackyard.fleet.service import Clocks, Fleet
from trackyard.fleet.verdicts import CheckRow, lifts, overall, quarantines

POLICY = HealthPolicy(quarantine_after=3, lift_after=2, probation_minutes=10)
MINUTE = 60_000


def check(name: str = "ecc", verdict: str = "ok", **changes: Any) -> CheckRow:
    values: dict[str, Any] = {
        "node_id": "n1",
        "name": name,
        "verdict": verdict,
        "sentence": "It is so.",
        "number": None,
        "unit": "",
        "source": "engine",
        "at_ms": 1000,
        "since_ms": 0,
        "failed": 0,
        "passed": 5,
        "accepted": 0.0,
    }
    return CheckRow(**{**values, **changes})


def test_a_node_is_quarantined_after_enough_failed_looks_in_a_row() -> None:
    assert quarantines(POLICY, [check(), check("disk", "fail", failed=2)]) is None
    guilty = check("disk", "fail", failed=3)
    assert quarantines(POLICY, [check(), guilty]) == guilty


def test_failed_attempts_are_counted_once() -> None:
    assert quarantines(POLICY, [check("jobs", "fail", failed=1)]) is not None


def test_warnings_never_quarantine_and_nothing_does_where_it_is_turned_off() -> None:
    assert quarantines(POLICY, [check("disk", "warn", failed=0)]) is None
    off = replace(POLICY, quarantine_after=0)
    assert quarantines(off, [check("disk", "fail", failed=99)]) is None


def test_a_quarantine_is_lifted_after_enough_good_looks() -> None:
    bad = check("disk", "fail", failed=4)
    once = check("disk", "ok", since_ms=200, passed=1)
    twice = check("disk", "ok", since_ms=200, passed=2)
    for row, expected in ((bad, False), (once, False), (twice, True)):
        assert lifts(POLICY, [check(), row], state_ms=100, now_ms=300) is expected


def test_a_check_that_held_all_along_does_not_delay_the_lifting() -> None:
    assert lifts(POLICY, [check(since_ms=5, passed=1)], state_ms=100, now_ms=300)


def test_a_node_that_only_runners_look_at_is_tried_again_after_a_while() -> None:
    """No job starts there, so no runner would ever look again."""
    bad = check("disk", "fail", failed=3, source="runner")
    assert not lifts(POLICY, [bad], state_ms=1000, now_ms=1000 + 9 * MINUTE)
    assert lifts(POLICY, [bad], state_ms=1000, now_ms=1000 + 10 * MINUTE)


def test_lifting_may_be_left_to_people() -> None:
    assert not lifts(replace(POLICY, lift="hand"), [check()], state_ms=100, now_ms=300)


def test_health_in_one_word() -> None:
    assert overall([]) == "unknown"
    assert overall([check(), check("disk", "warn")]) == "warn"
    assert overall([check("disk", "warn"), check(verdict="fail")]) == "fail"


def test_the_clock_furthest_ahead_is_nearest_the_truth() -> None:
    """A heartbeat can only be late, which makes its clock look slow."""
    clocks, who = Clocks(), EvidenceReporter("j1-a1", "j1", 1)
    clocks.note("n1", who, -900)
    clocks.note("n2", who, 40)
    assert clocks.collect() == {"n2": [(who, 40)]}
    for ahead in (-20, -400):
        clocks.note("n1", who, ahead)
    assert clocks.collect() == {"n1": [(who, -20)]}
    assert clocks.collect() == {}


def test_the_same_look_is_taken_once() -> None:
    fleet = Fleet()
    look = [
        CheckReport(
            name=CheckName.DISK, verdict=CheckVerdict.OK, sentence="Room.", number=1, at_ms=5
        )
    ]
    assert fleet.is_news("a1", 0, look)
    fleet.note_taken("a1", 0, look)
    assert not fleet.is_news("a1", 0, look)
    assert fleet.is_news("a1", 1, look)


@pytest.mark.parametrize(
    ("cause", "number", "line", "expected"),
    [
        (ExitCause.EXIT_CODE, None, "RuntimeError: CUDA error: uncorrectable ECC error", "ECC"),
        (ExitCause.EXIT_CODE, None, "OSError: [Errno 28] No space left on device", "full disk"),
        (ExitCause.EXIT_CODE, None, "NVRM: Xid (PCI:0000:3b:00): 79, fallen off", "lost GPU|Xid"),
        (ExitCause.SIGNAL, 7, None, "bus error"),
        (ExitCause.NODE_UNFIT, None, None, "before the start"),
        (ExitCause.EXIT_CODE, None, "RuntimeError: CUDA error: illegal memory access", None),
        (ExitCause.EXIT_CODE, None, "ValueError: bad shape", None),
        (ExitCause.OUT_OF_MEMORY, None, "CUDA out of memory", None),
        (ExitCause.STOPPED, None, "No space left on device", None),
        (ExitCause.SIGNAL, 9, None, None),
    ],
)
def test_ends_that_look_like_hardware(
    cause: ExitCause, number: int | None, line: str | None, expected: str | None
) -> None:
    found = hardware_like(cause, number, line)
    if expected is None:
        assert found is None
    else:
        assert re.search(expected, found or "")


def test_the_policy_is_read_and_a_wrong_key_is_named() -> None:
    policy = read_policy({"quarantine_after": 5, "lift": "hand", "disk_fail_gb": 2})
    assert (policy.quarantine_after, policy.lift, policy.limits["disk_fail_gb"]) == (5, "hand", 2)
    assert policy.limits["disk_warn_gb"] == 5
    for table, words in (
        ({"quarantine_afer": 1}, "quarantine_after"),
        ({"lift": "maybe"}, "auto"),
        ({"lift_after": 1.5}, "whole number"),
        ({"disk_fail_gb": "much"}, "must be a number"),
        ({"every_seconds": 0.1}, "at least 1"),
    ):
        with pytest.raises(SetupError) as refused:
            read_policy(table)
        assert words in f"{refused.value.message} {refused.value.hint}"


def test_properties_say_what_a_node_is_made_of() -> None:
    gpus = [StoredGpu(n, "nvidia", "A100-80GB", 80 - n) for n in (0, 1)]
    facts = NodeFacts("h", "1.2.3.4", 64.0, 512, gpus=gpus)
    found = properties_of(facts, {"cuda": "12.4", "nvidia_driver": "550", "os": "linux"})
    assert (found.node_class, found.gpu_count, found.gpu_memory_bytes) == ("A100-80GB", 2, 79)
    assert (found.driver, found.cuda, found.rocm) == ("550", "12.4", "")
    assert properties_of(facts, {"class": "big"}).node_class == "big"
    assert properties_of(NodeFacts("h", "", 1.0, 1), {}).node_class == "cpu"


def test_every_key_of_the_table_health_is_documented() -> None:
    """docs/fleet.md names each with its default, and no other."""
    page = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text()
    rows = page.split("## Settings")[1].split("```")[0]
    named = {
        key for row in rows.splitlines() if row.startswith("| `")
        for key in re.findall(r"`([a-z_]+)`", row.split("|")[1])
    }  # fmt: skip
    assert named == {*LIMITS, *(one.name for one in fields(HealthPolicy))} - {"limits"}
