"""Derives an attempt's phase and exit from the runner's records and Slurm's state of the job.

Owns the meaning of Slurm's job states and pending reasons. Reads the attempt's folder; does not
talk to Slurm.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trackyard.core.ports import AttemptPhase, AttemptReport, ExitCause, ExitRecord
from trackyard.engines.slurm.parse import SlurmJob
from trackyard.engines.slurm.submit import OUTPUT
from trackyard.engines.statefolder import AttemptFolder, Launched, read_json

#: how long records may take to appear here after Slurm says that a job is over
SETTLE_SECONDS = 3.0
TAIL_BYTES = 2000

#: state -> cause and sentence, if the runner left no record
ENDS: dict[str, tuple[ExitCause, str]] = {
    "TIMEOUT": (ExitCause.TIME_LIMIT, "Slurm ended the job at its time limit."),
    "DEADLINE": (ExitCause.TIME_LIMIT, "Slurm ended the job at its deadline."),
    "OUT_OF_MEMORY": (
        ExitCause.OUT_OF_MEMORY,
        "Slurm ended the job: it used more memory than it asked for.",
    ),
    "PREEMPTED": (ExitCause.PREEMPTED, "Slurm preempted the job for another."),
    "CANCELLED": (ExitCause.STOPPED, "The job was cancelled in Slurm."),
    "REVOKED": (ExitCause.ENGINE, "Slurm gave the job to another cluster."),
    "BOOT_FAIL": (ExitCause.ENGINE, "Slurm could not boot a node for the job."),
}
#: causes that say no more than that something ended the runner
_VAGUE = frozenset({ExitCause.STOPPED, ExitCause.SIGNAL, ExitCause.PREEMPTED})

#: Slurm's pending reasons in plain words
WAITS = {
    "Resources": "it is next and waits for nodes to become free",
    "Priority": "jobs of higher priority go first",
    "Dependency": "it waits for another job",
    "DependencyNeverSatisfied": "the job that it waits for ended otherwise; it will never start",
    "BeginTime": "its start time has not come",
    "Reservation": "its reservation has not begun",
    "ReservationDeleted": "its reservation is gone",
    "JobHeldUser": "it is held by its user",
    "JobHeldAdmin": "an administrator holds it",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition starts nothing at present",
    "PartitionTimeLimit": "its time limit is over the partition's",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionConfig": "its partition cannot give what it asks for",
    "NodeDown": "a node that it needs is down",
    "BadConstraints": "no node meets its constraints",
    "Licenses": "it waits for a license",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "QOSMaxJobsPerUserLimit": "its user runs as many jobs as the QOS allows",
    "QOSMaxWallDurationPerJobLimit": "its time limit is over that of the QOS",
    "QOSMaxGRESPerUser": "its user holds as many GPUs as the QOS allows",
    "QOSMaxGRESPerJob": "it asks for more GPUs than the QOS allows in one job",
    "QOSGrpGRES": "jobs of its QOS hold as many GPUs as that allows",
    "AssocMaxJobsLimit": "its account runs as many jobs of its user as allowed",
    "AssocMaxWallDurationPerJobLimit": "its time limit is over that of its account",
    "AssocGrpGRES": "jobs of its account hold as many GPUs as that allows",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "JobArrayTaskLimit": "as many tasks of its array run as it allows",
    "MaxMemPerLimit": "it asks for more memory than allowed",
    "Cleaning": "what ran before is being cleaned up",
    "Prolog": "the node is being prepared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAttempt:
    """What Slurm says of an attempt, and since when."""

    #: None: Slurm does not list it
    job: SlurmJob | None
    #: whether Slurm answered after the attempt was handed over
    is_current: bool
    #: seconds from the first list without a live job for it to the last one
    gone_seconds: float = 0.0


def judge(
    folder: AttemptFolder,
    launched: Launched,
    seen: ObservedAttempt,
    detail: str,
    *,
    has_begun: bool,
) -> AttemptReport:
    """Return an attempt's phase, with exits and a sentence."""
    members = range(len(launched.placement))
    # Slurm was asked before the records are read: a job it calls ended has written them.
    exits = [record for one in members if (record := folder.member(one).exit_record())]
    asked = read_json(folder.path / "stop.json")
    phase, words = _phase(seen, has_begun=has_begun), detail
    refused = read_json(folder.path / "refused.json")
    if len(exits) == len(members):
        phase = AttemptPhase.EXITED
        exits, phase = _refined(exits, seen, asked is not None, phase)
    elif refused is not None:
        record = _record(launched, ExitCause.ENGINE, str(refused.get("sentence")))
        exits, phase = [record], AttemptPhase.EXITED
    elif phase is AttemptPhase.LOST:
        phase, exits, words = _without_record(
            folder, launched, seen, exits, _reason(asked), has_begun=has_begun
        )
    elif phase is AttemptPhase.STARTING and seen.job is not None:
        words = waiting_words(seen.job)
    return AttemptReport(
        attempt_id=launched.attempt_id,
        epoch=launched.epoch,
        job_id=launched.job_id,
        phase=phase,
        placement=launched.placement,
        exits=tuple(exits),
        detail=words,
    )


