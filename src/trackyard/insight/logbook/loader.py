"""Loads what logbooks are made of. Owns which rows are read and how many; writes no sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.insight.logbook.attempts import AttemptStory
from trackyard.insight.logbook.books import RUN_KINDS, TEAM_KINDS
from trackyard.insight.logbook.curves import chosen_metrics, goal_of
from trackyard.insight.logbook.differences import LEARNING_RATE
from trackyard.insight.logbook.digest import (
    COUNTED_KINDS,
    DIGEST_KINDS,
    ActivityDigest,
    DigestTally,
    Period,
)
from trackyard.insight.logbook.facts import AttemptFact, Curve, EventFact, Parent, RunFacts
from trackyard.insight.logbook.why_worse import Moment, nearest, window
from trackyard.queue.records import AttemptRow, load_attempts, load_jobs
from trackyard.store.database import ReadConnection
from trackyard.store.event_log import (
    EventRow,
    events_between,
    events_of,
    first_id_at,
    pages_between,
)
from trackyard.tracking.metrics import history
from trackyard.tracking.run_lineage import (
    COMMIT_TAG,
    DIFF_TAG,
    NamedMetric,
    RunHead,
    load_head,
    load_lineage,
    load_metrics,
    names_of,
)

#: Stretches of steps that a curve is looked at in.
BUCKETS = 1024
MAX_EVENTS = 5000
MAX_NODES = 16
LAST_CHECKPOINTS = 5
MAX_RATES = 2
#: Other metrics that are compared around a moment, and stretches of each.
MAX_SERIES, SERIES_BUCKETS = 120, 2000
_AFTER_END_MS = 60_000
_NODE_KINDS = tuple(kind for kind in RUN_KINDS if kind.startswith(("node.", "alert.")))
_LEASE_KINDS = tuple(kind for kind in RUN_KINDS if kind.startswith("lease."))
_NEIGHBOUR_KINDS = ("job.admitted", "attempt.ended", "attempt.lost")
_OTHER = re.compile(r"rank|time|epoch|shard|data|seen|position|offset", re.IGNORECASE)


def load_run_facts(reader: ReadConnection, principal: Principal, run_id: str) -> RunFacts:
    """Return what the logbook of one run is made of."""
    return _facts(reader, principal, load_head(reader, principal, run_id))


def load_lineage_facts(
    reader: ReadConnection, principal: Principal, run_id: str
) -> list[RunFacts]:
    """Return the same of every run of its lineage, the oldest first."""
    heads = load_lineage(reader, principal, run_id)
    return [_facts(reader, principal, head) for head in heads]


def _facts(reader: ReadConnection, principal: Principal, head: RunHead) -> RunFacts:
    team_id = principal.team_id
    jobs = load_jobs(reader, "run_uuid = ? AND team_id = ? ORDER BY id", (head.run_id, team_id))
    events = events_of(
        reader, "run", head.run_id, team_id=team_id, kinds=RUN_KINDS, limit=MAX_EVENTS
    )
    attempts: list[AttemptRow] = []
    for job in jobs:
        events += events_of(
            reader, "job", job.job_id, team_id=team_id, kinds=RUN_KINDS, limit=MAX_EVENTS
        )
        attempts += load_attempts(reader, "job = ? ORDER BY number", (job.id,))
    told = sorted((_fact(row) for row in events), key=lambda event: event.id)
    known = [_attempt(row) for row in attempts]
    metrics = {one.name: one for one in load_metrics(reader, head.id)}
    rates = [one for name, one in metrics.items() if LEARNING_RATE.search(name)]
    return RunFacts(
        run_id=head.run_id,
        name=head.name,
        user=head.user,
        status=head.status,
        start_ms=head.start_ms,
        end_ms=head.end_ms,
        job_id=jobs[0].job_id if jobs else "",
        params=head.params,
        commit=head.tags.get(COMMIT_TAG, ""),
        diff=head.tags.get(DIFF_TAG, ""),
        events=told,
        around=_around(reader, team_id, told, known),
        attempts=known,
        curves=_charts(
            reader, head.id, [metrics[name] for name in chosen_metrics(metrics)], BUCKETS, None
        ),
        rates=_charts(reader, head.id, rates[:MAX_RATES], BUCKETS, None) if known[1:] else [],
        parents=_parents(reader, principal, head),
    )


def _fact(row: EventRow) -> EventFact:
    data = msgspec.json.decode(row.data)
    return EventFact(row.id, row.time_ms, row.actor, row.kind, row.subject, row.subject_id, data)


def _attempt(row: AttemptRow) -> AttemptFact:
    return AttemptFact(
        number=row.number,
        nodes=tuple(row.where.nodes),
        admitted_ms=row.admitted_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        resume_step=row.resume_step,
        step=row.step,
        cause=row.cause,
        sentence=row.sentence,
        error_line=row.error_line,
        environment=msgspec.json.decode(row.environment),
    )


def _around(
    reader: ReadConnection, team_id: int, own: Sequence[EventFact], attempts: Sequence[AttemptFact]
) -> list[EventFact]:
    """Return what happened to the attempts' nodes, and leases on them, while they were there."""
    if not attempts or not own:
        return []
    ids = (own[0].id, first_id_at(reader, _end(attempts)))
    nodes = list(dict.fromkeys(node for one in attempts for node in one.nodes))[:MAX_NODES]
    rows: list[EventRow] = []
    for node in nodes:
        rows += events_of(
            reader, "node", node, team_id=team_id, kinds=_NODE_KINDS, ids=ids, limit=200
        )
    found = [fact for fact in map(_fact, rows) if _held(attempts, fact, [fact.subject_id])]
    leases = events_between(
        reader, ids, team_id=team_id, kinds=_LEASE_KINDS, subject="lease", limit=500
    )
    found += [fact for fact in map(_fact, leases) if _held(attempts, fact, fact.words("nodes"))]
    return sorted(found, key=lambda event: event.id)


