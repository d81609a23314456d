"""The life of a job and its attempts: every change of their state, each with its event.

Owns the transitions and what goes with them (run, token, usage). Each function is one step of
one job inside the caller's transaction. Decides nothing: the queue and `ending` do. Starts and
stops no process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from trackyard.access.attempt_tokens import (
    AttemptTokens,
    delete_pair,
    expire_pair,
    issue_pair,
    revoke_pair,
)
from trackyard.access.principal import AttemptScope
from trackyard.core.errors import Conflict, InvalidInput
from trackyard.core.job import AttemptState, JobState
from trackyard.core.ports import ExitCause
from trackyard.core.resources import WHOLE, Placement
from trackyard.fleet import evidence
from trackyard.queue.attempts.progress import last_step
from trackyard.queue.records import (
    AttemptRow,
    JobRow,
    attempt_of,
    encode_placement,
    job_by_inner,
    latest_attempt,
    load_spec,
)
from trackyard.queue.retry_policy import AttemptVerdict, FollowUp, JobHistory, JobNext, follow_up
from trackyard.queue.shares.usage import charge
from trackyard.store.database import Tx
from trackyard.tracking.job_runs import set_run_state

SYSTEM = "system"
#: How long an ended attempt's token still takes its last log lines.
TOKEN_AFTER_END_MS = 24 * 3600 * 1000
MAX_AVOIDED = 8
_RUN_STATUS = {
    JobState.SUCCEEDED: "FINISHED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "KILLED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A job that has its nodes: what a launch needs beyond the spec."""

    job: JobRow
    attempt: AttemptRow
    #: None where nothing is started
    tokens: AttemptTokens | None


def change_job(tx: Tx, job: JobRow, **columns: Any) -> JobRow:
    """Write a job's new facts; someone else's change in between is a conflict."""
    names = ", ".join(f"{name} = ?" for name in columns)
    changed = tx.run(
        f"UPDATE jobs SET {names}, version = version + 1 WHERE id = ? AND version = ?",
        (*columns.values(), job.id, job.version),
    )
    if not changed:
        raise Conflict(f"job {job.job_id} changed meanwhile; look at it again and repeat")
    return job._replace(version=job.version + 1, **columns)


def change_attempt(tx: Tx, attempt: AttemptRow, **columns: Any) -> AttemptRow:
    """Write an attempt's new facts."""
    names = ", ".join(f"{name} = ?" for name in columns)
    tx.run(f"UPDATE attempts SET {names} WHERE id = ?", (*columns.values(), attempt.id))
    return attempt._replace(**columns)


def job_event(tx: Tx, kind: str, job: JobRow, *, actor: str = SYSTEM, **data: Any) -> None:
    """Record a fact about a job."""
    tx.event(
        kind,
        team_id=job.team_id,
        actor=actor,
        subject="job",
        subject_id=job.job_id,
        name=job.name,
        run_id=job.run_uuid,
        **data,
    )


# -- into the engine --------------------------------------------------------------------------


def admit(
    tx: Tx,
    job: JobRow,
    placement: Placement,
    *,
    environment: str,
    backfilled: bool,
    members: int | None = None,
    with_ticket: bool = False,
) -> Admitted:
    """Give a waiting job its nodes and begin a new attempt, fenced against all earlier ones.

    The engine starts one member on each node, or so many as are told, if need be with a ticket.
    """
    started = len(placement.shares) if members is None else members
    if job.state != JobState.QUEUED or job.held:
        raise Conflict(f"job {job.job_id} does not wait any more")
    number, epoch = job.attempt + 1, job.epoch + 1
    attempt_id = f"{job.job_id}-a{number}"
    # Whatever earlier attempts may still do, their writes count no more from here on.
    for (earlier,) in tx.all("SELECT token_id FROM attempts WHERE job = ?", (job.id,)):
        revoke_pair(tx, earlier)
    tokens = issue_pair(
        tx,
        team_id=job.team_id,
        scope=AttemptScope(run_id=job.run_uuid, attempt=number, attempt_id=attempt_id),
        with_ticket=with_ticket,
    )
    row = tx.one("SELECT max(step) FROM checkpoints WHERE job = ?", (job.id,))
    inner = tx.insert(
        "INSERT INTO attempts (attempt_id, job, number, epoch, state, placement, members,"
        " admitted_ms, saved, resume_step, environment, token_id, claimed, notes, stalled,"
        " nan_seen, settled, priority) VALUES (?, ?, ?, ?, 'starting', ?, ?, ?, 0, ?, ?, ?, '',"
        " '[]', 0, 0, 0, ?)",
        (
            attempt_id,
            job.id,
            number,
            epoch,
            encode_placement(placement),
            started,
            tx.now_ms,
            row[0] if row else None,
            environment,
            tokens.id,
            job.priority,
        ),
    )
    tx.many(
        "INSERT INTO attempt_members (attempt, member, log_end, log_lost, sample_seq, hostname)"
        " VALUES (?, ?, 0, 0, 0, '')",
        [(inner, member) for member in range(started)],
    )
    job = change_job(
        tx,
        job,
        state=JobState.STARTING.value,
        attempt=number,
        epoch=epoch,
        engine_note="",
        ended_ms=None,
        cause=None,
        sentence=None,
    )
    job_event(
        tx,
        "job.admitted",
        job,
        attempt=number,
        nodes=list(placement.nodes),
        gpus=placement.gpu_milli_total / WHOLE,
        backfilled=backfilled,
        waited_ms=tx.now_ms - job.submitted_ms,
    )
    attempt = attempt_of(tx, attempt_id)
    assert attempt is not None
    return Admitted(job=job, attempt=attempt, tokens=tokens)


