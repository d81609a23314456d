"""What runners report while an attempt runs: life, progress, checkpoints, samples.

Owns what a heartbeat changes and the signs of trouble in it: a stall, a loss that is no number.
Most heartbeats change nothing and are only remembered; every tenth second one is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.access.attempt_tokens import trade
from trackyard.access.principal import Principal
from trackyard.core.errors import Conflict, NotFound
from trackyard.core.health import RUNNERS, CheckReport
from trackyard.core.job import AttemptState
from trackyard.core.ports import ExitRecord
from trackyard.core.reasons import duration_words
from trackyard.fleet.evidence import EvidenceReporter
from trackyard.fleet.service import Fleet
from trackyard.queue.attempts.node_load import note_samples
from trackyard.queue.attempts.progress import last_step
from trackyard.queue.records import AttemptRow, JobRow, attempt_of, job_by_inner
from trackyard.queue.submit.data_inputs import note_held
from trackyard.queue.transitions import change_attempt, job_event, note_running
from trackyard.store.bounds import Figures, Free, Int64, Lines, Word, Words
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.job_runs import MACHINE_ATTEMPT
from trackyard.tracking.metrics.ingest import Series, write_batch
from trackyard.tracking.names import Names
from trackyard.tracking.validation import check_name
from trackyard.tracking.watched import last_logged_ms, lost_loss

WRITE_EVERY_MS = 10_000
MAX_REMEMBERED = 20_000
MAX_SAMPLES = 500
MAX_SAMPLE_VALUES = 200
DAY_MS = 86_400_000


class RunnerProgress(msgspec.Struct, frozen=True):
    """Signs of progress as the runner sees them."""

    age_seconds: float = 0.0
    step: Int64 | None = None
    promised_seconds: float | None = None
    stalled: bool = False


class Saved(msgspec.Struct, frozen=True):
    """The job's last complete checkpoint."""

    name: Word
    step: Int64
    sequence: Int64 = 0
    size_bytes: Int64 = 0
    created_ms: Int64 = 0
    #: how long training waited for it
    blocked_ms: Int64 = 0


class Heartbeat(msgspec.Struct, frozen=True):
    """A runner's report; unknown keys are ignored."""

    epoch: Int64 = 0
    member: Int64 = 0
    state: Word = ""
    hostname: Word = ""
    log_lost_bytes: Int64 = 0
    progress: RunnerProgress | None = None
    checkpoint: Saved | None = None
    notes: Lines = []
    #: the node's own time, and its health as the runner found it before the start
    time_ms: Int64 = 0
    health: Annotated[list[Free], Meta(max_length=1000)] = []
    #: digests of the data sets in the node's cache
    data: Words = []


class Sample(msgspec.Struct, frozen=True):
    """The machine at one moment."""

    seq: Int64
    time_ms: Int64
    values: Figures


class Samples(msgspec.Struct, frozen=True):
    """Samples of one member."""

    samples: Annotated[list[Sample], Meta(max_length=5000)]
    member: Int64 = 0


@dataclass(slots=True)
class _Seen:
    written_ms: int
    state: str
    checkpoint: str
    stalled: bool
    lost: int


class HeartbeatMemory:
    """The last heartbeat written of each member, so that only news are written."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, int], _Seen] = OrderedDict()

    def is_news(self, attempt_id: str, beat: Heartbeat, now_ms: int) -> bool:
        """Tell whether a heartbeat has to be written."""
        seen = self._seen.get((attempt_id, beat.member))
        return (
            seen is None
            or now_ms - seen.written_ms >= WRITE_EVERY_MS
            or seen.state != beat.state
            or seen.checkpoint != (beat.checkpoint.name if beat.checkpoint else "")
            or seen.stalled != bool(beat.progress and beat.progress.stalled)
            or seen.lost != beat.log_lost_bytes
        )

    def note(self, attempt_id: str, beat: Heartbeat, now_ms: int) -> None:
        """Remember a heartbeat that was written."""
        self._seen[attempt_id, beat.member] = _Seen(
            now_ms,
            beat.state,
            beat.checkpoint.name if beat.checkpoint else "",
            bool(beat.progress and beat.progress.stalled),
            beat.log_lost_bytes,
        )
        while len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)


def live_attempt(
    reader: ReadConnection | Tx,
    principal: Principal,
    attempt_id: str,
    epoch: int,
    *,
    ended_too: bool,
) -> AttemptRow:
    """Return the attempt a runner speaks for; another's is not found, an old epoch refused."""
    scope = principal.scope
    if scope is None or scope.attempt_id != attempt_id:
        raise NotFound("this token speaks for another attempt")
    attempt = attempt_of(reader, attempt_id)
    if attempt is None:
        raise NotFound(f"no attempt {attempt_id[:80]!r}")
    row = reader.one("SELECT epoch FROM jobs WHERE id = ?", (attempt.job,))
    if epoch != attempt.epoch or row is None or row[0] != attempt.epoch:
        raise Conflict("a newer attempt holds this job: end what runs under the old one")
    if attempt.is_over and not ended_too:
        raise Conflict("this attempt is over: end what still runs under it")
    return attempt


