"""Jobs as the API shows them. Owns the shapes and how rows become them; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import msgspec

from trackyard.core.job import AttemptState, JobState, PriorityClass
from trackyard.core.reasons import Reason
from trackyard.core.resources import WHOLE
from trackyard.queue.attempts.trials import TrialView
from trackyard.queue.records import (
    AttemptRow,
    JobRow,
    decode_placement,
    decode_spec,
    load_attempts,
    load_specs,
)
from trackyard.queue.specification import HIDDEN, JobSpec, RaySpec
from trackyard.store.database import ReadConnection
from trackyard.tracking.watched import experiments_of

_PRIORITIES = {level.value: level.name.lower() for level in PriorityClass}
#: Names of variables whose values are kept from the team's other members.


class ReasonView(msgspec.Struct):
    """Why a job waits: code, tier, sentence and remedy, with the numbers behind them."""

    code: str
    tier: str
    sentence: str
    remedy: str
    needed: float | None = None
    free: float | None = None
    limit: float | None = None
    #: what needed, free and limit count: gpus, nodes, jobs or seconds
    unit: str = "gpus"
    holders: list[str] = []
    holder_count: int = 0
    until_ms: int | None = None
    ahead: int = 0


class EtaView(msgspec.Struct):
    """When a waiting job is foreseen to start."""

    #: most likely moment, and the range that eight of ten such forecasts fall into
    start_ms: int | None = None
    earliest_ms: int | None = None
    latest_ms: int | None = None
    #: 0 (a guess) to 1
    confidence: float = 0.0


class GpuHeld(msgspec.Struct):
    """GPUs of one node that an attempt holds."""

    node: str
    gpus: list[int]
    #: share of each GPU, 1 for whole ones
    share: float
    cpus: float
    memory_bytes: int


class AttemptView(msgspec.Struct):
    """One execution of a job."""

    attempt_id: str
    number: int
    #: starting, running, stopping, succeeded, failed, stopped, preempted or lost
    state: str
    cause: str | None
    sentence: str | None
    exit_code: int | None
    signal: int | None
    error_line: str | None
    saved: bool
    nodes: list[str]
    placement: list[GpuHeld]
    admitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    seen_ms: int | None
    ranks: int
    resume_step: int | None
    step: int | None
    #: steps that the next attempt did again, from the checkpoint it went on from
    lost_steps: int | None
    stalled: bool
    loss_nan: bool
    peak_memory_bytes: int | None
    gpu_seconds: float
    log_bytes: list[int]
    log_lost_bytes: int
    #: when its log was removed by age
    log_removed_ms: int | None
    environment: dict[str, Any]
    notes: list[str]


class CheckpointView(msgspec.Struct):
    """A complete checkpoint."""

    name: str
    step: int
    attempt: int
    size_bytes: int
    created_ms: int


class JobView(msgspec.Struct):
    """A job in a list."""

    job_id: str
    name: str
    state: str
    team: str
    user: str
    queue: str
    priority: str
    command: str
    gpus: float
    gpu_types: list[str]
    nodes: int
    cpus: float
    memory_bytes: int
    run_id: str
    experiment_id: str
    array_id: str
    array_index: int | None
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    attempt: int
    stopping: bool
    held: bool
    stalled: bool
    #: nodes it holds now
    on: list[str]
    step: int | None
    cause: str | None
    sentence: str | None
    time_limit_seconds: float | None
    preemptible: bool
    #: of a job that failed, the last line of its log that looks like an error
    error_line: str | None = None
    #: of a job that is stopping for another, or waits after that: the other's id
    made_room_for: str = ""
    #: place in the line, 1 is next; null unless queued
    position: int | None = None
    #: dominant reason, null unless queued
    reason: ReasonView | None = None
    #: when it is foreseen to start, where a list was asked for that and it is known
    eta: EtaView | None = None
    #: of a claim, the running job that asked for these nodes
    parent: str = ""
    #: how its owner reaches into it: `terminal`, `app` or `notebook`; empty: not at all
    interactive: str = ""
    #: of another team: no more than its size and its times are told
    is_foreign: bool = False


def outline(view: JobView) -> JobView:
    """Return what people of other teams see of a job: its size, its team and its times."""
    return msgspec.structs.replace(
        view,
        name="",
        user="",
        command="",
        run_id="",
        experiment_id="",
        array_id="",
        array_index=None,
        step=None,
        sentence=None,
        error_line=None,
        made_room_for="",
        reason=None,
        parent="",
        interactive="",
        is_foreign=True,
    )


class JobList(msgspec.Struct):
    """Jobs, newest first, and the cursor to older ones."""

    jobs: list[JobView]
    #: how many match per state, over all pages
    counts: dict[str, int]
    next: str | None = None


class ClaimView(msgspec.Struct):
    """Nodes that a running job asked for after it had started."""

    #: the job by which the demand stands in the queue
    job_id: str
    attempt: int
    #: waiting, granted or released
    state: str
    #: how it came about: the job asked (gate) or was seen to take it (watch)
    source: str
    #: as in 2x1gpu,8cpu
    demand: str
    nodes: list[str]
    gpus: float
    asked_ms: int
    granted_ms: int | None
    released_ms: int | None
    gpu_seconds: float


class SmallerRequestView(msgspec.Struct):
    """A lesser request that would start at once."""

    gpus: float
    nodes: int
    gpu_types: list[str]
    time_limit_seconds: float | None
    sentence: str


class JobDetail(msgspec.Struct):
    """A job with all that is known of it."""

    job: JobView
    spec: dict[str, Any]
    attempts: list[AttemptView]
    checkpoints: list[CheckpointView]
    reasons: list[ReasonView]
    eta: EtaView | None
    position: int | None
    waiting: int
    #: in line, before the first attempt and between attempts
    waited_ms: int
    #: from the first start to the end, waits between attempts included
    wall_ms: int
    gpu_seconds: float
    waits_for: list[str]
    version: int
    #: lesser requests that would start now, where they were asked for
    smaller: list[SmallerRequestView] = []
    claims: list[ClaimView] = []
    #: what mends the failure of its last attempt, where that is known
    hint: str | None = None
    #: of a hyperparameter search, the trials that its latest attempt told of
    trials: list[TrialView] = []


@lru_cache(maxsize=4096)
def reason_view(reason: Reason) -> ReasonView:
    """Say a reason as the API does; thousands of jobs may share one."""
    return ReasonView(
        code=reason.code.value,
        tier=reason.tier.value,
        sentence=reason.sentence,
        remedy=reason.remedy,
        needed=reason.needed,
        free=reason.free,
        limit=reason.limit,
        unit=reason.unit,
        holders=list(reason.holders[:10]),
        holder_count=max(reason.holder_count, len(reason.holders)),
        until_ms=None if reason.until is None else int(reason.until * 1000),
        ahead=reason.ahead,
    )


def load_waited_ms(
    reader: ReadConnection, job: JobRow, attempts: Sequence[AttemptView], now_ms: int
) -> int:
    """Return how long a job has stood in line, before its first attempt and between attempts."""
    again = reader.all(
        "SELECT time_ms, data FROM events WHERE subject = 'job' AND subject_id = ?"
        " AND kind = 'job.requeued' ORDER BY id",
        (job.job_id,),
    )
    waits = [(job.submitted_ms, 1)]
    waits += [(since, msgspec.json.decode(data)["attempt"] + 1) for since, data in again]
    ends = {one.number: one.admitted_ms for one in attempts}
    left = job.ended_ms or now_ms
    return sum(max(0, ends.get(number, left) - since) for since, number in waits)


def spec_view(spec: JobSpec) -> dict[str, Any]:
    """Show what a job was submitted with; values of variables are told to the job alone."""
    shown: dict[str, Any] = msgspec.to_builtins(spec)
    shown.pop("sealed", None)
    if "env" in shown:
        shown["env"] = without_values(spec.env)
    if spec.ray is not None:
        shown["ray"]["runtime_env"] = shown_environment(spec.ray)
    return shown


def without_values(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables by name: any of them may hold a secret."""
    return dict.fromkeys(variables, HIDDEN)


