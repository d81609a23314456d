"""One look at what happened: events, latest points, logs, waits and signs of life.

Owns which facts each kind of rule is given, within bounds a pass. Reads; changes nothing.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from trackyard.core.alerts import METRIC_KINDS, ConditionKind
from trackyard.core.log_patterns import MAX_LINE, SHOWN, compiled
from trackyard.notify.alerts import records
from trackyard.notify.alerts.evaluate import (
    EventObservation,
    LogMatch,
    MetricObservation,
    NoPoint,
    ProgressMark,
    RuleMemory,
    SubjectEnded,
    WaitingObservation,
)
from trackyard.notify.alerts.records import IncidentSubject
from trackyard.notify.alerts.world import (
    AlertFindings,
    AlertState,
    MetricWatch,
    RulesInForce,
    judge,
)
from trackyard.queue import watched
from trackyard.queue.attempts import logs
from trackyard.store.database import ReadConnection
from trackyard.tracking import watched as runs

#: Events of one pass; bytes of one log and of all logs that it searches.
EVENTS, LOG_BYTES, ALL_LOG_BYTES = 2000, 256 * 1024, 4 * 1024 * 1024
#: How far back a log is searched that a rule sees for the first time.
LOOK_BACK = 1024 * 1024
#: A run that began this long before a rule was made with it.
SAME_MS = 5000
_ENDS = frozenset(("job.succeeded", "job.failed", "job.stopped"))
_BEGINS = frozenset(("job.submitted", "job.running", "job.requeued"))
_RULES = frozenset(("alert.added", "alert.removed", "alert.changed"))
#: Events that the loop is woken by.
KINDS_OF_INTEREST = (
    "alert.",
    "attempt.",
    "budget.",
    "job.",
    "lease.",
    "node.",
    "note.mentioned",
    "run.created",
    "run.finished",
)
_EVENT_RULES = (
    ConditionKind.STATE,
    ConditionKind.STALL,
    ConditionKind.NAN,
    ConditionKind.WAIT,
    ConditionKind.NODE,
    ConditionKind.LEASE,
    ConditionKind.BUDGET,
)


def open_world(reader: ReadConnection) -> AlertState:
    """Load what the loop has to know before its first pass."""
    row = reader.one("SELECT after_event FROM alert_cursor WHERE name = 'rules'")
    if row is None:
        newest = reader.one("SELECT max(id) FROM events")
        cursor = int(newest[0] or 0) if newest else 0
    else:
        cursor = int(row[0])
    running = {run.uuid: run for run in runs.running_runs(reader)}
    world = AlertState(
        cursor=cursor,
        rules=RulesInForce.of(records.load_rules(reader)),
        memories=records.load_memories(reader),
        runs=running,
        subjects={},
    )
    _name_subjects(reader, world, list(running.values()))
    return world


def look(reader: ReadConnection, world: AlertState, now_ms: int, *, full: bool) -> AlertFindings:
    """Look at what is new, and, where `full`, at points, logs and waits as well."""
    rows = reader.all(
        "SELECT id, time_ms, team_id, kind, subject, subject_id, actor, data FROM events"
        f" WHERE id > ? ORDER BY id LIMIT {EVENTS}",
        (world.cursor,),
    )
    cursor = rows[-1][0] if rows else world.cursor
    found = AlertFindings(cursor=cursor, now_ms=now_ms, is_more=len(rows) == EVENTS)
    told = [row for row in rows if row[3].startswith(KINDS_OF_INTEREST)]
    if any(row[3] in _RULES for row in told):
        found.rules_changed = True
        world.rules = RulesInForce.of(records.load_rules(reader))
        world.watches = None
    _take_new_rules(reader, world, found, told)
    _take_new_runs(reader, world, found, told)
    if full or found.runs_over:
        _points(reader, world, found, full=full)
    attempts = [
        f"{row[5]}-a{msgspec.json.decode(row[7]).get('attempt')}"
        for row in told
        if row[3] in ("attempt.started", "attempt.ended", "attempt.lost")
    ]
    if ConditionKind.LOG in world.rules.kinds and (full or attempts):
        _logs(reader, world, found, attempts)
    if full and ConditionKind.WAIT in world.rules.kinds:
        _waits(reader, world, found)
    if full and any(one.seconds for one in world.rules.conditions(ConditionKind.STALL)):
        _signs(reader, world, found)
    _events(reader, world, found, told)
    return found


# -- what begins and ends -------------------------------------------------------------------------


def _take_new_rules(
    reader: ReadConnection, world: AlertState, found: AlertFindings, told: list[Any]
) -> None:
    """Make rules of the alerts that jobs were submitted with."""
    asked = {row[5]: row[1] for row in told if row[3] == "job.submitted" and '"alerts"' in row[7]}
    for job, texts in watched.alerts_of(reader, list(asked)) if asked else ():
        scope = job.array_id or job.job_id
        known = {rule.text for rule in world.rules.by_scope.get(scope, ())}
        for text in texts:
            rule = records.new_rule(
                text,
                team_id=job.team_id,
                actor=job.user_name,
                now_ms=asked[job.job_id],
                scope=scope,
            )
            if rule.text not in known:
                known.add(rule.text)
                world.rules.add(rule)
                world.watches = None
                found.new_rules.append(rule)


def _take_new_runs(
    reader: ReadConnection, world: AlertState, found: AlertFindings, told: list[Any]
) -> None:
    """Keep up with which runs there are; those of jobs are told of by the jobs' events."""
    changed, over = [], set()
    for row in told:
        kind = row[3]
        if kind == "run.created":
            changed.append(row[5])
        elif kind == "run.finished":
            over.add(row[5])
        elif kind in _BEGINS or kind in _ENDS:
            uuid = str(msgspec.json.decode(row[7]).get("run_id") or "")
            changed.append(uuid)
            if kind in _ENDS:
                over.add(uuid)
    fresh = runs.runs_by_uuid(reader, sorted(set(changed)))
    world.runs.update((run.uuid, run) for run in fresh)
    if fresh:
        world.watches = None
    _name_subjects(reader, world, fresh)
    found.runs_over = over & set(world.runs)


