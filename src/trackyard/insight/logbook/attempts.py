"""The story of a job's attempts: where each ran, how it ended, where the next one resumed and
what was lost in between. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trackyard.insight.logbook.differences import (
    difference_words,
    environment_differences,
    rate_differences,
)
from trackyard.insight.logbook.entries import LogbookEntry
from trackyard.insight.logbook.facts import AttemptFact, Curve, EventFact
from trackyard.insight.logbook.words import cause_words, clause, count, grouped, lasted, listed

ATTEMPT_KINDS = (
    "job.admitted",
    "job.running",
    "job.rolled_back",
    "attempt.ended",
    "attempt.lost",
    "checkpoint.saved",
)


@dataclass(slots=True)
class AttemptStory:
    """The events of one attempt of one job."""

    job_id: str
    number: int
    admitted: EventFact | None = None
    running: EventFact | None = None
    ended: EventFact | None = None
    #: of the attempt that went back: it names the step it went on from
    rolled_back: EventFact | None = None
    checkpoints: list[EventFact] = field(default_factory=list)

    @property
    def nodes(self) -> list[str]:
        """Where it ran."""
        for event in (self.running, self.admitted, self.ended):
            if event is not None and event.words("nodes"):
                return event.words("nodes")
        return []


@dataclass(frozen=True, slots=True)
class LostWork:
    """Work that a later attempt has to do again."""

    steps: int | None
    milliseconds: int
    #: where the lost stretch begins
    since_ms: int


def gather(events: Iterable[EventFact]) -> list[AttemptStory]:
    """Group events by attempt, in the order in which the attempts began."""
    found: dict[tuple[str, int], AttemptStory] = {}
    for event in events:
        number = event.attempt
        if event.kind not in ATTEMPT_KINDS or number is None or event.subject != "job":
            continue
        told = found.setdefault((event.subject_id, number), AttemptStory(event.subject_id, number))
        if event.kind == "job.admitted":
            told.admitted = event
        elif event.kind == "job.running":
            told.running = event
        elif event.kind == "job.rolled_back":
            told.rolled_back = event
        elif event.kind == "checkpoint.saved":
            told.checkpoints.append(event)
        else:
            told.ended = event
    return list(found.values())


def loss_between(
    before: AttemptStory, after: AttemptStory | None, fact: AttemptFact | None
) -> LostWork | None:
    """Return what was lost when an attempt ended and the next went on; None where nothing was.

    The time runs from the checkpoint that the next attempt went on from, or from the start of
    the command where there is none, to the end of the attempt.
    """
    if before.ended is None or before.ended.text("cause") == "succeeded" or after is None:
        return None
    resumed = after.running.number("resume_step") if after.running is not None else None
    reached = fact.step if fact is not None else None
    if after.rolled_back is not None:
        resumed = after.rolled_back.number("step")
        reached = after.rolled_back.number("reached")
    if after.running is None and after.rolled_back is None:
        return None
    steps = None if reached is None else max(0, reached - (resumed or 0))
    kept = [one for one in before.checkpoints if (one.number("step") or 0) <= (resumed or 0)]
    began = before.running.time_ms if before.running is not None else before.ended.time_ms
    since = kept[-1].time_ms if kept and resumed else began
    lost_ms = max(0, before.ended.time_ms - since)
    if steps == 0:
        lost_ms = 0
    if not steps and not lost_ms:
        return None
    return LostWork(steps, lost_ms, since)


def loss_words(loss: LostWork | None) -> str:
    """Describe the loss, as the end of a sentence."""
    if loss is None:
        return "nothing was lost"
    parts = [] if loss.steps is None else [count(loss.steps, "step")]
    if loss.milliseconds >= 1000:
        parts.append(lasted(loss.milliseconds))
    return f"{' and '.join(parts)} lost" if parts else "nothing was lost"


def attempt_entries(
    tolds: Sequence[AttemptStory],
    facts: Mapping[int, AttemptFact],
    *,
    run_id: str,
    run_name: str,
    rates: Sequence[Curve] = (),
) -> list[LogbookEntry]:
    """Return the entries of a job's attempts: begin, differences, checkpoints, end."""
    found: list[LogbookEntry] = []
    for at, told in enumerate(tolds):
        before = tolds[at - 1] if at else None
        after = tolds[at + 1] if at + 1 < len(tolds) else None
        base = {"run_id": run_id, "run_name": run_name, "job_id": told.job_id}
        made = (
            _began(told, base),
            _differs(told, before, facts, base, rates),
            _saved(told, base),
            _ended(told, after, facts.get(told.number), base),
        )
        found += [entry for entry in made if entry is not None]
    return found