def shown_environment(ray: RaySpec) -> dict[str, Any]:
    """Return a Ray client's runtime environment as others may see it."""
    shown = dict(ray.runtime_env)
    if isinstance(shown.get("env_vars"), dict):
        shown["env_vars"] = without_values(shown["env_vars"])
    return shown


def attempt_word(state: str) -> str:
    """Say an attempt's state as the API does."""
    return "stopped" if state == AttemptState.CANCELLED else state


class SpecFacts(msgspec.Struct):
    """What a spec says in the words of a list, worked out once for all jobs that share it."""

    spec: JobSpec
    command: str
    gpus: float


class JobReferences(msgspec.Struct):
    """What job rows refer to, loaded once for a page of them."""

    specs: dict[int, SpecFacts]
    teams: dict[int, str]
    experiments: dict[str, str]
    live: dict[int, AttemptRow]
    #: of claims, the id and the run of the job that asked
    parents: dict[int, tuple[str, str]]
    #: of the latest attempt: the line of its error, and whom it made room for
    ends: dict[int, tuple[str | None, str]]


def load_facts(reader: ReadConnection, rows: Sequence[JobRow]) -> JobReferences:
    """Load what a page of jobs refers to, in a few queries whatever their number."""
    specs = {
        spec_id: SpecFacts(spec, spec.line[:1000], spec.request.total_gpus)
        for spec_id, spec in load_specs(reader, (row.spec_id for row in rows)).items()
    }
    teams, defaults = {}, {}
    for team_id, name, default in reader.all("SELECT id, name, default_experiment_id FROM teams"):
        teams[team_id], defaults[team_id] = name, default
    experiments = {
        uuid: "0" if experiment == defaults.get(team_id) else str(experiment)
        for uuid, (experiment, team_id) in experiments_of(
            reader, [row.run_uuid for row in rows]
        ).items()
    }
    live = {
        attempt.job: attempt
        for attempt in load_attempts(reader, "state IN ('starting', 'running', 'stopping')")
    }
    return JobReferences(
        specs, teams, experiments, live, _parents(reader, rows), _ends(reader, rows)
    )


