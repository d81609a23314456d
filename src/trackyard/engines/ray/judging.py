"""What a job in Ray's list says of an attempt of ours. Pure.

The runner's exit record is the truth: it is the last line of the job's log, which Ray repeats in
its message for a job that failed. Ray's own status counts only where there is no record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from trackyard.core.ports import (
    SAVED_EXIT_CODE,
    AttemptPhase,
    AttemptReport,
    ExitCause,
    ExitRecord,
    NodeGrant,
)
from trackyard.engines.ray import submission
from trackyard.engines.ray.api import gist

#: what precedes the exit records in a job's log
EXIT_LINE = "[yard-exit] "
#: what precedes the command's own output there
LOG_LINE = "[yard-log]"
#: the launcher's code for "the cluster did not give all nodes of the gang"
NO_NODES_CODE = 75
ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_RECORDS = re.compile(re.escape(EXIT_LINE) + r"(\[.*\])")
_NEVER_STARTED = ("UNSCHEDULABLE", "START_TIMEOUT", "START_FAILURE", "UNKNOWN_FAILURE")


def attempt_id_of(job: Mapping[str, Any], site: str) -> str | None:
    """Return the attempt behind a job of Ray's list, or None if it is not ours."""
    words = job.get("metadata") or {}
    if words.get(submission.SITE) != site:
        return None
    found = words.get(submission.ATTEMPT)
    return str(found) if found and found == job.get("submission_id") else None


def lease_id_of(job: Mapping[str, Any], site: str) -> str | None:
    """Return the lease whose nodes a job keeps, or None if it is no keeper of ours."""
    words = job.get("metadata") or {}
    if words.get(submission.SITE) != site or not job.get("submission_id"):
        return None
    return words.get(submission.LEASE)


def judge(
    job: Mapping[str, Any], alive: Collection[str], asked: ExitCause | None = None
) -> AttemptReport:
    """Say how an attempt stands; `alive` holds Ray's ids of the nodes that live."""
    words = job["metadata"]
    placement = submission.placement_of(words)
    phase, exits, detail = _phase(job, alive, asked, placement)
    return AttemptReport(
        attempt_id=words[submission.ATTEMPT],
        epoch=int(words[submission.EPOCH]),
        job_id=words[submission.JOB],
        phase=phase,
        placement=placement,
        exits=exits,
        detail=detail,
    )


def _phase(
    job: Mapping[str, Any],
    alive: Collection[str],
    asked: ExitCause | None,
    placement: tuple[NodeGrant, ...],
) -> tuple[AttemptPhase, tuple[ExitRecord, ...], str]:
    status = job.get("status")
    if status not in ENDED:
        node = job.get("driver_node_id")
        if node and node not in alive:
            return AttemptPhase.LOST, (), "its node left the cluster"
        running = status == "RUNNING"
        return (AttemptPhase.RUNNING if running else AttemptPhase.STARTING), (), ""
    message = str(job.get("message") or "")
    exits = records_in(message)
    if exits and _is_broken(exits, placement):
        return AttemptPhase.LOST, exits, "a member of the gang ended without a record"
    if exits:
        return AttemptPhase.EXITED, exits, ""
    if status == "SUCCEEDED":
        made = _made(job, ExitCause.SUCCEEDED, 0, "The command ended with exit code 0.")
        return AttemptPhase.EXITED, tuple(_as_member(made, n) for n in range(len(placement))), ""
    if status == "STOPPED":
        cause = asked or ExitCause.STOPPED
        return AttemptPhase.EXITED, (_made(job, cause, None, "The job was stopped in Ray."),), ""
    code, kind = job.get("driver_exit_code"), str(job.get("error_type") or "")
    if code is None and "RUNTIME_ENV" in kind:
        # What is ours alone in an environment cannot be the user's fault.
        own = set(job.get("runtime_env") or ()) <= {"env_vars", "py_modules"}
        cause = ExitCause.ENGINE if own else ExitCause.SETUP
        sentence = f"Ray could not make the job's environment: {gist(message)}"
        return AttemptPhase.EXITED, (_made(job, cause, None, sentence),), ""
    if code is None and any(word in kind for word in _NEVER_STARTED):
        sentence = f"Ray did not start it: {gist(message)}"
        return AttemptPhase.EXITED, (_made(job, ExitCause.ENGINE, None, sentence),), ""
    if code is None:
        return AttemptPhase.LOST, (), gist(message)
    return AttemptPhase.EXITED, (_by_code(job, int(code), len(placement) > 1),), ""


def _is_broken(exits: tuple[ExitRecord, ...], placement: tuple[NodeGrant, ...]) -> bool:
    """Tell whether a gang ended for want of a member that left no record."""
    ended_for_another = all(one.succeeded or one.cause is ExitCause.GANG for one in exits)
    return len(exits) < len(placement) and ended_for_another


def records_in(text: str) -> tuple[ExitRecord, ...]:
    """Read the exit records out of a log's last lines."""
    found = _RECORDS.findall(text)
    if not found:
        return ()
    try:
        return tuple(ExitRecord.from_json(one) for one in json.loads(found[-1]))
    except ValueError:
        return ()


def command_log(whole: bytes) -> bytes:
    """Return the command's own output out of Ray's file, without what stands around it."""
    _, begun, rest = whole.partition(f"{LOG_LINE}\n".encode())
    if not begun:
        return b""
    return rest.rpartition(EXIT_LINE.encode())[0] if EXIT_LINE.encode() in rest else rest


def _by_code(job: Mapping[str, Any], code: int, is_gang: bool) -> ExitRecord:
    if is_gang and code == NO_NODES_CODE:
        sentence = "The cluster did not give all nodes of the gang in time."
        return _made(job, ExitCause.ENGINE, code, sentence)
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        sentence = f"The runner was ended by signal {number}."
        return _made(job, ExitCause.SIGNAL, None, sentence, number)
    return _made(job, ExitCause.EXIT_CODE, code, f"The command ended with exit code {code}.")


def _made(
    job: Mapping[str, Any],
    cause: ExitCause,
    code: int | None,
    sentence: str,
    number: int | None = None,
) -> ExitRecord:
    words = job["metadata"]
    began = int(job.get("start_time") or 0)
    ended = max(began, int(job.get("end_time") or began))
    return ExitRecord(
        attempt_id=words[submission.ATTEMPT],
        epoch=int(words[submission.EPOCH]),
        member=0,
        cause=cause,
        exit_code=code,
        signal=number,
        sentence=sentence,
        started_ms=began,
        ended_ms=ended,
        duration_seconds=(ended - began) / 1000,
        saved=code == SAVED_EXIT_CODE,
    )


def _as_member(record: ExitRecord, member: int) -> ExitRecord:
    return replace(record, member=member)
