"""Events of runs, jobs, nodes and leases as sentences: one entry an event. Pure.

Owns the words. What takes several events to say (an attempt that was lost and resumed
elsewhere) is `attempts`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trackyard.insight.logbook.entries import LogbookEntry
from trackyard.insight.logbook.facts import EventFact
from trackyard.insight.logbook.words import clause, count, grouped, lasted, listed, person

Say = Callable[[EventFact], str]
_ENDS = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "was stopped"}
_END_TONES = {"FINISHED": "good", "FAILED": "bad"}


def _told(event: EventFact, otherwise: str = "") -> str:
    """Return what the event itself says, to follow a colon."""
    words = clause(event.text("sentence"))
    return f": {words}." if words else f"{otherwise}."


def _name(event: EventFact) -> str:
    return event.text("name") or event.subject_id


def _size(event: EventFact) -> str:
    gpus, nodes = event.data.get("gpus"), event.data.get("nodes")
    total = float(gpus) if isinstance(gpus, int | float) else 0.0
    words = "no GPU" if not total else f"{total:g} GPU" + ("" if total == 1 else "s")
    if isinstance(nodes, int) and nodes > 1:
        words += f" on {nodes} nodes"
    return words


def _submitted(event: EventFact) -> str:
    queue = event.text("queue") or "default"
    return f"{person(event.actor)} submitted job {_name(event)} to queue {queue}: {_size(event)}."


def _finished_run(event: EventFact) -> str:
    return f"Run {_name(event)} {_ENDS.get(event.text('status'), 'ended')}."


def _updated_run(event: EventFact) -> str:
    name = event.text("name")
    return f"{person(event.actor)} renamed the run to {name}." if name else ""


def _succeeded(event: EventFact) -> str:
    wall, attempts = event.number("wall_ms"), event.number("attempts") or 1
    took = "" if not wall else f" after {lasted(wall)}"
    tries = "" if attempts <= 1 else f" and {count(attempts, 'attempt')}"
    return f"Job {_name(event)} succeeded{took}{tries}."


def _nan(event: EventFact) -> str:
    step = event.number("step")
    metric = event.text("metric") or "The loss"
    return f"{metric} is NaN" + ("." if step is None else f" since step {grouped(step)}.")


def _inputs(event: EventFact) -> str:
    names = event.words("datasets") or event.words("models")
    return f"{person(event.actor)} recorded inputs: {listed(names)}." if names else ""


def _version(event: EventFact) -> str:
    version = event.data.get("version")
    number = "a version" if version is None else f"version {version}"
    return f"{person(event.actor)} registered {number} of model {_name(event)}."


def _alias(event: EventFact) -> str:
    alias, version = event.text("alias"), event.data.get("version")
    return f"{person(event.actor)} pointed alias {alias} of {_name(event)} at version {version}."


def _lease(words: str) -> Say:
    def say(event: EventFact) -> str:
        nodes = event.words("nodes")
        where = f" ({listed(nodes)})" if nodes else ""
        return f"Lease {_name(event)}{where} {words}."

    return say


def _alert_fired(event: EventFact) -> str:
    return f'Alert "{event.text("alert")}" fired for {_name(event)}{_told(event)}'


def _alert_resolved(event: EventFact) -> str:
    return f'Alert "{event.text("alert")}" for {_name(event)} was resolved{_told(event)}'


def _acknowledged(event: EventFact) -> str:
    who = person(event.actor)
    return f'{who} acknowledged alert "{event.text("alert")}" for {_name(event)}.'


def _escalated(event: EventFact) -> str:
    return f'Nobody acknowledged alert "{event.text("alert")}" for {_name(event)}: escalated.'


#: kind of event -> (kind of entry, tone, sentence)
TEMPLATES: dict[str, tuple[str, str, Say]] = {
    "run.created": ("run", "plain", lambda e: f"{person(e.actor)} started run {_name(e)}."),
    "run.finished": ("run", "plain", _finished_run),
    "run.updated": ("run", "plain", _updated_run),
    "run.deleted": ("run", "warn", lambda e: f"{person(e.actor)} deleted the run."),
    "run.restored": ("run", "plain", lambda e: f"{person(e.actor)} restored the run."),
    "run.imported": ("run", "plain", lambda e: f"{person(e.actor)} imported the run."),
    "run.inputs": ("run", "plain", _inputs),
    "job.submitted": ("job", "plain", _submitted),
    "job.succeeded": ("job", "good", _succeeded),
    "job.failed": ("job", "bad", lambda e: f"Job {_name(e)} failed{_told(e)}"),
    "job.stopped": ("job", "plain", lambda e: f"Job {_name(e)} was stopped{_told(e)}"),
    "job.stopping": ("job", "plain", lambda e: f"{person(e.actor)} asked the job to stop."),
    "job.preempting": (
        "job",
        "warn",
        lambda e: f"The queue asked {_name(e)} to save and make room{_told(e)}",
    ),
    "job.held": ("job", "plain", lambda e: f"{person(e.actor)} put the job on hold."),
    "job.released": ("job", "plain", lambda e: f"{person(e.actor)} released the job."),
    "job.changed": ("config", "plain", lambda e: f"{person(e.actor)} changed the job{_told(e)}"),
    "job.blocked": ("alert", "warn", lambda e: f"Job {_name(e)} cannot start{_told(e)}"),
    "job.stalled": ("alert", "warn", lambda e: f"Job {_name(e)} stalled{_told(e)}"),
    "job.recovered": ("alert", "good", lambda e: f"Job {_name(e)} makes progress again."),
    "job.loss_nan": ("alert", "bad", _nan),
    "job.hint": ("alert", "warn", lambda e: f"Hint for {_name(e)}{_told(e)}"),
    "job.engine_waits": ("job", "warn", lambda e: f"The batch system keeps it waiting{_told(e)}"),
    "alert.fired": ("alert", "warn", _alert_fired),
    "alert.resolved": ("alert", "good", _alert_resolved),
    "alert.acknowledged": ("alert", "plain", _acknowledged),
    "alert.escalated": ("alert", "bad", _escalated),
    "attempt.refused": (
        "attempt",
        "bad",
        lambda e: f"The engine refused to start {_name(e)}{_told(e)}",
    ),
    "model.created": ("model", "plain", lambda e: f"{person(e.actor)} created model {_name(e)}."),
    "model_version.created": ("model", "plain", _version),
    "model_alias.set": ("model", "plain", _alias),
    "node.joined": ("node", "good", lambda e: f"Node {e.subject_id} joined{_told(e)}"),
    "node.lost": ("node", "bad", lambda e: f"Node {e.subject_id} was lost{_told(e)}"),
    "node.changed": ("node", "warn", lambda e: f"The hardware of {e.subject_id} changed."),
    "node.drained": ("node", "warn", lambda e: f"{person(e.actor)} drained {e.subject_id}."),
    "node.undrained": (
        "node",
        "good",
        lambda e: f"{person(e.actor)} put {e.subject_id} back into service.",
    ),
    "node.quarantined": (
        "node",
        "bad",
        lambda e: f"Node {e.subject_id} was quarantined{_told(e)}",
    ),
    "node.unquarantined": ("node", "good", lambda e: f"Node {e.subject_id} left quarantine."),
    "node.check_failed": (
        "node",
        "warn",
        lambda e: f"A health check of {e.subject_id} failed{_told(e)}",
    ),
    "node.check_passed": (
        "node",
        "good",
        lambda e: f"A health check of {e.subject_id} passes again.",
    ),
    "lease.created": ("lease", "plain", _lease("was made")),
    "lease.started": ("lease", "plain", _lease("began")),
    "lease.ending": ("lease", "warn", _lease("ends soon")),
    "lease.ended": ("lease", "plain", _lease("ended")),
    "lease.extended": ("lease", "plain", _lease("was extended")),
    "lease.degraded": ("lease", "warn", _lease("lost a node")),
    "lease.failed": ("lease", "bad", _lease("has no node that works")),
    "lease.recalled": ("lease", "warn", _lease("called its nodes back")),
}


def event_entries(
    events: Iterable[EventFact], *, run_id: str = "", run_name: str = ""
) -> list[LogbookEntry]:
    """Return one entry for each event that has a sentence of its own."""
    found = []
    for event in events:
        template = TEMPLATES.get(event.kind)
        sentence = "" if template is None else template[2](event)
        if template is None or not sentence:
            continue
        kind, tone, _ = template
        if event.kind == "run.finished":
            tone = _END_TONES.get(event.text("status"), "plain")
        own_run = event.subject_id if event.subject == "run" else event.text("run_id")
        found.append(
            LogbookEntry(
                id=f"e{event.id}",
                time_ms=event.time_ms,
                kind=kind,
                sentence=sentence,
                tone=tone,
                run_id=own_run or run_id,
                run_name=run_name,
                job_id=event.subject_id if event.subject == "job" else "",
                attempt=event.attempt,
                step=event.number("step"),
                metric=event.text("metric"),
                actor=event.actor,
            )
        )
    return found