def grant(tx: Tx, admitted: Admitted) -> Admitted:
    """Hand a claim's nodes to the attempt that asked for them; no engine has part in it."""
    delete_pair(tx, admitted.attempt.token_id)
    attempt = change_attempt(tx, admitted.attempt, settled=1)
    note_running(tx, attempt.attempt_id)
    job = job_by_inner(tx, admitted.job.id)
    parent = claimant(tx, job)
    if parent is not None:
        where = attempt.where
        job_event(
            tx,
            "claim.granted",
            parent,
            attempt=parent.attempt,
            claim=job.job_id,
            nodes=list(where.nodes),
            gpus=where.gpu_milli_total / WHOLE,
            sentence=f"It was given what it asked for, on {', '.join(where.nodes)}.",
        )
    return Admitted(job=job, attempt=attempt, tokens=None)


def renew_tokens(tx: Tx, attempt: AttemptRow, *, with_ticket: bool = False) -> Admitted:
    """Issue other tokens for an attempt whose launch never happened."""
    job = job_by_inner(tx, attempt.job)
    revoke_pair(tx, attempt.token_id)
    tokens = issue_pair(
        tx,
        team_id=job.team_id,
        scope=AttemptScope(
            run_id=job.run_uuid, attempt=attempt.number, attempt_id=attempt.attempt_id
        ),
        with_ticket=with_ticket,
    )
    return Admitted(
        job=job, attempt=change_attempt(tx, attempt, token_id=tokens.id), tokens=tokens
    )


def note_launched(tx: Tx, attempt_id: str) -> None:
    """The engine has the attempt; its silence is counted from now."""
    attempt = attempt_of(tx, attempt_id, lock=True)
    if attempt is not None and not attempt.is_over and attempt.launched_ms is None:
        seen = attempt.seen_ms or tx.now_ms
        change_attempt(tx, attempt, launched_ms=tx.now_ms, seen_ms=seen)


def note_waiting(tx: Tx, attempt_id: str, words: str) -> None:
    """The engine has the attempt and a batch system keeps it waiting: it is not silent."""
    attempt = attempt_of(tx, attempt_id, lock=True)
    if attempt is None or attempt.state != AttemptState.STARTING:
        return
    change_attempt(tx, attempt, seen_ms=tx.now_ms)
    job = job_by_inner(tx, attempt.job, lock=True)
    if job.attempt == attempt.number and job.engine_note != words:
        job = change_job(tx, job, engine_note=words, sentence=words)
        job_event(tx, "job.engine_waits", job, attempt=attempt.number, sentence=words)


