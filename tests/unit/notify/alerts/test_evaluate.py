"""Rules judged by facts, without tables, clocks or loops."""

import math

import msgspec
import pytest

from trackyard.core.alerts import STATES, parse
from trackyard.notify.alerts.evaluate import (
    STATE_WORDS,
    AlertChange,
    EventObservation,
    Fact,
    LogMatch,
    MetricObservation,
    NoPoint,
    ProgressMark,
    RuleMemory,
    SubjectEnded,
    WaitingObservation,
    evaluate,
)

MINUTE = 60_000


class Judge:
    """A rule with its memory, given facts at minutes of a clock."""

    def __init__(self, text: str, memory: RuleMemory | None = None) -> None:
        self.condition = parse(text).condition
        self.memory = memory or RuleMemory()

    def at(self, minute: float, fact: Fact) -> AlertChange | None:
        now = int(minute * MINUTE) + MINUTE
        # Whatever is remembered survives a restart between any two facts.
        packed = msgspec.json.encode(self.memory)
        known = msgspec.json.decode(packed, type=RuleMemory)
        self.memory, outcome = evaluate(self.condition, known, fact, now)
        return outcome


def point(
    value: float, *, step: int = 1, least: float = 0.0, most: float = 0.0
) -> MetricObservation:
    return MetricObservation(step, step, value, least or value, most or value)


def fires(outcome: AlertChange | None) -> bool:
    return outcome is not None and outcome.fires


def clears(outcome: AlertChange | None) -> bool:
    return outcome is not None and not outcome.fires


def test_a_threshold_fires_once_and_clears_once() -> None:
    judge = Judge("loss > 10")
    assert judge.at(0, point(3)) is None
    assert fires(judge.at(1, point(12, step=2)))
    assert judge.at(2, point(15, step=3)) is None
    assert clears(judge.at(3, point(4, step=4, most=15)))
    assert judge.at(4, point(4, step=5, most=15)) is None


def test_a_threshold_for_a_time_needs_it_without_a_break() -> None:
    judge = Judge("loss > 10 for 5m")
    assert judge.at(0, point(12)) is None
    assert judge.at(4, point(12)) is None
    assert judge.at(4.5, point(3)) is None
    assert judge.at(6, point(12)) is None
    outcome = judge.at(11, point(12, step=9))
    assert outcome == AlertChange(True, "loss is 12 (> 10) at step 9, for 5 min.")


def test_a_spike_between_two_looks_is_seen() -> None:
    judge = Judge("loss > 10")
    judge.at(0, point(2, most=3))
    outcome = judge.at(1, point(2, step=50, most=900))
    assert fires(outcome)
    assert "900" in outcome.sentence


def test_a_spike_from_before_the_rule_does_not_count() -> None:
    assert Judge("loss > 10").at(0, point(2, most=900)) is None
    assert fires(Judge("loss > 10", RuleMemory(counts_past=True)).at(0, point(2, most=900)))


def test_nan_neither_breaks_nor_ends_a_threshold() -> None:
    judge = Judge("loss > 10")
    judge.at(0, point(12))
    assert judge.at(1, point(math.nan)) is None
    assert judge.memory.is_firing


def test_a_change_is_measured_within_its_window() -> None:
    judge = Judge("loss rises 50% in 10m")
    for minute in range(5):
        assert judge.at(minute, point(2.0, step=minute)) is None
    outcome = judge.at(5, point(3.1, step=5))
    assert fires(outcome)
    assert "rose 55% within 10 min, from 2 to 3.1" in outcome.sentence
    assert judge.at(6, point(3.2, step=6)) is None
    # Once the window holds nothing lower, it is the new level.
    for minute in range(7, 20):
        judge.at(minute, point(3.2, step=minute))
    assert not judge.memory.is_firing


def test_a_drop_of_something_negative_is_measured_by_its_size() -> None:
    judge = Judge("reward drops 50% in 10m")
    judge.at(0, point(-2.0))
    assert judge.at(1, point(-2.5)) is None
    assert fires(judge.at(2, point(-3.0)))


