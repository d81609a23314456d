"""What follows when an attempt ends, case by case."""

import signal

import pytest

from trackyard.core.job import AttemptState
from trackyard.core.ports import ExitCause
from trackyard.queue.retry_policy import (
    MAX_INTERRUPTIONS,
    AttemptVerdict,
    JobHistory,
    JobNext,
    delay,
    follow_up,
)


def verdict(cause: ExitCause, **more: object) -> AttemptVerdict:
    return AttemptVerdict(cause=cause, sentence="It ended.", **more)  # type: ignore[arg-type]


def test_success_ends_the_job_well() -> None:
    after = follow_up(verdict(ExitCause.SUCCEEDED, exit_code=0), JobHistory())
    assert (after.next, after.attempt) == (JobNext.SUCCEEDED, AttemptState.SUCCEEDED)


@pytest.mark.parametrize("retries", [0, 5])
def test_a_wrong_command_is_never_tried_again(retries: int) -> None:
    after = follow_up(verdict(ExitCause.COMMAND, exit_code=127), JobHistory(retries=retries))
    assert after.next is JobNext.FAILED


@pytest.mark.parametrize(
    "cause",
    [ExitCause.EXIT_CODE, ExitCause.SETUP, ExitCause.OUT_OF_MEMORY, ExitCause.TIME_LIMIT],
)
def test_a_fault_of_its_own_is_retried_only_as_often_as_asked(cause: ExitCause) -> None:
    assert follow_up(verdict(cause), JobHistory()).next is JobNext.FAILED
    again = follow_up(verdict(cause), JobHistory(retries=2, failures=1))
    assert (again.next, again.failures, again.avoid) == (JobNext.REQUEUED, 2, True)
    assert follow_up(verdict(cause), JobHistory(retries=2, failures=2)).next is JobNext.FAILED


def test_a_segmentation_fault_is_its_own_but_a_kill_comes_from_outside() -> None:
    own = follow_up(verdict(ExitCause.SIGNAL, signal=signal.SIGSEGV), JobHistory())
    outside = follow_up(verdict(ExitCause.SIGNAL, signal=signal.SIGKILL), JobHistory())
    assert (own.next, outside.next) == (JobNext.FAILED, JobNext.REQUEUED)


def test_a_lost_node_requeues_at_once_and_elsewhere() -> None:
    after = follow_up(verdict(ExitCause.NODE_LOST), JobHistory())
    assert (after.next, after.attempt) == (JobNext.REQUEUED, AttemptState.LOST)
    assert (after.delay_seconds, after.avoid, after.interruptions) == (0.0, True, 1)


def test_a_job_that_loses_every_node_is_given_up() -> None:
    after = follow_up(verdict(ExitCause.NODE_LOST), JobHistory(interruptions=MAX_INTERRUPTIONS))
    assert after.next is JobNext.FAILED
    assert "not tried again" in after.sentence


def test_preemption_and_a_saved_state_requeue_without_counting() -> None:
    for ended in (
        verdict(ExitCause.PREEMPTED),
        verdict(ExitCause.EXIT_CODE, exit_code=85, saved=True),
    ):
        after = follow_up(ended, JobHistory(failures=1, interruptions=3))
        assert (after.next, after.attempt) == (JobNext.REQUEUED, AttemptState.PREEMPTED)
        assert (after.failures, after.interruptions, after.avoid) == (1, 3, False)


@pytest.mark.parametrize("cause", [ExitCause.NODE_LOST, ExitCause.ENGINE, ExitCause.EXIT_CODE])
def test_who_was_stopped_by_someone_stays_stopped(cause: ExitCause) -> None:
    after = follow_up(verdict(cause), JobHistory(retries=3, stop_reason=ExitCause.STOPPED))
    assert (after.next, after.attempt) == (JobNext.STOPPED, AttemptState.CANCELLED)


def test_a_command_that_ends_well_while_it_is_stopped_has_succeeded() -> None:
    after = follow_up(verdict(ExitCause.SUCCEEDED), JobHistory(stop_reason=ExitCause.STOPPED))
    assert after.next is JobNext.SUCCEEDED


def test_delays_double_up_to_a_bound() -> None:
    assert [delay(n) for n in (1, 2, 3, 20)] == [1.0, 2.0, 4.0, 300.0]


def test_a_log_policy_ends_retries_or_asks_for_another_node() -> None:
    past = JobHistory(retries=3)
    ended = follow_up(verdict(ExitCause.EXIT_CODE, stop_retries=True), past)
    assert (ended.next, ended.attempt) == (JobNext.FAILED, AttemptState.FAILED)
    saved = follow_up(verdict(ExitCause.EXIT_CODE, saved=True), past)
    moved = follow_up(verdict(ExitCause.EXIT_CODE, saved=True, avoid_node=True), past)
    assert (saved.avoid, moved.avoid) == (False, True)
    preempted = follow_up(verdict(ExitCause.PREEMPTED, stop_retries=True), past)
    assert preempted.next is JobNext.REQUEUED