def note_running(
    tx: Tx, attempt_id: str, *, hostname: str = "", since_ms: int | None = None
) -> None:
    """The attempt's command runs, since now unless told."""
    attempt = attempt_of(tx, attempt_id, lock=True)
    if attempt is None or attempt.state != AttemptState.STARTING:
        return
    job = job_by_inner(tx, attempt.job, lock=True)
    if job.attempt != attempt.number:
        return
    since = tx.now_ms if since_ms is None else since_ms
    change_attempt(
        tx, attempt, state=AttemptState.RUNNING.value, started_ms=since, seen_ms=tx.now_ms
    )
    columns: dict[str, Any] = {"started_ms": job.started_ms or since}
    if job.engine_note:
        columns |= {"engine_note": "", "sentence": None}
    if job.state == JobState.STARTING:
        columns["state"] = JobState.RUNNING.value
    job = change_job(tx, job, **columns)
    first = since if attempt.number == 1 else None
    set_run_state(tx, job.run_uuid, "RUNNING", actor=SYSTEM, start_ms=first)
    job_event(
        tx,
        "job.running",
        job,
        attempt=attempt.number,
        nodes=list(attempt.where.nodes),
        hostname=hostname,
        resume_step=attempt.resume_step,
        started_in_ms=since - attempt.admitted_ms,
    )


# -- towards the end --------------------------------------------------------------------------


def ask_stop(
    tx: Tx,
    job: JobRow,
    *,
    reason: ExitCause,
    grace_seconds: float,
    actor: str,
    stops_for: str = "",
    sentence: str = "",
) -> AttemptRow | None:
    """Ask a job to stop: a waiting one is over at once, of another the attempt is returned.

    A claim cannot stop by itself: the job that it is for is asked, and the claim ends with it.
    """
    parent = claimant(tx, job)
    if parent is not None:
        ask_stop(
            tx,
            parent,
            reason=reason,
            grace_seconds=grace_seconds,
            actor=actor,
            stops_for=stops_for,
            sentence=sentence,
        )
        if job.state == JobState.QUEUED:
            return None
    if job.state == JobState.QUEUED:
        words = "It was stopped while it waited."
        finish(tx, job, JobState.CANCELLED, cause=reason, sentence=words, actor=actor)
        return None
    attempt = latest_attempt(tx, job)
    if attempt is None or attempt.is_over:
        return None
    grace_ms = int(grace_seconds * 1000)
    is_stronger = attempt.stop_reason is None or (
        reason is ExitCause.STOPPED and attempt.stop_reason != ExitCause.STOPPED
    )
    if not is_stronger:
        return attempt
    columns: dict[str, Any] = {
        "stop_reason": reason.value,
        "stop_ms": tx.now_ms,
        "grace_ms": grace_ms,
        "stops_for": stops_for,
    }
    if attempt.state == AttemptState.RUNNING:
        columns["state"] = AttemptState.STOPPING.value
    attempt = change_attempt(tx, attempt, **columns)
    job = change_job(tx, job, state=JobState.STOPPING.value)
    kind = "job.preempting" if reason is ExitCause.PREEMPTED else "job.stopping"
    job_event(
        tx,
        kind,
        job,
        actor=actor,
        attempt=attempt.number,
        reason=reason.value,
        grace_seconds=grace_seconds,
        for_job=stops_for,
        sentence=sentence,
    )
    return attempt


def end_attempt(tx: Tx, attempt_id: str, verdict: AttemptVerdict) -> FollowUp | None:
    """Close an attempt with its cause and let the job go on as the policy says; once."""
    attempt = attempt_of(tx, attempt_id, lock=True)
    if attempt is None or attempt.is_over:
        return None
    if verdict.ran_ms is not None and attempt.started_ms is None:
        # It was over before its first sign of life: the record says that it ran, and how long.
        began = max(attempt.admitted_ms, tx.now_ms - max(0, verdict.ran_ms))
        note_running(tx, attempt_id, since_ms=began)
        attempt = attempt_of(tx, attempt_id, lock=True) or attempt
    job = job_by_inner(tx, attempt.job, lock=True)
    asked = None if attempt.stop_reason is None else ExitCause(attempt.stop_reason)
    past = JobHistory(
        retries=load_spec(tx, job.spec_id).retries,
        failures=job.failures,
        interruptions=job.interruptions,
        stop_reason=asked,
    )
    after = follow_up(verdict, past)
    _end_claims(tx, attempt)
    attempt = _close(tx, attempt, job, verdict, after)
    columns: dict[str, Any] = {
        "failures": after.failures,
        "interruptions": after.interruptions,
        "attained_ms": _attained(tx, job, attempt, verdict),
    }
    if after.avoid:
        nodes = dict.fromkeys([*job.avoided, *attempt.where.nodes])
        columns["avoid"] = msgspec.json.encode(list(nodes)[-MAX_AVOIDED:]).decode()
    if verdict.cause is ExitCause.ENGINE:
        columns["engine_note"] = verdict.sentence
    job = job._replace(**columns)
    if after.next is JobNext.REQUEUED:
        _requeue(tx, job, after, columns)
    else:
        final = {
            JobNext.SUCCEEDED: JobState.SUCCEEDED,
            JobNext.FAILED: JobState.FAILED,
            JobNext.STOPPED: JobState.CANCELLED,
        }[after.next]
        finish(
            tx, job, final, cause=verdict.cause, sentence=after.sentence, actor=SYSTEM, **columns
        )
    return after