def _end(attempts: Sequence[AttemptFact]) -> int:
    ends = [one.ended_ms for one in attempts]
    known = [end for end in ends if end is not None]
    return 2**62 if len(known) < len(ends) else max(known) + _AFTER_END_MS


def _held(attempts: Iterable[AttemptFact], event: EventFact, nodes: Sequence[str]) -> bool:
    return any(
        one.admitted_ms <= event.time_ms <= (one.ended_ms or 2**62) + _AFTER_END_MS
        and not set(nodes).isdisjoint(one.nodes)
        for one in attempts
    )


def _charts(
    reader: ReadConnection,
    run: int,
    metrics: Sequence[NamedMetric],
    buckets: int,
    span: tuple[int, int] | None,
) -> list[Curve]:
    fresh = history.tails(reader, run, [one.name_id for one in metrics])
    found = []
    for one in metrics:
        chart = history.chart(
            reader, run, one.name_id, fresh[one.name_id], buckets=buckets, span=span
        )
        if chart is not None:
            found.append(
                Curve(
                    metric=one.name,
                    steps=chart.last_step.tolist(),
                    times=chart.last_time.tolist(),
                    values=chart.last.tolist(),
                    least=chart.least.tolist(),
                    most=chart.most.tolist(),
                )
            )
    return found


def _parents(reader: ReadConnection, principal: Principal, head: RunHead) -> list[Parent]:
    found = []
    known = names_of(reader, principal.team_id, [run_id for _, run_id in head.parents])
    for relation, run_id in head.parents:
        if run_id in known:
            other = load_head(reader, principal, run_id)
            found.append(
                Parent(
                    relation=relation,
                    run_id=run_id,
                    name=other.name,
                    params=other.params,
                    commit=other.tags.get(COMMIT_TAG, ""),
                    diff=other.tags.get(DIFF_TAG, ""),
                    environment=_last_environment(reader, principal, run_id),
                )
            )
    return found


def _last_environment(reader: ReadConnection, principal: Principal, run_id: str) -> dict[str, Any]:
    where = "run_uuid = ? AND team_id = ? ORDER BY id DESC LIMIT 1"
    for job in load_jobs(reader, where, (run_id, principal.team_id)):
        for row in load_attempts(reader, "job = ? ORDER BY number DESC LIMIT 1", (job.id,)):
            return dict(_attempt(row).environment)
    return {}


# -- a moment ---------------------------------------------------------------------------------


def load_moment(
    reader: ReadConnection, principal: Principal, run_id: str, *, step: int, metric: str
) -> Moment:
    """Return what is known around a step of a run."""
    head = load_head(reader, principal, run_id)
    facts = _facts(reader, principal, head)
    curve = _curve_of(reader, head, facts, metric)
    at = nearest(curve, step)
    assert at is not None
    time_ms = curve.times[at]
    since, until = window(time_ms, curve.times[0], curve.times[-1])
    ids = (first_id_at(reader, since), first_id_at(reader, until + 1))
    others = events_between(reader, ids, team_id=None, kinds=_NEIGHBOUR_KINDS, limit=MAX_EVENTS)
    logged = events_of(
        reader,
        "run",
        run_id,
        team_id=principal.team_id,
        kinds=("run.logged",),
        ids=ids,
        limit=100,
    )
    return Moment(
        run_id=run_id,
        job_id=facts.job_id,
        metric=curve.metric,
        step=curve.steps[at],
        time_ms=time_ms,
        since_ms=since,
        until_ms=until,
        attempts=facts.attempts,
        events=[*facts.events, *map(_fact, logged)],
        node_events=[event for event in facts.around if event.subject == "node"],
        neighbours=[_seen(row, principal.team_id) for row in others],
        series=_series(reader, head, (since, until)),
    )