def trade_ticket(
    tx: Tx, principal: Principal, attempt_id: str, epoch: int, claim: str
) -> str | None:
    """Give the key of a runner's spec for its ticket; a second time there is only an event."""
    attempt = live_attempt(tx, principal, attempt_id, epoch, ended_too=False)
    key = trade(tx, principal.token_id, claim)
    if key is None:
        job = job_by_inner(tx, attempt.job)
        job_event(tx, "attempt.ticket_refused", job, attempt=attempt.number)
    return key


def granted(key: str | None) -> str:
    """Return a key that was given, or refuse a second one."""
    if key is None:
        raise Conflict(
            "this ticket was used before, so the attempt must not run: whoever used it may have"
            " read it in the cluster"
        )
    return key


def take_heartbeat(tx: Tx, attempt_id: str, beat: Heartbeat) -> None:
    """Write a heartbeat with what it tells."""
    attempt = attempt_of(tx, attempt_id, lock=True)
    if attempt is None or attempt.is_over:
        return
    if attempt.seen_ms is None or attempt.launched_ms is None:
        attempt = change_attempt(tx, attempt, launched_ms=attempt.launched_ms or tx.now_ms)
    tx.run(
        "UPDATE attempt_members SET hostname = ?, log_lost = ? WHERE attempt = ? AND member = ?",
        (beat.hostname[:200], beat.log_lost_bytes, attempt.id, beat.member),
    )
    if beat.state == "running" and attempt.state == AttemptState.STARTING:
        note_running(tx, attempt_id, hostname=beat.hostname[:200])
    note_held(tx, attempt.job, node_of(attempt, beat.member), beat.data)
    columns = _columns(beat, attempt, tx.now_ms)
    job = job_by_inner(tx, attempt.job)
    if beat.member == 0 and "step" not in columns:
        columns["step"] = last_step(tx, job, attempt)
    if attempt.first_step_ms is None and columns.get("step") is not None:
        columns["first_step_ms"] = _first_step(tx, job, attempt)
    attempt = change_attempt(tx, attempt, **columns)
    if beat.checkpoint is not None:
        note_checkpoint(tx, job, attempt, beat.checkpoint)
    if beat.member == 0:
        _watch_progress(tx, job, attempt, beat.progress)
        _watch_loss(tx, job, attempt)


def _columns(beat: Heartbeat, attempt: AttemptRow, now_ms: int) -> dict[str, Any]:
    """Return what a heartbeat says of its attempt by itself."""
    columns: dict[str, Any] = {"seen_ms": now_ms}
    if beat.progress is not None and beat.progress.step is not None:
        columns["step"] = beat.progress.step
    if beat.state == "environment" and attempt.unpacked_ms is None:
        columns["unpacked_ms"] = now_ms
    if beat.notes and beat.member == 0:
        columns["notes"] = msgspec.json.encode([n[:500] for n in beat.notes[:50]]).decode()
    return columns


def _first_step(tx: Tx, job: JobRow, attempt: AttemptRow) -> int:
    """Return when an attempt's first step was seen, and say so once."""
    job_event(
        tx,
        "attempt.first_step",
        job,
        attempt=attempt.number,
        loaded_in_ms=tx.now_ms - (attempt.started_ms or tx.now_ms),
    )
    return tx.now_ms


def node_of(attempt: AttemptRow, member: int) -> str | None:
    """Return the node that a member of an attempt runs on."""
    shares = attempt.where.shares
    return shares[member].node if 0 <= member < len(shares) else None


def take_health(
    tx: Tx, fleet: Fleet, attempt_id: str, member: int, checks: Sequence[CheckReport]
) -> None:
    """Take what a runner found of its node's health: the word of one attempt, of its own node."""
    known = [check for check in checks if check.name in RUNNERS]
    attempt = attempt_of(tx, attempt_id) if known else None
    node = None if attempt is None else node_of(attempt, member)
    if attempt is None or node is None:
        return
    if tx.one("SELECT 1 FROM nodes WHERE id = ?", (node,)) is not None:
        reporter = reporter_of(tx, attempt)
        fleet.take(tx, node, known, source="runner", reporter=reporter)


def reporter_of(reader: ReadConnection | Tx, attempt: AttemptRow) -> EvidenceReporter:
    """Return whose word an attempt's report is."""
    row = reader.one("SELECT job_id, team_id FROM jobs WHERE id = ?", (attempt.job,))
    assert row is not None
    return EvidenceReporter(attempt.attempt_id, row[0], row[1])