def _ends(reader: ReadConnection, rows: Sequence[JobRow]) -> dict[int, tuple[str | None, str]]:
    tried = {row.id: row.attempt for row in rows if row.attempt}
    found: dict[int, tuple[str | None, str]] = {}
    inner = list(tried)
    for at in range(0, len(inner), 500):
        part = inner[at : at + 500]
        marks = ",".join("?" * len(part))
        for job, number, cause, line, stops_for in reader.all(
            "SELECT job, number, coalesce(cause, stop_reason), error_line, stops_for FROM attempts"
            f" WHERE job IN ({marks})",
            part,
        ):
            if number == tried[job]:
                found[job] = (line, stops_for or "" if cause == "preempted" else "")
    return found


def _parents(reader: ReadConnection, rows: Sequence[JobRow]) -> dict[int, tuple[str, str]]:
    claims = [row.id for row in rows if not row.run_uuid]
    found: dict[int, tuple[str, str]] = {}
    for at in range(0, len(claims), 500):
        part = claims[at : at + 500]
        marks = ",".join("?" * len(part))
        for inner, job_id, run_uuid in reader.all(
            "SELECT c.job, j.job_id, j.run_uuid FROM claims c JOIN attempts a ON a.id = c.attempt"
            f" JOIN jobs j ON j.id = a.job WHERE c.job IN ({marks})",
            part,
        ):
            found[inner] = (job_id, run_uuid)
    return found


def job_view(row: JobRow, facts: JobReferences) -> JobView:
    """Show a job."""
    known = facts.specs[row.spec_id]
    spec = known.spec
    live = facts.live.get(row.id)
    parent, run_id = facts.parents.get(row.id, ("", row.run_uuid))
    error_line, made_room_for = facts.ends.get(row.id, (None, ""))
    return JobView(
        job_id=row.job_id,
        name=row.name,
        state=row.shown,
        team=facts.teams.get(row.team_id, ""),
        user=row.user_name,
        queue=row.queue,
        priority=_PRIORITIES[row.priority],
        command=known.command,
        gpus=known.gpus,
        gpu_types=spec.gpu_types,
        nodes=spec.nodes,
        cpus=spec.cpu_milli / WHOLE,
        memory_bytes=spec.memory_bytes,
        run_id=run_id,
        experiment_id=facts.experiments.get(row.run_uuid, ""),
        array_id=row.array_id,
        array_index=row.array_index,
        submitted_ms=row.submitted_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        attempt=row.attempt,
        stopping=row.state == JobState.STOPPING,
        held=bool(row.held),
        stalled=bool(live and live.stalled),
        on=list(live.where.nodes) if live else [],
        step=live.step if live else None,
        cause=row.cause,
        sentence=row.sentence,
        time_limit_seconds=spec.time_limit_seconds,
        preemptible=spec.preemptible,
        error_line=error_line if row.shown == "failed" else None,
        made_room_for=made_room_for if row.shown in ("queued", "running") else "",
        parent=parent,
        interactive=spec.interactive.kind if spec.interactive else "",
    )


