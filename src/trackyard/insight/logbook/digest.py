"""The digest of a team's week or month: what ran, what was lost and why, what people noted.

Pure: a tally that events are added to one by one, so that a month of a large team needs little
memory. GPU time counts from admission to the end of an attempt, as far as it lies in the period.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.insight.logbook.attempts import AttemptStory, loss_between
from trackyard.insight.logbook.entries import LogbookEntry
from trackyard.insight.logbook.facts import EventFact
from trackyard.insight.logbook.notes import NOTE_KINDS, note_entries
from trackyard.insight.logbook.words import cause_words, count, lasted, listed

DIGEST_KINDS = (
    "attempt.ended",
    "attempt.lost",
    "job.admitted",
    "job.failed",
    "job.rolled_back",
    "job.running",
    "job.stopped",
    "job.submitted",
    "job.succeeded",
    "lease.ended",
    "lease.started",
    "model_version.created",
    "node.lost",
    "node.quarantined",
    "run.created",
    *NOTE_KINDS,
)
#: Of these only the number is shown.
COUNTED_KINDS = frozenset(
    (
        "job.failed",
        "job.stopped",
        "job.submitted",
        "job.succeeded",
        "lease.ended",
        "lease.started",
        "model_version.created",
        "run.created",
    )
)
#: Ends that may be a node's fault; others are the command's or somebody's wish.
_NODE_CAUSES = ("node_lost", "node_unfit", "engine", "signal")
MOST_LINES, MOST_NOTES = 10, 200
_HOUR_MS = 3_600_000
Checkpoints = Callable[[AttemptStory], Sequence[EventFact]]


@dataclass(frozen=True, slots=True)
class Period:
    """A week or a month, in UTC."""

    name: str
    since_ms: int
    until_ms: int


class CauseLine(msgspec.Struct):
    """How many attempts ended by one cause, and what of it had to be done again."""

    cause: str
    words: str
    attempts: int
    lost_gpu_hours: float


class NodeLine(msgspec.Struct):
    """A node on which attempts ended badly, or that left service."""

    node: str
    failures: int
    outages: int


class ActivityDigest(msgspec.Struct):
    """A team's week or month."""

    team: str
    period: str
    since_ms: int
    until_ms: int
    #: submitted, succeeded, failed, stopped
    jobs: dict[str, int]
    attempts: int
    gpu_hours: float
    lost_gpu_hours: float
    lost_steps: int
    #: share of GPU time that no later attempt had to repeat; null where none was used
    kept_share: float | None
    causes: list[CauseLine]
    nodes: list[NodeLine]
    longest_ms: int
    longest_job: str
    runs_started: int
    models_registered: int
    leases: dict[str, int]
    notes: list[LogbookEntry]
    sentences: list[str]


def week_of(text: str, now_ms: int) -> Period:
    """Read a week: empty or `this`, `last`, or 2026-W46."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    if text in ("", "this", "last"):
        start = today - timedelta(days=today.weekday() + (7 if text == "last" else 0))
    else:
        found = re.fullmatch(r"(\d{4})-W(\d{2})", text)
        try:
            if found is None:
                raise ValueError
            start = date.fromisocalendar(int(found[1]), int(found[2]), 1)
        except ValueError:
            raise InvalidInput(
                f"{text[:40]!r} is no week: write this, last, or as in 2026-W46"
            ) from None
    year, week, _ = start.isocalendar()
    return _period(f"{year}-W{week:02d}", start, start + timedelta(days=7))


def month_of(text: str, now_ms: int) -> Period:
    """Read a month: empty or `this`, `last`, or 2026-11."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date().replace(day=1)
    if text in ("", "this"):
        start = today
    elif text == "last":
        start = (today - timedelta(days=1)).replace(day=1)
    else:
        found = re.fullmatch(r"(\d{4})-(\d{2})", text)
        try:
            if found is None:
                raise ValueError
            start = date(int(found[1]), int(found[2]), 1)
        except ValueError:
            raise InvalidInput(
                f"{text[:40]!r} is no month: write this, last, or as in 2026-11"
            ) from None
    following = (start + timedelta(days=32)).replace(day=1)
    return _period(f"{start:%Y-%m}", start, following)