def claimant(tx: Tx, job: JobRow) -> JobRow | None:
    """Return the job that a claim is for, or None if this is no open claim."""
    if job.run_uuid:
        return None
    row = tx.one(
        "SELECT a.job FROM claims c JOIN attempts a ON a.id = c.attempt"
        " WHERE c.job = ? AND c.released_ms IS NULL",
        (job.id,),
    )
    return None if row is None else job_by_inner(tx, row[0], lock=True)


def release_claim(tx: Tx, job: JobRow, sentence: str) -> None:
    """End a claim: what it held is free again, what it waited for is not wanted any more."""
    parent = claimant(tx, job)
    tx.run("UPDATE claims SET released_ms = ? WHERE job = ?", (tx.now_ms, job.id))
    if JobState(job.state).is_final:
        return
    if job.state == JobState.QUEUED:
        finish(
            tx, job, JobState.CANCELLED, cause=ExitCause.STOPPED, sentence=sentence, actor=SYSTEM
        )
    else:
        verdict = AttemptVerdict(cause=ExitCause.SUCCEEDED, sentence=sentence)
        end_attempt(tx, f"{job.job_id}-a{job.attempt}", verdict)
    if parent is not None:
        job_event(
            tx,
            "claim.released",
            parent,
            attempt=parent.attempt,
            claim=job.job_id,
            sentence=sentence,
        )


def _end_claims(tx: Tx, attempt: AttemptRow) -> None:
    """End every claim of an attempt that is over."""
    rows = tx.all(
        "SELECT job FROM claims WHERE attempt = ? AND released_ms IS NULL", (attempt.id,)
    )
    for (inner,) in rows:
        release_claim(tx, job_by_inner(tx, inner, lock=True), "The attempt it was for is over.")


def _close(
    tx: Tx, attempt: AttemptRow, job: JobRow, verdict: AttemptVerdict, after: FollowUp
) -> AttemptRow:
    notes = [*msgspec.json.decode(attempt.notes), *verdict.notes]
    ran_ms = tx.now_ms - (attempt.started_ms or tx.now_ms)
    attempt = change_attempt(
        tx,
        attempt,
        state=after.attempt.value,
        ended_ms=tx.now_ms,
        cause=verdict.cause.value,
        exit_code=verdict.exit_code,
        signal=verdict.signal,
        sentence=verdict.sentence,
        error_line=verdict.error_line,
        saved=int(verdict.saved),
        peak_memory_bytes=verdict.peak_memory_bytes,
        step=last_step(tx, job, attempt),
        notes=msgspec.json.encode(notes[:50]).decode(),
        stalled=0,
    )
    expire_pair(tx, attempt.token_id, tx.now_ms + TOKEN_AFTER_END_MS)
    _note_evidence(tx, attempt, job, verdict)
    held_ms = tx.now_ms - attempt.admitted_ms
    charge(tx, job.team_id, attempt.where.gpu_milli_total / WHOLE * held_ms / 1000)
    facts: dict[str, Any] = {
        "attempt": attempt.number,
        "cause": verdict.cause.value,
        "exit_code": verdict.exit_code,
        "signal": verdict.signal,
        "sentence": verdict.sentence,
        "nodes": list(attempt.where.nodes),
        "ran_ms": ran_ms,
    }
    lost = after.attempt is AttemptState.LOST
    job_event(tx, "attempt.lost" if lost else "attempt.ended", job, **facts)
    if verdict.cause is ExitCause.OUT_OF_MEMORY:
        job_event(tx, "job.out_of_memory", job, attempt=attempt.number, sentence=verdict.sentence)
    return attempt