def _curve_of(reader: ReadConnection, head: RunHead, facts: RunFacts, metric: str) -> Curve:
    if not metric:
        own = [curve for curve in facts.curves if goal_of(curve.metric) == "lower"]
        if own or facts.curves:
            return (own or list(facts.curves))[0]
    wanted = [one for one in load_metrics(reader, head.id) if one.name == metric or not metric]
    found = _charts(reader, head.id, wanted[:1], BUCKETS, None)
    if not found:
        words = f"run {head.name} has no metric {metric!r}" if metric else "the run has no metric"
        raise InvalidInput(f"{words}; `yard show {head.run_id}` lists its metrics")
    return found[0]


def _seen(row: EventRow, team_id: int) -> EventFact:
    """A neighbour's event; of another team, where it was and nothing else."""
    fact = _fact(row)
    if row.team_id == team_id:
        return fact
    return fact._replace(subject_id="", actor="", data={"nodes": fact.data.get("nodes")})


def _series(
    reader: ReadConnection, head: RunHead, span: tuple[int, int]
) -> dict[str, tuple[list[int], list[float]]]:
    named = [
        one
        for one in load_metrics(reader, head.id)
        if one.name.startswith("system/") or _OTHER.search(one.name)
    ]
    found = {}
    for curve in _charts(reader, head.id, named[:MAX_SERIES], SERIES_BUCKETS, None):
        kept = [
            (time_ms, value)
            for time_ms, value in zip(curve.times, curve.values, strict=True)
            if span[0] <= time_ms <= span[1]
        ]
        if kept:
            found[curve.metric] = ([one[0] for one in kept], [one[1] for one in kept])
    return found


# -- teams ------------------------------------------------------------------------------------


def load_team_events(
    reader: ReadConnection, principal: Principal, since_ms: int, until_ms: int, before: int | None
) -> tuple[list[EventFact], int | None]:
    """Return the latest events of a stretch of time, and where older ones of it begin."""
    last = first_id_at(reader, until_ms)
    ids = (first_id_at(reader, since_ms), last if before is None else min(last, before))
    rows = events_between(
        reader, ids, team_id=principal.team_id, kinds=TEAM_KINDS, limit=MAX_EVENTS
    )
    older = rows[0].id if len(rows) == MAX_EVENTS else None
    return [_fact(row) for row in rows], older


def load_run_names(
    reader: ReadConnection, principal: Principal, events: Iterable[EventFact]
) -> dict[str, str]:
    """Return the names of the runs that events are about."""
    named = {
        event.subject_id if event.subject == "run" else event.text("run_id") for event in events
    }
    return names_of(reader, principal.team_id, named - {""})


def _last_checkpoints(
    reader: ReadConnection, principal: Principal, told: AttemptStory
) -> list[EventFact]:
    """Return the last checkpoints of an attempt that has ended: the next resumes from one."""
    rows = events_of(
        reader,
        "job",
        told.job_id,
        team_id=principal.team_id,
        kinds=("checkpoint.saved",),
        ids=(0, told.ended.id if told.ended is not None else 2**62),
        limit=LAST_CHECKPOINTS,
    )
    return [fact for fact in map(_fact, rows) if fact.attempt == told.number]


def load_digest(
    reader: ReadConnection, principal: Principal, period: Period, now_ms: int
) -> ActivityDigest:
    """Count a team's events of a week or a month."""
    tally = DigestTally(
        principal.team, period, now_ms, lambda told: _last_checkpoints(reader, principal, told)
    )
    ids = (first_id_at(reader, period.since_ms), first_id_at(reader, period.until_ms))
    for page in pages_between(reader, ids, team_id=principal.team_id, kinds=DIGEST_KINDS):
        for row in page:
            if row.kind in COUNTED_KINDS:
                tally.count(row.kind)
            else:
                tally.add(_fact(row))
    digest = tally.done()
    names = names_of(reader, principal.team_id, [note.run_id for note in digest.notes])
    digest.notes = [
        msgspec.structs.replace(note, run_name=names.get(note.run_id, note.run_name))
        for note in digest.notes
    ]
    return digest