def _entry(
    base: Mapping[str, str], told: AttemptStory, event: EventFact, **more: object
) -> LogbookEntry:
    values = {"attempt": told.number, "time_ms": event.time_ms, "actor": event.actor, **more}
    return LogbookEntry(**base, **values)  # type: ignore[arg-type]


def _began(told: AttemptStory, base: Mapping[str, str]) -> LogbookEntry | None:
    event = told.running or told.admitted
    if event is None:
        return None
    where = f" on {listed(told.nodes)}" if told.nodes else ""
    waited = told.admitted.number("waited_ms") if told.admitted and told.number == 1 else None
    if told.running is None:
        words = f"Attempt {told.number} is starting{where}."
    else:
        resumed = told.running.number("resume_step")
        if told.rolled_back is not None:
            resumed = told.rolled_back.number("step")
        verb = "started" if told.number == 1 or not resumed else "resumed"
        step = f" from step {grouped(resumed)}" if resumed else ""
        after = f" after {lasted(waited)} in the queue" if waited and waited >= 1000 else ""
        words = f"Attempt {told.number} {verb}{where}{step}{after}."
    return _entry(base, told, event, id=f"e{event.id}", kind="attempt", sentence=words)


def _differs(
    told: AttemptStory,
    before: AttemptStory | None,
    facts: Mapping[int, AttemptFact],
    base: Mapping[str, str],
    rates: Sequence[Curve],
) -> LogbookEntry | None:
    event = told.running or told.admitted
    if before is None or event is None:
        return None
    old, new = facts.get(before.number), facts.get(told.number)
    if old is None or new is None:
        return None
    changed = rate_differences(rates, old.ended_ms, event.time_ms)
    changed += environment_differences(old.environment, new.environment)
    if not changed:
        return None
    words = f"Attempt {told.number} differs from attempt {before.number}"
    return _entry(
        base,
        told,
        event,
        id=f"d{event.id}",
        kind="config",
        sentence=f"{words}: {difference_words(changed)}.",
        differences=changed,
    )


def _saved(told: AttemptStory, base: Mapping[str, str]) -> LogbookEntry | None:
    if not told.checkpoints:
        return None
    last = told.checkpoints[-1]
    step = last.number("step")
    at = "" if step is None else f" at step {grouped(step)}"
    size = last.number("size_bytes")
    big = "" if not size else f" ({_bytes(size)})"
    if len(told.checkpoints) == 1:
        words = f"Attempt {told.number} saved a checkpoint{at}{big}."
    else:
        saved = count(len(told.checkpoints), "checkpoint")
        words = f"Attempt {told.number} saved {saved}, the last{at}{big}."
    first = told.checkpoints[0].id
    return _entry(
        base,
        told,
        last,
        id=f"k{first}",
        kind="checkpoint",
        sentence=words,
        tone="good",
        step=step,
    )


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def _ended(
    told: AttemptStory,
    after: AttemptStory | None,
    fact: AttemptFact | None,
    base: Mapping[str, str],
) -> LogbookEntry | None:
    event = told.ended
    if event is None:
        return None
    cause = event.text("cause")
    ran = event.number("ran_ms")
    words = f"Attempt {told.number} {_how(told, event, cause)}"
    if cause == "succeeded":
        words += "" if not ran else f" after {lasted(ran)}"
        return _entry(
            base, told, event, id=f"e{event.id}", kind="attempt", sentence=f"{words}.", tone="good"
        )
    if after is not None and after.running is not None:
        loss = loss_between(told, after, fact)
        resumed = after.running.number("resume_step")
        if after.rolled_back is not None:
            resumed = after.rolled_back.number("step")
        go_on = f"resumed on {listed(after.nodes)}" if resumed else "started again"
        where = "" if resumed or not after.nodes else f" on {listed(after.nodes)}"
        step = f" from step {grouped(resumed)}" if resumed else " from the beginning"
        words += f"; {go_on}{where}{step}; {loss_words(loss)}"
    return _entry(
        base,
        told,
        event,
        id=f"e{event.id}",
        kind="attempt",
        sentence=f"{words}.",
        tone="plain" if cause in ("stopped", "preempted") else "bad",
        step=None if fact is None else fact.step,
        detail="" if fact is None or not fact.error_line else f"`{fact.error_line[:300]}`",
    )


def _how(told: AttemptStory, event: EventFact, cause: str) -> str:
    reason = clause(event.text("sentence"))
    if event.kind == "attempt.lost" or cause == "node_lost":
        where = f"lost {'node' if len(told.nodes) <= 1 else 'nodes'} {listed(told.nodes)}"
        return f"{where}: {reason}" if reason else where
    words = cause_words(cause, event.number("exit_code"), event.number("signal"))
    if cause == "succeeded" or reason.startswith("The command ended with exit code"):
        return words
    return f"{words} ({reason})" if reason and reason.lower() not in words else words