def waiting_words(job: SlurmJob) -> str:
    """Say why a job is pending in Slurm, and when Slurm expects to start it."""
    if not job.waits:
        return f"Slurm started it as job {job.job_id} on {', '.join(job.nodes)}."
    known = WAITS.get(job.reason)
    words = f"Slurm keeps it waiting as job {job.job_id}"
    if known:
        words += f": {known} ({job.reason})"
    elif job.reason not in ("", "None"):
        words += f": {spelled(job.reason)} ({job.reason})"
    if job.start > time.time():
        expected = datetime.fromtimestamp(job.start, UTC)
        words += f"; Slurm expects it to start at {expected:%Y-%m-%d %H:%MZ}"
    return f"{words}."


def spelled(reason: str) -> str:
    """Return an unknown reason as words: AssocGrpCpuLimit -> assoc grp cpu limit."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", reason)
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words)


def _phase(seen: ObservedAttempt, *, has_begun: bool) -> AttemptPhase:
    """Return the phase by Slurm's state; LOST means an end without all records."""
    open_phase = AttemptPhase.RUNNING if has_begun else AttemptPhase.STARTING
    if not seen.is_current:
        return open_phase
    job = seen.job
    if job is not None and job.waits and not has_begun:
        return AttemptPhase.STARTING
    is_over = job is None or job.has_ended or job.waits
    if is_over and seen.gone_seconds >= SETTLE_SECONDS:
        return AttemptPhase.LOST
    return open_phase


def _refined(
    exits: list[ExitRecord], seen: ObservedAttempt, was_asked: bool, phase: AttemptPhase
) -> tuple[list[ExitRecord], AttemptPhase]:
    """Use Slurm's state to explain exits of which the runner knows only the signal."""
    state = "" if seen.job is None else seen.job.state
    found = ENDS.get(state)
    if was_asked or found is None:
        return exits, phase
    cause, sentence = found
    return [
        replace(one, cause=cause, sentence=sentence)
        if one.cause in _VAGUE and one.cause is not cause and not one.saved
        else one
        for one in exits
    ], phase


def _without_record(
    folder: AttemptFolder,
    launched: Launched,
    seen: ObservedAttempt,
    exits: Sequence[ExitRecord],
    reason: ExitCause | None,
    *,
    has_begun: bool,
) -> tuple[AttemptPhase, list[ExitRecord], str]:
    """Judge an attempt that is over in Slurm but lacks records of some runners."""
    state = "" if seen.job is None else seen.job.state
    if seen.job is not None and seen.job.waits:
        state = "REQUEUED"
    failed = [one for one in exits if not one.succeeded and one.cause is not ExitCause.GANG]
    if failed and state not in ENDS:
        # One member's own failure is known; the others ended because of it.
        return AttemptPhase.EXITED, list(exits), ""
    if reason is not None and (not has_begun or state in ("CANCELLED", "COMPLETED", "FAILED")):
        sentence = "It was stopped before it ran." if not has_begun else "It was stopped."
        return AttemptPhase.EXITED, [*exits, _record(launched, reason, sentence, seen.job)], ""
    if state in ENDS:
        cause, sentence = ENDS[state]
        return AttemptPhase.EXITED, [*exits, _record(launched, cause, sentence, seen.job)], ""
    if state == "REQUEUED":
        sentence = "Slurm put the job back into its queue."
        return AttemptPhase.EXITED, [*exits, _record(launched, ExitCause.PREEMPTED, sentence)], ""
    if not has_begun and state != "NODE_FAIL":
        said = _tail(folder.path / OUTPUT)
        words = f"The runner did not start on the node ({state.lower() or 'no word of it'})"
        sentence = f"{words}: {said}" if said else f"{words}; see {folder.path / OUTPUT}."
        return AttemptPhase.EXITED, [*exits, _record(launched, ExitCause.ENGINE, sentence)], ""
    where = "" if seen.job is None else f" on {', '.join(seen.job.nodes)}"
    words = "Slurm lost a node of the job" if state == "NODE_FAIL" else "its runner ended"
    return AttemptPhase.LOST, list(exits), f"{words}{where} without a record"


def _reason(asked: dict[str, object] | None) -> ExitCause | None:
    if asked is None:
        return None
    try:
        return ExitCause(str(asked.get("reason")))
    except ValueError:
        return ExitCause.STOPPED


def _record(
    launched: Launched, cause: ExitCause, sentence: str, job: SlurmJob | None = None
) -> ExitRecord:
    start, end = (job.start, job.end) if job is not None else (0, 0)
    return ExitRecord(
        attempt_id=launched.attempt_id,
        epoch=launched.epoch,
        member=0,
        cause=cause,
        exit_code=None,
        signal=None,
        sentence=sentence,
        started_ms=start * 1000,
        ended_ms=max(start, end) * 1000,
        duration_seconds=float(max(0, end - start)),
    )


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-2:])[:400]