def _note_evidence(tx: Tx, attempt: AttemptRow, job: JobRow, verdict: AttemptVerdict) -> None:
    """Tell the fleet of an end that looks like broken hardware."""
    words = evidence.hardware_like(verdict.cause, verdict.signal, verdict.error_line)
    shares = attempt.where.shares
    if words is not None and verdict.member < len(shares):
        reporter = evidence.EvidenceReporter(attempt.attempt_id, job.job_id, job.team_id)
        evidence.note_end(tx, shares[verdict.member].node, reporter, words)


def _attained(tx: Tx, job: JobRow, attempt: AttemptRow, verdict: AttemptVerdict) -> int:
    """Run time that the job's last checkpoint keeps."""
    if attempt.started_ms is None:
        return job.attained_ms
    until = tx.now_ms
    if not verdict.saved:
        row = tx.one(
            "SELECT max(created_ms) FROM checkpoints WHERE job = ? AND attempt = ?",
            (job.id, attempt.number),
        )
        if row is None or row[0] is None:
            return job.attained_ms
        until = min(until, row[0])
    return job.attained_ms + max(0, until - attempt.started_ms)


def _requeue(tx: Tx, job: JobRow, after: FollowUp, columns: dict[str, Any]) -> None:
    due = tx.now_ms + math.ceil(after.delay_seconds * 1000) if after.delay_seconds else 0
    job = change_job(tx, job, **columns, state=JobState.QUEUED.value, not_before_ms=due)
    set_run_state(tx, job.run_uuid, "SCHEDULED", actor=SYSTEM)
    job_event(
        tx,
        "job.requeued",
        job,
        attempt=job.attempt,
        sentence=after.sentence,
        delay_seconds=after.delay_seconds,
    )


def finish(
    tx: Tx,
    job: JobRow,
    state: JobState,
    *,
    cause: ExitCause,
    sentence: str,
    actor: str,
    **columns: Any,
) -> None:
    """Bring a job to its end, and its run with it."""
    job = change_job(
        tx,
        job,
        **columns,
        state=state.value,
        ended_ms=tx.now_ms,
        cause=cause.value,
        sentence=sentence,
    )
    set_run_state(tx, job.run_uuid, _RUN_STATUS[state], actor=actor, end_ms=tx.now_ms)
    kind = {
        JobState.SUCCEEDED: "job.succeeded",
        JobState.FAILED: "job.failed",
        JobState.CANCELLED: "job.stopped",
    }[state]
    job_event(
        tx,
        kind,
        job,
        actor=actor,
        attempts=job.attempt,
        cause=cause.value,
        sentence=sentence,
        waited_ms=(job.started_ms or tx.now_ms) - job.submitted_ms,
        wall_ms=tx.now_ms - (job.started_ms or tx.now_ms),
    )


# -- by hand ----------------------------------------------------------------------------------


def hold(tx: Tx, job: JobRow, *, actor: str) -> None:
    """Keep a waiting job from starting."""
    if job.state != JobState.QUEUED:
        raise InvalidInput(f"job {job.job_id} is {job.shown}: only a queued job can be held")
    if not job.held:
        job_event(tx, "job.held", change_job(tx, job, held=1), actor=actor)


def release(tx: Tx, job: JobRow, *, actor: str) -> None:
    """Let a held job start again."""
    if job.state != JobState.QUEUED:
        raise InvalidInput(f"job {job.job_id} is {job.shown}: only a queued job can be released")
    if job.held:
        job_event(tx, "job.released", change_job(tx, job, held=0), actor=actor)


def put_back(tx: Tx, job: JobRow, *, actor: str, **columns: Any) -> None:
    """Put an ended job into its queue again; a new attempt follows, in the same run."""
    job = change_job(
        tx,
        job,
        **{
            "state": JobState.QUEUED.value,
            "ended_ms": None,
            "cause": None,
            "sentence": None,
            "failures": 0,
            "interruptions": 0,
            "not_before_ms": 0,
            "held": 0,
            **columns,
        },
    )
    set_run_state(tx, job.run_uuid, "SCHEDULED", actor=actor)
    job_event(
        tx, "job.requeued", job, actor=actor, attempt=job.attempt, sentence="Requeued by hand."
    )


def change_request(tx: Tx, job: JobRow, *, actor: str, what: str, **columns: Any) -> None:
    """Change what a waiting job asks for."""
    job_event(tx, "job.changed", change_job(tx, job, **columns), actor=actor, sentence=what)