def _name_subjects(
    reader: ReadConnection, world: AlertState, fresh: list[runs.WatchedRun]
) -> None:
    jobs = {
        one.run_uuid: one for one in watched.jobs_by(reader, "run_uuid", [r.uuid for r in fresh])
    }
    for run in fresh:
        job = jobs.get(run.uuid)
        world.subjects[run.uuid] = records.of_run(run) if job is None else records.of_job(job)


# -- facts of each kind ---------------------------------------------------------------------------


def _points(
    reader: ReadConnection, world: AlertState, found: AlertFindings, *, full: bool
) -> None:
    """Give rules on metrics the latest points of the runs they watch."""
    if not world.rules.kinds & METRIC_KINDS:
        return
    watches = _watches(reader, world)
    if not full:
        watches = [one for one in watches if one.run.uuid in found.runs_over]
    every = sorted({number for watch in watches for number in watch.name_ids})
    wanted = sorted({watch.run.id for watch in watches})
    points = {(one.run, one.name_id): one for one in runs.latest_points(reader, wanted, every)}
    for watch in watches:
        known = [points.get((watch.run.id, number)) for number in watch.name_ids]
        if known == watch.seen and not _is_timed(world, watch):
            continue  # judged already, and time alone changes nothing
        watch.seen = known
        latest = [one for one in known if one is not None]
        fact: MetricObservation | NoPoint = NoPoint(watch.run.start_ms)
        if latest:
            one = next((it for it in latest if math.isnan(it.value)), latest[0])
            fact = MetricObservation(one.step, one.time_ms, one.value, one.least, one.most)
        judge(world, found, watch.rule, watch.subject, fact, first=watch.first)


def _watches(reader: ReadConnection, world: AlertState) -> list[MetricWatch]:
    """Return which rule looks at which metrics of which run; made anew when that changed."""
    if world.watches is None:
        names = {one.metric for kind in METRIC_KINDS for one in world.rules.conditions(kind)}
        world.metrics = {
            name: [number] for name, number in runs.metric_ids(reader, names - {""}).items()
        }
        world.watches = [
            MetricWatch(
                rule,
                world.subjects[uuid],
                run,
                RuleMemory(counts_past=run.start_ms >= rule.created_ms - SAME_MS),
            )
            for uuid, run in world.runs.items()
            for rule in world.rules.about(world.subjects[uuid], *METRIC_KINDS)
            if rule.condition.kind is not ConditionKind.ABSENCE or run.status == "RUNNING"
        ]
    missing = {one.rule.condition.metric for one in world.watches} - world.metrics.keys()
    if "" in missing or "" in world.metrics:
        # Any new metric may be a loss.
        world.metrics[""] = runs.loss_ids(reader)
    found = runs.metric_ids(reader, missing - {""})
    world.metrics.update((name, [number]) for name, number in found.items())
    for watch in world.watches:
        watch.name_ids = world.metrics.get(watch.rule.condition.metric, [])
    return world.watches


def _is_timed(world: AlertState, watch: MetricWatch) -> bool:
    """Tell whether a rule may come to hold, or cease to, without a new point."""
    kind = watch.rule.condition.kind
    if kind in (ConditionKind.ABSENCE, ConditionKind.CHANGE):
        return True
    memory = world.memories.get((watch.rule.id, watch.subject.id))
    return memory is not None and memory.bad_since_ms is not None and not memory.is_firing