def _period(name: str, start: date, end: date) -> Period:
    def ms(day: date) -> int:
        return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)

    return Period(name, ms(start), ms(end))


class DigestTally:
    """Counts events of one period, in the order in which they happened."""

    def __init__(
        self, team: str, period: Period, now_ms: int, checkpoints: Checkpoints | None = None
    ) -> None:
        #: looks up an attempt's last checkpoints; there are too many to read them all
        self._checkpoints = checkpoints or (lambda told: told.checkpoints)
        self._team, self._period = team, period
        self._end = min(period.until_ms, now_ms)
        self._counts: dict[str, int] = {}
        #: attempts that are open: by job, with the one before where it has ended badly
        self._open: dict[str, AttemptStory] = {}
        self._before: dict[str, AttemptStory] = {}
        self._causes: dict[str, CauseLine] = {}
        self._nodes: dict[str, NodeLine] = {}
        self._notes: list[EventFact] = []
        self._gpu_ms = self._lost_gpu_ms = 0.0
        self._lost_steps = self._attempts = 0
        self._longest = (0, "")

    def count(self, kind: str) -> None:
        """Count an event of which only the number is shown."""
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def add(self, event: EventFact) -> None:
        """Count one event."""
        kind = event.kind
        self.count(kind)
        if kind in NOTE_KINDS:
            self._notes.append(event)
        elif kind in ("node.lost", "node.quarantined"):
            self._node(event.subject_id).outages += 1
        elif event.subject == "job" and event.attempt is not None:
            self._add_attempt(event, event.attempt)

    def _add_attempt(self, event: EventFact, number: int) -> None:
        job = event.subject_id
        told = self._open.get(job)
        if event.kind == "job.admitted":
            self._attempts += 1
            self._open[job] = AttemptStory(job, number, admitted=event)
        elif event.kind == "job.running":
            told = self._open.setdefault(job, AttemptStory(job, number))
            told.running = event
            self._count_loss(job, told)
        elif event.kind == "job.rolled_back" and told is not None:
            told.rolled_back = event
            self._count_loss(job, told)
        elif event.kind == "checkpoint.saved" and told is not None:
            told.checkpoints.append(event)
        elif event.kind in ("attempt.ended", "attempt.lost"):
            self._open.pop(job, told)
            self._end_attempt(event, told or AttemptStory(job, number))

    def _end_attempt(self, event: EventFact, told: AttemptStory) -> None:
        told.ended = event
        ran = event.number("ran_ms") or 0
        since = told.admitted.time_ms if told.admitted is not None else event.time_ms - ran
        held = event.time_ms - max(since, self._period.since_ms)
        self._gpu_ms += self._gpus(told) * max(0, held)
        self._longest = max(self._longest, (ran, event.text("name") or event.subject_id))
        cause = event.text("cause") or "ended"
        line = self._cause(cause)
        line.attempts += 1
        if cause in _NODE_CAUSES:
            for node in event.words("nodes"):
                self._node(node).failures += 1
        if cause == "succeeded":
            self._before.pop(event.subject_id, None)
        else:
            self._before[event.subject_id] = told

    def _count_loss(self, job: str, told: AttemptStory) -> None:
        """Count what an attempt does again; once, when it runs or is known to have gone back."""
        before = self._before.get(job)
        if before is None or before.ended is None:
            return
        if told.rolled_back is None:
            before.checkpoints = list(self._checkpoints(before))
        loss = loss_between(before, told, None)
        if loss is None:
            return
        if told.rolled_back is not None:
            # The time was counted when it began to run; how far it went back is known now.
            self._lost_steps += loss.steps or 0
            del self._before[job]
            return
        lost = self._gpus(before) * loss.milliseconds
        self._lost_gpu_ms += lost
        line = self._cause(before.ended.text("cause") or "ended")
        line.lost_gpu_hours += lost / _HOUR_MS

    @staticmethod
    def _gpus(told: AttemptStory) -> float:
        value = told.admitted.data.get("gpus") if told.admitted is not None else 0
        return float(value) if isinstance(value, int | float) else 0.0

    def _cause(self, cause: str) -> CauseLine:
        words = "lost their node" if cause == "node_lost" else cause_words(cause, None, None)
        return self._causes.setdefault(cause, CauseLine(cause, words, 0, 0.0))

    def _node(self, node: str) -> NodeLine:
        return self._nodes.setdefault(node, NodeLine(node, 0, 0))

    def done(self) -> ActivityDigest:
        """Return the digest."""
        for told in self._open.values():
            if told.admitted is not None:
                self._gpu_ms += self._gpus(told) * max(0, self._end - told.admitted.time_ms)
        counts, used = self._counts, self._gpu_ms
        digest = ActivityDigest(
            team=self._team,
            period=self._period.name,
            since_ms=self._period.since_ms,
            until_ms=self._period.until_ms,
            jobs={
                word: counts.get(f"job.{word}", 0)
                for word in ("submitted", "succeeded", "failed", "stopped")
            },
            attempts=self._attempts,
            gpu_hours=round(used / _HOUR_MS, 3),
            lost_gpu_hours=round(self._lost_gpu_ms / _HOUR_MS, 3),
            lost_steps=self._lost_steps,
            kept_share=None if not used else round(max(0.0, 1 - self._lost_gpu_ms / used), 4),
            causes=self._cause_lines(),
            nodes=self._node_lines(),
            longest_ms=self._longest[0],
            longest_job=self._longest[1],
            runs_started=counts.get("run.created", 0),
            models_registered=counts.get("model_version.created", 0),
            leases={word: counts.get(f"lease.{word}", 0) for word in ("started", "ended")},
            notes=note_entries(self._notes)[-MOST_NOTES:],
            sentences=[],
        )
        digest.sentences = _sentences(digest)
        return digest

    def _cause_lines(self) -> list[CauseLine]:
        lines = sorted(
            self._causes.values(), key=lambda one: (-one.lost_gpu_hours, -one.attempts, one.cause)
        )
        for line in lines:
            line.lost_gpu_hours = round(line.lost_gpu_hours, 3)
        return lines[:MOST_LINES]

    def _node_lines(self) -> list[NodeLine]:
        bad = [one for one in self._nodes.values() if one.failures or one.outages]
        bad.sort(key=lambda one: (-one.failures - one.outages, one.node))
        return bad[:MOST_LINES]


