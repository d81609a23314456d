"""Jobs as Ray's clients expect to see them, and the lines that a waiting client prints. Pure.

Owns the mapping of our states onto Ray's five words. A job that was preempted or lost its node
waits again and is PENDING: Ray's command ends with 0 on STOPPED, which would pass for success.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from trackyard.core.job import AttemptState, JobState
from trackyard.core.ports import ExitCause
from trackyard.core.reasons import Reason
from trackyard.queue.records import AttemptRow
from trackyard.queue.specification import JobSpec
from trackyard.queue.views import EtaView, shown_environment, without_values
from trackyard.rayjobs.records import Listed
from trackyard.rayjobs.specification import set_aside

#: begins every line of ours in a job's output
MARK = "[trackyard] "
STATUS = {
    JobState.QUEUED: "PENDING",
    JobState.STARTING: "PENDING",
    JobState.RUNNING: "RUNNING",
    JobState.STOPPING: "RUNNING",
    JobState.SUCCEEDED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "STOPPED",
}
_ERRORS = {
    ExitCause.SETUP: "RUNTIME_ENV_SETUP_FAILURE",
    ExitCause.COMMAND: "JOB_ENTRYPOINT_COMMAND_START_ERROR",
    ExitCause.NODE_LOST: "JOB_SUPERVISOR_ACTOR_DIED",
    ExitCause.ENGINE: "JOB_SUPERVISOR_ACTOR_START_FAILURE",
}
_ENTRYPOINT_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class Driver(msgspec.Struct):
    """Where a job's entrypoint runs, in Ray's words."""

    id: str
    node_ip_address: str
    pid: str


class RayJob(msgspec.Struct):
    """A job in Ray's shape; its clients ignore the fields they do not know."""

    type: str
    job_id: str | None
    submission_id: str
    driver_info: Driver | None
    status: str
    entrypoint: str
    message: str
    error_type: str | None
    start_time: int
    end_time: int | None
    metadata: dict[str, str]
    runtime_env: dict[str, Any]
    driver_agent_http_address: str | None
    driver_node_id: str | None
    driver_exit_code: int | None
    trackyard_job_id: str
    trackyard_queue: str
    trackyard_attempt: int
    trackyard_run_id: str
    queue_position: int | None
    predicted_start_ms: int | None


class WaitingInfo(msgspec.Struct):
    """What is known of a job that waits."""

    reason: Reason
    position: int | None = None
    waiting: int = 0
    eta: EtaView | None = None


def ray_job(
    listed: Listed, spec: JobSpec, waiting: WaitingInfo | None, addresses: Mapping[str, str]
) -> RayJob:
    """Show a job to a Ray client."""
    job, attempt = listed.job, listed.attempt
    node = _node(attempt)
    return RayJob(
        type="SUBMISSION",
        job_id=None,
        submission_id=listed.submission_id,
        driver_info=_driver(attempt, addresses),
        status=STATUS[JobState(job.state)],
        entrypoint=spec.line,
        message=message(listed, waiting),
        error_type=_error_type(listed),
        start_time=job.submitted_ms,
        end_time=job.ended_ms,
        metadata=dict(spec.ray.metadata) if spec.ray is not None else {},
        runtime_env=_environment(spec),
        driver_agent_http_address=None,
        driver_node_id=node,
        driver_exit_code=_exit_code(listed),
        trackyard_job_id=job.job_id,
        trackyard_queue=job.queue,
        trackyard_attempt=job.attempt,
        trackyard_run_id=job.run_uuid,
        queue_position=waiting.position if waiting is not None else None,
        predicted_start_ms=waiting.eta.start_ms if waiting is not None and waiting.eta else None,
    )


def _environment(spec: JobSpec) -> dict[str, Any]:
    if spec.ray is not None:
        return shown_environment(spec.ray)
    return {"env_vars": without_values(spec.env)} if spec.env else {}


def message(listed: Listed, waiting: WaitingInfo | None) -> str:
    """Say in a sentence or two how a job stands."""
    job, attempt = listed.job, listed.attempt
    where = "" if attempt is None else f" on {', '.join(attempt.where.nodes)}"
    match JobState(job.state):
        case JobState.QUEUED:
            return queue_words(listed, waiting)
        case JobState.STARTING:
            return f"Attempt {job.attempt} is being started{where}."
        case JobState.RUNNING:
            return f"Attempt {job.attempt} runs{where}."
        case JobState.STOPPING:
            return f"Attempt {job.attempt} is being stopped{where}."
        case JobState.SUCCEEDED:
            return "Job finished successfully."
        case _:
            told = job.sentence or "It ended."
            line = attempt.error_line if attempt is not None else None
            return f"{told} Its last error line: {line}" if line else told


def queue_words(listed: Listed, waiting: WaitingInfo | None) -> str:
    """Say where a job stands in its queue, about when it starts and why it waits."""
    if waiting is None:
        return f"It waits in queue {listed.job.queue}."
    place = f"It waits in queue {listed.job.queue}"
    if waiting.position is not None:
        place += f", position {waiting.position} of {max(waiting.waiting, waiting.position)}"
    start = waiting.eta.start_ms if waiting.eta is not None else None
    foreseen = f"; predicted start {_clock(start)}" if start is not None else ""
    reason = waiting.reason.sentence
    return f"{place}{foreseen}: {reason[:1].lower()}{reason[1:]}."


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def between(attempt: AttemptRow) -> str:
    """Return the line that stands between an attempt's output and the next one's."""
    told = attempt.sentence or "it ended"
    return f"{MARK}Attempt {attempt.number} is over: {told.rstrip('.')}. The job goes on.\n"


def notes(spec: JobSpec) -> str:
    """Return what a client should know before its job's own output begins."""
    names = set_aside(spec.ray.runtime_env) if spec.ray is not None else []
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{MARK}{', '.join(names)} {verb} set by the platform: the job logs to its own run.\n"


def _node(attempt: AttemptRow | None) -> str | None:
    return attempt.where.nodes[0] if attempt is not None and attempt.where.nodes else None


def _driver(attempt: AttemptRow | None, addresses: Mapping[str, str]) -> Driver | None:
    node = _node(attempt)
    if attempt is None or node is None or attempt.is_over:
        return None
    return Driver(id=attempt.attempt_id, node_ip_address=addresses.get(node, ""), pid="")


def _error_type(listed: Listed) -> str | None:
    if listed.job.state != JobState.FAILED:
        return None
    cause = listed.job.cause or ""
    return _ERRORS.get(ExitCause(cause), _ENTRYPOINT_ERROR) if cause else _ENTRYPOINT_ERROR


def _exit_code(listed: Listed) -> int | None:
    attempt = listed.attempt
    if attempt is None or not attempt.is_over:
        return None
    if attempt.exit_code is None and attempt.signal is not None:
        return 128 + attempt.signal
    if attempt.exit_code is None and attempt.state == AttemptState.SUCCEEDED:
        return 0
    return attempt.exit_code