def _logs(
    reader: ReadConnection, world: AlertState, found: AlertFindings, attempts: list[str]
) -> None:
    """Search what logs grew by."""
    left = ALL_LOG_BYTES
    tracked = {attempt_id for attempt_id, _ in world.logs}
    live = watched.live_logs(reader, {*attempts, *tracked})
    by_job = {one.job_id: one for one in watched.jobs_by(reader, "job_id", _unique(live))}
    found.logs = {}
    for log in live:
        place = (log.attempt_id, log.member)
        seen = world.logs.get(place, max(0, log.end - LOOK_BACK))
        subject = records.of_job(by_job[log.job_id])
        rules = [
            rule
            for rule in world.rules.about(subject, ConditionKind.LOG)
            if not world.memories.get((rule.id, log.attempt_id), RuleMemory()).is_firing
        ]
        if not rules or log.end <= seen or left <= 0:
            if not log.is_whole or (rules and log.end > seen):
                found.logs[place] = seen if rules else log.end
            continue
        data = logs.read(reader, log.attempt, log.member, seen, min(LOG_BYTES, left))
        left -= len(data)
        # A line that is not whole yet is searched with its end.
        whole = data.rfind(b"\n") + 1 or len(data)
        found.logs[place] = seen + whole
        text = data[:whole].decode("utf-8", "replace")
        for rule in rules:
            line = _find(rule.condition.pattern, text)
            if line is not None:
                judge(world, found, rule, subject, LogMatch(line), key=log.attempt_id)


def _unique(live: list[watched.LiveLog]) -> list[str]:
    return list(dict.fromkeys(one.job_id for one in live))


def _find(pattern: str, text: str) -> str | None:
    """Return the line of the first match."""
    match = compiled(pattern).search(text)
    if match is None:
        return None
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.start())
    line = text[begin : end if end >= 0 else len(text)]
    at = max(0, match.start() - begin - MAX_LINE)
    return line[at:].strip()[:SHOWN]


def _waits(reader: ReadConnection, world: AlertState, found: AlertFindings) -> None:
    for job, since_ms in watched.waiting_since(reader):
        subject = records.of_job(job)
        for rule in world.rules.about(subject, ConditionKind.WAIT):
            judge(world, found, rule, subject, WaitingObservation(since_ms))


def _signs(reader: ReadConnection, world: AlertState, found: AlertFindings) -> None:
    running = watched.running_marks(reader)
    logged = runs.last_logged(reader, [job.run_uuid for job, _ in running])
    for job, mark in running:
        subject = records.of_job(job)
        sign = ProgressMark(f"{mark}:{logged.get(job.run_uuid)}", found.now_ms)
        for rule in world.rules.about(subject, ConditionKind.STALL):
            if rule.condition.seconds:
                judge(world, found, rule, subject, sign)


# -- events ---------------------------------------------------------------------------------------


def _events(
    reader: ReadConnection, world: AlertState, found: AlertFindings, told: list[Any]
) -> None:
    job_ids = list(dict.fromkeys(row[5] for row in told if row[4] == "job"))
    jobs = {one.job_id: one for one in watched.jobs_by(reader, "job_id", job_ids)}
    for _, time_ms, team_id, kind, what, subject_id, _, raw in told:
        if kind.startswith("alert."):
            continue
        data = msgspec.json.decode(raw)
        if kind == "note.mentioned":
            _mention(found, team_id, subject_id, data, about=f"{data.get('note')}:{time_ms}")
            continue
        subject = _subject(world, jobs, (what, subject_id, team_id), data)
        if subject is None:
            continue
        for rule in world.rules.about(subject, *_EVENT_RULES):
            if rule.created_ms <= time_ms:
                judge(world, found, rule, subject, EventObservation(kind, data))
        if kind in _ENDS or kind == "run.finished":
            _end(reader, world, found, subject)


def _subject(
    world: AlertState,
    jobs: dict[str, watched.WatchedJob],
    about: tuple[str, str, int | None],
    data: dict[str, Any],
) -> IncidentSubject | None:
    what, subject_id, team_id = about
    if what == "job":
        job = jobs.get(subject_id)
        return None if job is None else records.of_job(job)
    if what == "run":
        subject = world.subjects.get(subject_id)
        # What becomes of a job's run is told by the job's own events.
        return subject if subject is not None and subject.kind == "run" else None
    name = str(data.get("name") or subject_id)
    return IncidentSubject(kind=what, id=subject_id, name=name, team_id=team_id)


def _end(
    reader: ReadConnection, world: AlertState, found: AlertFindings, subject: IncidentSubject
) -> None:
    """End what rules watch of a subject that ended, and the rules that are about it alone."""
    remembered = world.by_subject.get(subject.id, set()) | {
        rule_id for rule_id, key in found.memories if key == subject.id
    }
    for rule_id in sorted(remembered):
        rule = world.rules.by_id.get(rule_id)
        if rule is not None:
            judge(world, found, rule, subject, SubjectEnded(), ended=True)
        found.memories[rule_id, subject.id] = None
    found.runs_over.add(subject.run_uuid)
    for scope in subject.scopes:
        is_whole = scope != subject.array_id or not watched.has_open_jobs(reader, scope)
        if is_whole and scope in world.rules.by_scope:
            found.ended.append(scope)


def _mention(
    found: AlertFindings, team_id: int | None, user: str, data: dict[str, Any], *, about: str
) -> None:
    if team_id is None:
        return
    run = str(data.get("run_id") or "")
    link = f"/app/runs/{run}?tab=logbook" if run else "/app/logbook"
    title = str(data.get("sentence") or "You were mentioned in a note.")
    found.mentions.append((team_id, [user], title, link, about))