def load_claims(reader: ReadConnection, job: JobRow, now_ms: int) -> list[ClaimView]:
    """Show what a job asked for after it had started, the first demand first."""
    rows = reader.all(
        "SELECT j.job_id, p.number, c.source, c.released_ms, s.spec, j.state, a.placement,"
        " a.admitted_ms, a.ended_ms, j.not_before_ms FROM claims c"
        " JOIN attempts p ON p.id = c.attempt JOIN jobs j ON j.id = c.job"
        " JOIN job_specs s ON s.id = j.spec_id"
        " LEFT JOIN attempts a ON a.job = j.id WHERE p.job = ? ORDER BY c.job",
        (job.id,),
    )
    return [_claim_view(row, now_ms) for row in rows]


def _claim_view(row: Sequence[Any], now_ms: int) -> ClaimView:
    placement = None if row[6] is None else decode_placement(row[6])
    gpus = 0.0 if placement is None else placement.gpu_milli_total / WHOLE
    held_ms = 0 if row[7] is None else (row[8] or now_ms) - row[7]
    state = "released" if row[3] is not None else "granted" if row[6] is not None else "waiting"
    return ClaimView(
        job_id=row[0],
        attempt=row[1],
        state=state,
        source=row[2],
        demand=decode_spec(row[4]).command[0],
        nodes=[] if placement is None else list(placement.nodes),
        gpus=gpus,
        asked_ms=row[9],
        granted_ms=row[7],
        released_ms=row[3],
        gpu_seconds=round(gpus * max(0, held_ms) / 1000, 3),
    )


def load_attempt_views(reader: ReadConnection, job: JobRow, now_ms: int) -> list[AttemptView]:
    """Show every attempt of a job, the first one first."""
    ends: dict[int, list[tuple[int, int]]] = {}
    rows = load_attempts(reader, "job = ? ORDER BY number", (job.id,))
    for inner, end, lost in reader.all(
        "SELECT m.attempt, m.log_end, m.log_lost FROM attempt_members m"
        " JOIN attempts a ON a.id = m.attempt WHERE a.job = ? ORDER BY m.member",
        (job.id,),
    ):
        ends.setdefault(inner, []).append((end, lost))
    return [
        _attempt_view(row, ends.get(row.id, []), now_ms, lost_steps=_lost_steps(row, following))
        for row, following in zip_longest(rows, rows[1:])
    ]


def _lost_steps(row: AttemptRow, following: AttemptRow | None) -> int | None:
    if following is None or row.step is None:
        return None
    return max(0, row.step - (following.resume_step or 0))


def _attempt_view(
    row: AttemptRow, ends: list[tuple[int, int]], now_ms: int, *, lost_steps: int | None
) -> AttemptView:
    placement = row.where
    held_ms = (row.ended_ms or now_ms) - row.admitted_ms
    return AttemptView(
        attempt_id=row.attempt_id,
        number=row.number,
        state=attempt_word(row.state),
        cause=row.cause,
        sentence=row.sentence,
        exit_code=row.exit_code,
        signal=row.signal,
        error_line=row.error_line,
        saved=bool(row.saved),
        nodes=list(placement.nodes),
        placement=[
            GpuHeld(
                node=share.node,
                gpus=list(share.gpus),
                share=share.gpu_milli / WHOLE,
                cpus=share.cpu_milli / WHOLE,
                memory_bytes=share.memory_bytes,
            )
            for share in placement.shares
        ],
        admitted_ms=row.admitted_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        seen_ms=row.seen_ms,
        ranks=row.members,
        resume_step=row.resume_step,
        step=row.step,
        lost_steps=lost_steps,
        stalled=bool(row.stalled),
        loss_nan=bool(row.nan_seen),
        peak_memory_bytes=row.peak_memory_bytes,
        gpu_seconds=round(placement.gpu_milli_total / WHOLE * max(0, held_ms) / 1000, 3),
        log_bytes=[end for end, _ in ends],
        log_lost_bytes=sum(lost for _, lost in ends),
        log_removed_ms=row.log_pruned_ms,
        environment=msgspec.json.decode(row.environment),
        notes=msgspec.json.decode(row.notes),
    )


def load_checkpoints(reader: ReadConnection, job: JobRow) -> list[CheckpointView]:
    """Show a job's checkpoints, the newest first."""
    rows = reader.all(
        "SELECT name, step, attempt, size_bytes, created_ms FROM checkpoints WHERE job = ?"
        " ORDER BY id DESC LIMIT 1000",
        (job.id,),
    )
    return [CheckpointView(*row) for row in rows]
