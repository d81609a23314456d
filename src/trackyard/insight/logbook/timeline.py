"""The timeline of a run or lineage: lanes of spans over one axis of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trackyard.insight.logbook.attempts import AttemptStory, gather, loss_between
from trackyard.insight.logbook.entries import LaneSpan, LogbookEntry, TimelineLane
from trackyard.insight.logbook.facts import EventFact, RunFacts
from trackyard.insight.logbook.words import cause_words, count, grouped, listed

#: Lanes from top to bottom. Those without a span are left out, but for the first of a job.
LANES = (
    "Waiting",
    "Starting",
    "Running",
    "Checkpoints",
    "Lost",
    "Leases",
    "Nodes",
    "Alerts",
    "Curve",
    "Notes",
)
_LANE_OF_KIND = {"node": "Nodes", "alert": "Alerts", "curve": "Curve", "note": "Notes"}
JOB_LANES = ("Waiting", "Starting", "Running", "Checkpoints")
MAX_SPANS = 400


def lanes_of(
    runs: Sequence[RunFacts], entries: Iterable[LogbookEntry], now_ms: int
) -> list[TimelineLane]:
    """Return the lanes of some runs; what still goes on ends now."""
    found: dict[str, list[LaneSpan]] = {name: [] for name in LANES}
    has_job = any(facts.job_id for facts in runs)
    for facts in runs:
        _add_life(found, facts, now_ms)
        found["Leases"] += _leases(facts)
    for entry in entries:
        lane = _LANE_OF_KIND.get(entry.kind)
        if lane is not None:
            label = entry.detail[:120] if entry.kind == "note" else entry.sentence
            moment = (entry.time_ms, entry.time_ms)
            found[lane].append(LaneSpan(*moment, label, entry.tone, entry.attempt, entry.id))
    return [
        TimelineLane(name, sorted(spans, key=lambda one: one.from_ms)[-MAX_SPANS:])
        for name, spans in found.items()
        if spans or (has_job and name in JOB_LANES)
    ]


def _add_life(found: dict[str, list[LaneSpan]], facts: RunFacts, now_ms: int) -> None:
    tolds = gather(facts.events)
    known = {one.number: one for one in facts.attempts}
    is_over = facts.status in ("FINISHED", "FAILED", "KILLED")
    end = facts.end_ms or now_ms if is_over else now_ms
    found["Waiting"] += _waits(facts.events, end, is_over)
    for at, told in enumerate(tolds):
        after = tolds[at + 1] if at + 1 < len(tolds) else None
        until = told.ended.time_ms if told.ended is not None else end
        where = f" on {listed(told.nodes)}" if told.nodes else ""
        if told.admitted is not None:
            began = told.running.time_ms if told.running is not None else until
            label = f"attempt {told.number} starting{where}"
            found["Starting"].append(
                LaneSpan(told.admitted.time_ms, began, label, "plain", told.number)
            )
        if told.running is not None:
            found["Running"].append(_running(told, until, where))
        found["Checkpoints"] += [_checkpoint(event, told) for event in told.checkpoints]
        loss = loss_between(told, after, known.get(told.number))
        if loss is not None and told.ended is not None and loss.milliseconds:
            steps = "" if not loss.steps else f"{count(loss.steps, 'step')} "
            found["Lost"].append(
                LaneSpan(loss.since_ms, told.ended.time_ms, f"{steps}lost", "bad", told.number)
            )
    if not tolds and facts.start_ms is not None:
        found["Running"].append(LaneSpan(facts.start_ms, max(facts.start_ms, end), "run", "busy"))


def _running(told: AttemptStory, until: int, where: str) -> LaneSpan:
    assert told.running is not None
    label, tone, entry = f"attempt {told.number}{where}", "busy", f"e{told.running.id}"
    if told.ended is not None:
        cause = told.ended.text("cause")
        words = cause_words(cause, told.ended.number("exit_code"), told.ended.number("signal"))
        label += f" {'was lost' if cause == 'node_lost' else words}"
        tone = {"succeeded": "good", "stopped": "plain", "preempted": "warn"}.get(cause, "bad")
        entry = f"e{told.ended.id}"
    return LaneSpan(told.running.time_ms, until, label, tone, told.number, entry)


def _checkpoint(event: EventFact, told: AttemptStory) -> LaneSpan:
    """A checkpoint as long as training waited for it; its moment, where no event tells that."""
    began, saved = event.number("began_ms"), event.number("saved_ms")
    end = event.time_ms if saved is None else min(saved, event.time_ms)
    step = event.number("step")
    label = "checkpoint" if step is None else f"checkpoint at step {grouped(step)}"
    return LaneSpan(end if began is None else min(began, end), end, label, "good", told.number)


def _waits(events: Sequence[EventFact], end: int, is_over: bool) -> list[LaneSpan]:
    found: list[LaneSpan] = []
    since: int | None = None
    for event in events:
        if event.kind in ("job.submitted", "job.requeued"):
            since = event.time_ms
        elif event.kind == "job.admitted" and since is not None:
            found.append(LaneSpan(since, event.time_ms, "in the queue", "warn", event.attempt))
            since = None
    if since is not None and not is_over:
        found.append(LaneSpan(since, end, "in the queue", "warn"))
    return found


def _leases(facts: RunFacts) -> list[LaneSpan]:
    """Each lease on the run's nodes, from its start to its end as last told."""
    latest: dict[str, EventFact] = {}
    for event in facts.around:
        if event.subject == "lease":
            latest[event.subject_id] = event
    found = []
    for event in latest.values():
        starts, ends = event.number("starts_ms"), event.number("ends_ms")
        if starts is not None and ends is not None:
            label = f"lease {event.text('name')} on {listed(event.words('nodes'))}"
            found.append(LaneSpan(starts, max(starts, ends), label, "plain", None, f"e{event.id}"))
    return found
