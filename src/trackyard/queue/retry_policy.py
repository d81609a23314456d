"""What follows when an attempt ends: the job's next state, by policy. Pure.

A wrong command is never tried again; a fault of the user's own only as often as `retries` asks;
what came from outside (node lost, killed from outside, preempted, the engine) goes back into the
queue by itself, with a bound so that a job that takes its node down does not do so for ever.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from enum import StrEnum

from trackyard.core.job import AttemptState
from trackyard.core.ports import ExitCause, ExitRecord

#: Ends from outside that a job survives before it is taken for their cause.
MAX_INTERRUPTIONS = 10
FIRST_DELAY_SECONDS = 1.0
LAST_DELAY_SECONDS = 300.0
#: Signals by which someone else ends a process; the others are faults of its own.
_FROM_OUTSIDE = frozenset((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT))

_OUTSIDE = frozenset(
    (ExitCause.NODE_LOST, ExitCause.NODE_UNFIT, ExitCause.ENGINE, ExitCause.FENCED)
)
_OWN = frozenset(
    (
        ExitCause.EXIT_CODE,
        ExitCause.SIGNAL,
        ExitCause.OUT_OF_MEMORY,
        ExitCause.TIME_LIMIT,
        ExitCause.SETUP,
        ExitCause.GANG,
    )
)


_NEVER_RAN = frozenset((ExitCause.COMMAND, ExitCause.SETUP, ExitCause.NODE_UNFIT))


class JobNext(StrEnum):
    """What becomes of the job."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    REQUEUED = "requeued"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptVerdict:
    """How an attempt ended, from the runner's record or from its absence."""

    cause: ExitCause
    sentence: str
    exit_code: int | None = None
    signal: int | None = None
    saved: bool = False
    error_line: str | None = None
    peak_memory_bytes: int | None = None
    notes: tuple[str, ...] = ()
    #: how long the command ran, by the node's clock; None if it never started
    ran_ms: int | None = None
    #: the gang's member whose end this is
    member: int = 0
    #: what a log policy asks for: another node for the next attempt, or no next attempt
    avoid_node: bool = False
    stop_retries: bool = False

    @classmethod
    def of(cls, record: ExitRecord) -> AttemptVerdict:
        """Take the runner's word."""
        return cls(
            cause=record.cause,
            sentence=record.sentence,
            exit_code=record.exit_code,
            signal=record.signal,
            saved=record.saved,
            error_line=record.error_line,
            peak_memory_bytes=record.peak_memory_bytes or None,
            notes=record.notes,
            ran_ms=None if record.cause in _NEVER_RAN else record.ended_ms - record.started_ms,
            member=record.member,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """What a job has behind it when an attempt ends."""

    retries: int = 0
    failures: int = 0
    interruptions: int = 0
    #: why it was asked to stop, if it was
    stop_reason: ExitCause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The decision, with the sentence for people."""

    next: JobNext
    attempt: AttemptState
    sentence: str
    failures: int
    interruptions: int
    #: seconds before it may start again
    delay_seconds: float = 0.0
    #: whether the next attempt goes elsewhere, where there is an elsewhere
    avoid: bool = False


def follow_up(verdict: AttemptVerdict, past: JobHistory) -> FollowUp:
    """Decide what becomes of a job whose attempt ended so."""
    after = _by_cause(verdict, past)
    if after.next is not JobNext.REQUEUED:
        return after
    if verdict.stop_retries and verdict.cause is not ExitCause.PREEMPTED:
        state = AttemptState.FAILED if after.attempt is AttemptState.PREEMPTED else after.attempt
        return _end(JobNext.FAILED, state, verdict, past)
    return replace(after, avoid=True) if verdict.avoid_node else after


def _by_cause(verdict: AttemptVerdict, past: JobHistory) -> FollowUp:
    cause = verdict.cause
    if cause is ExitCause.SUCCEEDED:
        return _end(JobNext.SUCCEEDED, AttemptState.SUCCEEDED, verdict, past)
    if cause is ExitCause.STOPPED or past.stop_reason is ExitCause.STOPPED:
        return _end(JobNext.STOPPED, AttemptState.CANCELLED, verdict, past)
    if cause is ExitCause.PREEMPTED or (verdict.saved and cause is not ExitCause.TIME_LIMIT):
        return FollowUp(
            next=JobNext.REQUEUED,
            attempt=AttemptState.PREEMPTED,
            sentence=verdict.sentence,
            failures=past.failures,
            interruptions=past.interruptions,
        )
    if cause in _OUTSIDE or _ended_from_outside(verdict):
        return _interrupted(verdict, past)
    if cause in _OWN and past.failures < past.retries:
        failures = past.failures + 1
        return FollowUp(
            next=JobNext.REQUEUED,
            attempt=AttemptState.FAILED,
            sentence=f"{verdict.sentence} It is tried again ({failures} of {past.retries}).",
            failures=failures,
            interruptions=past.interruptions,
            delay_seconds=delay(failures),
            avoid=True,
        )
    return _end(JobNext.FAILED, AttemptState.FAILED, verdict, past)


def delay(count: int) -> float:
    """Seconds to wait before the next try: doubling, bounded."""
    return float(min(FIRST_DELAY_SECONDS * 2 ** max(count - 1, 0), LAST_DELAY_SECONDS))


def _ended_from_outside(verdict: AttemptVerdict) -> bool:
    return verdict.cause is ExitCause.SIGNAL and verdict.signal in _FROM_OUTSIDE


def _interrupted(verdict: AttemptVerdict, past: JobHistory) -> FollowUp:
    count = past.interruptions + 1
    is_gone = verdict.cause in (ExitCause.NODE_LOST, ExitCause.FENCED)
    state = AttemptState.LOST if is_gone else AttemptState.FAILED
    if count > MAX_INTERRUPTIONS:
        sentence = f"{verdict.sentence} This was the {count}th time; it is not tried again."
        return FollowUp(
            next=JobNext.FAILED,
            attempt=state,
            sentence=sentence,
            failures=past.failures,
            interruptions=count,
        )
    return FollowUp(
        next=JobNext.REQUEUED,
        attempt=state,
        sentence=verdict.sentence,
        failures=past.failures,
        interruptions=count,
        delay_seconds=0.0 if count == 1 and is_gone else delay(count),
        avoid=True,
    )


def _end(
    next_: JobNext, state: AttemptState, verdict: AttemptVerdict, past: JobHistory
) -> FollowUp:
    return FollowUp(
        next=next_,
        attempt=state,
        sentence=verdict.sentence,
        failures=past.failures + (next_ is JobNext.FAILED),
        interruptions=past.interruptions,
    )