def _sentences(digest: ActivityDigest) -> list[str]:
    """Say the figures as people would."""
    jobs = digest.jobs
    first = (
        f"{count(jobs['submitted'], 'job')} submitted, {jobs['succeeded']:,} succeeded,"
        f" {jobs['failed']:,} failed, {jobs['stopped']:,} stopped;"
        f" {count(digest.runs_started, 'run')} started."
    )
    found = [first]
    if digest.attempts:
        found.append(
            f"{count(digest.attempts, 'attempt')} used {digest.gpu_hours:,.1f} GPU-hours."
        )
    if digest.lost_gpu_hours >= 0.05 or digest.lost_steps:
        kept = "" if digest.kept_share is None else f" ({1 - digest.kept_share:.1%} of them)"
        found.append(
            f"{digest.lost_gpu_hours:,.1f} GPU-hours{kept} and"
            f" {count(digest.lost_steps, 'step')} had to be done again."
        )
    worst = [one for one in digest.causes if one.lost_gpu_hours >= 0.05][:3]
    if worst:
        told = [
            f"attempts that {one.words} ({one.lost_gpu_hours:,.1f} GPU-hours)" for one in worst
        ]
        found.append(f"Most was lost by {listed(told)}.")
    if digest.nodes:
        told = [f"{one.node} ({one.failures + one.outages})" for one in digest.nodes[:3]]
        found.append(f"Most trouble on {listed(told)}.")
    if digest.longest_ms:
        found.append(
            f"The longest stretch without a break was {lasted(digest.longest_ms)},"
            f" by {digest.longest_job}."
        )
    if digest.models_registered:
        found.append(f"{count(digest.models_registered, 'model version')} registered.")
    if digest.leases["started"] or digest.leases["ended"]:
        found.append(
            f"{count(digest.leases['started'], 'lease')} began and"
            f" {digest.leases['ended']:,} ended."
        )
    return found
