"""Jobs in Ray's words: the five states, exit codes, messages, and the lines between attempts."""

from typing import Any

import pytest

from trackyard.core.job import JobState
from trackyard.core.reasons import EVALUATING, Code, Reason
from trackyard.core.resources import NodeShare, Placement
from trackyard.queue.records import AttemptRow, JobRow, encode_placement
from trackyard.queue.specification import JobSpec, RaySpec
from trackyard.queue.views import EtaView
from trackyard.rayjobs.records import Listed
from trackyard.rayjobs.views import WaitingInfo, between, notes, queue_words, ray_job

SPEC = JobSpec(
    command=["/bin/sh", "-c", "python train.py"],
    ray=RaySpec(
        submission_id="tart",
        entrypoint="python train.py",
        runtime_env={"env_vars": {"A": "1", "WANDB_API_KEY": "s3cret"}},
        metadata={"owner": "me"},
    ),
)
WHERE = encode_placement(Placement(shares=(NodeShare(node="n1"),)))


def row(kind: Any, **values: Any) -> Any:
    """Make a row of which only some columns matter."""
    return kind(**{name: values.get(name) for name in kind._fields})


def listed(state: JobState, attempt: dict[str, Any] | None = None, **values: Any) -> Listed:
    defaults = {"job_id": "jaaaaaaaaaa", "queue": "default", "submitted_ms": 5, "attempt": 0}
    job = row(JobRow, **{**defaults, **values}, state=state.value)
    known = None
    if attempt is not None:
        shape = {"attempt_id": "jaaaaaaaaaa-a1", "number": 1, "placement": WHERE, **attempt}
        known = row(AttemptRow, **shape)
    return Listed("tart", job, known)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (JobState.QUEUED, "PENDING"),
        (JobState.STARTING, "PENDING"),
        (JobState.RUNNING, "RUNNING"),
        (JobState.STOPPING, "RUNNING"),
        (JobState.SUCCEEDED, "SUCCEEDED"),
        (JobState.FAILED, "FAILED"),
        (JobState.CANCELLED, "STOPPED"),
    ],
)
def test_every_state_has_one_of_rays_words(state: JobState, status: str) -> None:
    assert ray_job(listed(state), SPEC, None, {}).status == status


def test_a_preempted_job_is_pending_again() -> None:
    """STOPPED would end `ray job submit` with 0 while the job is not done."""
    shown = ray_job(
        listed(JobState.QUEUED, {"state": "preempted", "exit_code": 85}),
        SPEC,
        WaitingInfo(EVALUATING),
        {},
    )
    assert shown.status == "PENDING"


def test_a_running_job_says_where() -> None:
    shown = ray_job(listed(JobState.RUNNING, {"state": "running"}), SPEC, None, {"n1": "10.0.0.1"})
    assert shown.driver_info is not None
    assert (shown.driver_info.node_ip_address, shown.driver_node_id) == ("10.0.0.1", "n1")
    assert shown.driver_exit_code is None


@pytest.mark.parametrize(
    ("attempt", "code"),
    [
        ({"state": "succeeded", "exit_code": 0}, 0),
        ({"state": "failed", "exit_code": 3}, 3),
        ({"state": "failed", "signal": 9}, 137),
        ({"state": "lost"}, None),
    ],
)
def test_the_exit_code_is_the_runners(attempt: dict[str, Any], code: int | None) -> None:
    shown = ray_job(listed(JobState.FAILED, attempt), SPEC, None, {})
    assert shown.driver_exit_code == code


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("setup", "RUNTIME_ENV_SETUP_FAILURE"),
        ("command", "JOB_ENTRYPOINT_COMMAND_START_ERROR"),
        ("exit_code", "JOB_ENTRYPOINT_COMMAND_ERROR"),
        ("time_limit", "JOB_ENTRYPOINT_COMMAND_ERROR"),
        ("node_lost", "JOB_SUPERVISOR_ACTOR_DIED"),
    ],
)
def test_failures_have_rays_kinds(cause: str, kind: str) -> None:
    assert ray_job(listed(JobState.FAILED, cause=cause), SPEC, None, {}).error_type == kind


def test_a_failure_tells_its_last_error_line() -> None:
    found = listed(
        JobState.FAILED,
        {"state": "failed", "error_line": "ValueError: no"},
        sentence="The command ended with exit code 1.",
    )
    assert ray_job(found, SPEC, None, {}).message == (
        "The command ended with exit code 1. Its last error line: ValueError: no"
    )


def test_values_that_look_like_secrets_are_not_told() -> None:
    shown = ray_job(listed(JobState.RUNNING), SPEC, None, {})
    assert shown.runtime_env["env_vars"] == {"A": "•••", "WANDB_API_KEY": "•••"}
    assert shown.metadata == {"owner": "me"}


def test_a_job_of_another_door_is_shown_as_well() -> None:
    spec = JobSpec(command=["python", "a b.py"], env={"A": "1"})
    shown = ray_job(listed(JobState.RUNNING), spec, None, {})
    assert shown.entrypoint == "python 'a b.py'"
    assert (shown.metadata, shown.runtime_env) == ({}, {"env_vars": {"A": "•••"}})


def test_waiting_tells_place_forecast_and_reason() -> None:
    waiting = WaitingInfo(Reason(code=Code.EVALUATING), 3, 7, EtaView(start_ms=1_700_000_000_000))
    words = queue_words(listed(JobState.QUEUED), waiting)
    assert words.startswith(
        "It waits in queue default, position 3 of 7; predicted start 2023-11-14"
    )
    assert words.endswith(".")


def test_between_two_attempts_stands_why() -> None:
    attempt = row(AttemptRow, number=1, sentence="The node went away.")
    assert between(attempt) == (
        "[trackyard] Attempt 1 is over: The node went away. The job goes on.\n"
    )


def test_variables_that_were_set_aside_are_named_once() -> None:
    ray = RaySpec(
        submission_id="x",
        entrypoint="x",
        runtime_env={"env_vars": {"MLFLOW_RUN_ID": "1", "MLFLOW_TRACKING_URI": "2"}},
    )
    spec = JobSpec(command=["x"], ray=ray)
    assert notes(spec).startswith("[trackyard] MLFLOW_RUN_ID, MLFLOW_TRACKING_URI are set by")
    assert notes(SPEC) == ""