def test_the_memory_of_a_change_is_bounded() -> None:
    judge = Judge("loss rises 50% in 1h")
    for minute in range(1000):
        judge.at(minute / 10, point(2.0, step=minute))
    assert len(judge.memory.samples) <= 17


def test_nan_fires_and_ends_with_a_number() -> None:
    judge = Judge("nan")
    assert judge.at(0, point(1.0)) is None
    assert fires(judge.at(1, point(math.nan, step=7)))
    assert clears(judge.at(2, point(1.0)))


def test_absence_counts_from_the_start_and_from_the_last_point() -> None:
    judge = Judge("no loss for 15m")
    assert judge.at(0, NoPoint(MINUTE)) is None
    assert fires(judge.at(15, NoPoint(MINUTE)))
    assert clears(judge.at(16, point(1.0, step=1)))
    assert judge.at(30, point(1.0, step=2)) is None
    assert judge.at(44, point(1.0, step=2)) is None
    assert fires(judge.at(45, point(1.0, step=2)))


def test_a_stall_is_a_mark_that_stays() -> None:
    judge = Judge("stall 20m")
    assert judge.at(0, ProgressMark("a", MINUTE)) is None
    assert judge.at(19, ProgressMark("b", 20 * MINUTE)) is None
    assert judge.at(38, ProgressMark("b", 39 * MINUTE)) is None
    assert fires(judge.at(40, ProgressMark("b", 41 * MINUTE)))
    assert clears(judge.at(41, ProgressMark("c", 42 * MINUTE)))


def test_a_promised_stall_follows_the_runner() -> None:
    judge = Judge("stalled")
    assert judge.at(0, ProgressMark("a", MINUTE)) is None
    assert fires(
        judge.at(1, EventObservation("job.stalled", {"sentence": "No progress for 9 min."}))
    )
    assert clears(judge.at(2, EventObservation("job.recovered", {})))


@pytest.mark.parametrize(
    ("text", "kind", "data"),
    [
        ("state failed", "job.failed", {"sentence": "exit code 1"}),
        ("state failed", "run.finished", {"status": "FAILED"}),
        ("state preempted", "job.preempting", {}),
        ("lease ending", "lease.ending", {}),
        ("lease starts", "lease.started", {}),
        ("budget warned", "budget.warned", {"sentence": "80% used"}),
        ("budget exhausted", "budget.exhausted", {}),
    ],
)
def test_what_happens_fires_each_time(text: str, kind: str, data: dict[str, str]) -> None:
    judge = Judge(text)
    assert fires(judge.at(0, EventObservation(kind, data)))
    assert fires(judge.at(1, EventObservation(kind, data)))
    assert judge.at(2, EventObservation("job.succeeded", {})) is None


def test_a_node_is_unhealthy_until_its_check_holds() -> None:
    judge = Judge("node unhealthy,lost")
    assert fires(judge.at(0, EventObservation("node.check_failed", {"sentence": "ECC errors"})))
    assert judge.at(1, EventObservation("node.check_failed", {})) is None
    assert clears(judge.at(2, EventObservation("node.check_passed", {})))


def test_a_wait_fires_when_it_is_long_and_ends_with_the_start() -> None:
    judge = Judge("wait > 2h")
    assert judge.at(60, WaitingObservation(MINUTE)) is None
    assert fires(judge.at(120, WaitingObservation(MINUTE)))
    assert clears(judge.at(121, EventObservation("job.admitted", {})))


def test_a_log_line_fires_once_for_an_attempt() -> None:
    judge = Judge("log cuda-oom")
    outcome = judge.at(0, LogMatch("CUDA out of memory"))
    assert outcome == AlertChange(True, "CUDA out of memory: CUDA out of memory")
    assert judge.at(1, LogMatch("CUDA out of memory")) is None


def test_the_end_of_a_subject_ends_what_was_firing() -> None:
    judge = Judge("loss > 10")
    judge.at(0, point(12))
    assert clears(judge.at(1, SubjectEnded()))
    assert judge.at(2, SubjectEnded()) is None


def test_every_state_has_its_words() -> None:
    assert set(STATE_WORDS) == set(STATES)
