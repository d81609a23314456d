"""Words for the life of jobs and attempts."""

from __future__ import annotations

import pytest

from trackyard.core.job import AttemptState, DependsOn, Job, JobState, PriorityClass


def test_final_states_hold_nothing():
    for state in JobState:
        assert not (state.is_final and state.holds_resources)


def test_a_preempted_attempt_is_over_but_its_job_is_not():
    assert AttemptState.PREEMPTED.is_final
    assert not JobState.QUEUED.is_final


@pytest.mark.parametrize(
    ("when", "state", "met"),
    [
        (DependsOn.SUCCESS, JobState.RUNNING, None),
        (DependsOn.SUCCESS, JobState.SUCCEEDED, True),
        (DependsOn.SUCCESS, JobState.CANCELLED, False),
        (DependsOn.FAILURE, JobState.FAILED, True),
        (DependsOn.ANY_END, JobState.CANCELLED, True),
    ],
)
def test_dependencies_are_met_open_or_lost(when, state, met):
    assert when.met_by(state) is met


def test_urgent_goes_before_normal():
    assert PriorityClass.URGENT > PriorityClass.NORMAL > PriorityClass.SCAVENGE


def test_a_job_needs_little():
    assert Job(id="j", team="t").priority is PriorityClass.NORMAL