def note_checkpoint(tx: Tx, job: JobRow, attempt: AttemptRow, saved: Saved) -> None:
    """List a checkpoint, once."""
    if len(saved.name) > 200 or not saved.name.isprintable():
        return
    saved_ms = min(saved.created_ms or tx.now_ms, tx.now_ms)
    blocked_ms = min(max(saved.blocked_ms, 0), DAY_MS)
    done = tx.run(
        "INSERT INTO checkpoints (job, attempt, name, step, sequence, size_bytes, created_ms,"
        " blocked_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, name) DO NOTHING",
        (
            job.id,
            attempt.number,
            saved.name,
            saved.step,
            saved.sequence,
            saved.size_bytes,
            saved.created_ms or tx.now_ms,
            blocked_ms,
        ),
    )
    if done > 0:
        job_event(
            tx,
            "checkpoint.saved",
            job,
            attempt=attempt.number,
            step=saved.step,
            size_bytes=saved.size_bytes,
            checkpoint=saved.name,
            # How long training waited for it, as a span on the timeline.
            began_ms=saved_ms - blocked_ms,
            saved_ms=saved_ms,
        )


def take_last_signs(tx: Tx, record: ExitRecord) -> None:
    """Note the last step and checkpoint that an exit record names, whoever brought it."""
    attempt = attempt_of(tx, record.attempt_id)
    if attempt is None:
        return
    if record.step is not None and record.step > (attempt.step or -1):
        attempt = change_attempt(tx, attempt, step=record.step)
    if record.checkpoint is None:
        return
    try:
        saved = msgspec.convert(record.checkpoint, Saved)
    except msgspec.ValidationError:
        return
    note_checkpoint(tx, job_by_inner(tx, attempt.job), attempt, saved)


def _watch_progress(
    tx: Tx, job: JobRow, attempt: AttemptRow, progress: RunnerProgress | None
) -> None:
    if progress is None or progress.promised_seconds is None:
        return
    stalled = progress.stalled and not _logged_within(tx, job, progress.promised_seconds)
    if stalled and not attempt.stalled:
        change_attempt(tx, attempt, stalled=1)
        sentence = (
            f"No progress for {duration_words(round(progress.age_seconds))};"
            f" {duration_words(progress.promised_seconds)} were promised."
        )
        job_event(tx, "job.stalled", job, attempt=attempt.number, sentence=sentence)
    elif not stalled and attempt.stalled:
        change_attempt(tx, attempt, stalled=0)
        job_event(
            tx,
            "job.recovered",
            job,
            attempt=attempt.number,
            sentence="It shows progress again.",
        )


def _logged_within(tx: Tx, job: JobRow, seconds: float) -> bool:
    """Tell whether the job logged a metric of its own lately, which is progress, too."""
    last_ms = last_logged_ms(tx, job.run_uuid)
    return last_ms is not None and tx.now_ms - last_ms < seconds * 1000


def _watch_loss(tx: Tx, job: JobRow, attempt: AttemptRow) -> None:
    """Say once per attempt when a loss is not a number any more."""
    if attempt.nan_seen:
        return
    row = lost_loss(tx, job.run_uuid)
    if row is None:
        return
    change_attempt(tx, attempt, nan_seen=1)
    job_event(
        tx,
        "job.loss_nan",
        job,
        attempt=attempt.number,
        metric=row[0],
        step=row[1],
        sentence=f"{row[0]} is NaN since step {row[1]} or earlier; the run may be lost.",
    )


def take_samples(
    tx: Tx, names: Names, principal: Principal, attempt: AttemptRow, batch: Samples
) -> None:
    """Write machine samples as system metrics of the run; those sent twice count once."""
    row = tx.one(
        "SELECT sample_seq FROM attempt_members WHERE attempt = ? AND member = ?"
        f"{tx.dialect.for_update}",
        (attempt.id, batch.member),
    )
    if row is None:
        raise NotFound(f"attempt {attempt.attempt_id} has no member {batch.member}")
    fresh = [one for one in batch.samples[:MAX_SAMPLES] if one.seq > row[0]]
    if not fresh or principal.scope is None:
        return
    begin = tx.one("SELECT submitted_ms FROM jobs WHERE id = ?", (attempt.job,))
    assert begin is not None
    series: Series = {}
    columns: dict[str, tuple[list[int], list[int], list[float]]] = {}
    for sample in fresh:
        # Seconds since submission: one clock for all attempts of the job.
        step = max(0, (sample.time_ms - begin[0]) // 1000)
        for key, value in list(sample.values.items())[:MAX_SAMPLE_VALUES]:
            steps, times, values = columns.setdefault(key, ([], [], []))
            steps.append(step)
            times.append(sample.time_ms)
            values.append(float(value))
    for key, found in columns.items():
        check_name(key, "samples.values")
        series[key] = found
    shares = attempt.where.shares
    if batch.member < len(shares):
        node = shares[batch.member].node
        note_samples(tx, node, ((one.time_ms, one.values) for one in fresh))
    machine = replace(principal, scope=replace(principal.scope, attempt=MACHINE_ATTEMPT))
    write_batch(tx, names, machine, principal.scope.run_id, series=series)
    tx.run(
        "UPDATE attempt_members SET sample_seq = ? WHERE attempt = ? AND member = ?",
        (max(one.seq for one in fresh), attempt.id, batch.member),
    )
