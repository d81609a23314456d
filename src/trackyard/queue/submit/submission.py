"""Submission: a checked wish becomes a job in its queue, with its run. One transaction, but for
large arrays.

Owns what a submission looks up (queue, package, experiment, dependencies) and writes. Knows
neither the engine nor when the job will start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from trackyard.access.principal import Principal
from trackyard.access.secrets import check_names
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.core.ids import EXPERIMENT_ID, JOB_ID, new_job_id, new_name
from trackyard.fleet.nodes import load_nodes, scheduler_nodes
from trackyard.leases.records import find_lease
from trackyard.queue.records import FEW_JOBS, MAX_FOUND, JobRow, find_jobs, load_jobs
from trackyard.queue.shares.settings import QueueSettings
from trackyard.queue.specification import (
    After,
    JobRequest,
    JobSpec,
    check_spec,
    parse_array,
    parse_priority,
)
from trackyard.queue.submit.arrays import SubmissionPlan, begin, make
from trackyard.queue.submit.data_inputs import resolve
from trackyard.queue.submit.gang_shapes import choose, parse_gang
from trackyard.queue.submit.interactive import check_interactive
from trackyard.queue.submit.packages import require_package
from trackyard.queue.submit.queue_rules import (
    check_rules,
    queue_rules,
    with_preemption,
    with_whole_nodes,
)
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import (
    create_experiment,
    find_experiment,
    inner_experiment_id,
    require_active,
)
from trackyard.tracking.names import Names

#: Jobs of a submission that its answer shows.
MAX_SHOWN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionExtras:
    """What another protocol's door adds to a submission."""

    #: puts the door's own words into the checked spec
    spec: Callable[[JobSpec], JobSpec]
    #: writes its own rows, in the transaction that makes the job; raises to refuse it
    record: Callable[[Tx, Principal, JobRow], None]


def acting_for(reader: ReadConnection | Tx, principal: Principal, team: str) -> Principal:
    """Return the caller as one who acts for the team a wish names."""
    if not team or team == principal.team:
        return principal
    if not principal.is_admin:
        raise Denied(
            f"this token acts for team {principal.team}, not for {team}: use a token of that team"
        )
    row = reader.one("SELECT id, default_experiment_id FROM teams WHERE name = ?", (team,))
    if row is None:
        raise NotFound(f"no team named {team!r}; `yard team ls` shows the teams")
    return replace(principal, team_id=row[0], team=team, default_experiment=row[1])


def prepare(
    reader: ReadConnection | Tx,
    principal: Principal,
    wish: JobRequest,
    spec: JobSpec,
    *,
    now_ms: int,
) -> JobSpec:
    """Check what the wish refers to and what its queue allows; resolve dependencies to job ids."""
    check_interactive(wish)
    rules = queue_rules(reader, wish.queue)
    check_names(reader, principal.team_id, spec.secrets)
    spec = with_preemption(spec, rules, wish.queue, wish.preemptible)
    spec = with_whole_nodes(spec, rules)
    if spec.package:
        require_package(reader, principal, spec.package)
    spec = resolve(reader, principal.team_id, spec)
    after = _after(reader, principal, wish)
    lease = _lease(reader, principal, spec.lease)
    spec = msgspec.structs.replace(spec, after=after, lease=lease)
    spec = _with_gang(reader, spec, rules)
    check_rules(
        reader,
        principal,
        spec,
        parse_priority(wish.priority),
        queue=wish.queue,
        team_id=principal.team_id,
        now_ms=now_ms,
        jobs=len(parse_array(wish.array).indices) if wish.array else 1,
    )
    return spec


def _after(reader: ReadConnection | Tx, principal: Principal, wish: JobRequest) -> list[After]:
    """Return the jobs to wait for; an array stands for its members, each of them once."""
    found: dict[tuple[str, str], After] = {}
    for one in dict.fromkeys(wish.after):
        for job in find_jobs(reader, principal, one.job):
            found[job.job_id, one.when] = After(job=job.job_id, when=one.when)
        if len(found) > MAX_FOUND:
            raise InvalidInput(f"after stands for over {MAX_FOUND} jobs: wait for fewer")
    return list(found.values())


def is_long(wish: JobRequest) -> bool:
    """Tell whether a submission looks up or writes more than a few rows."""
    array = parse_array(wish.array) if wish.array else None
    return (array is not None and len(array.indices) > FEW_JOBS) or bool(wish.after)


def _lease(reader: ReadConnection | Tx, principal: Principal, name: str) -> str:
    """Return the id of a lease that is named; the queue says what is wrong with an unknown one."""
    if not name:
        return ""
    try:
        return find_lease(reader, name, principal.team_id).row.lease_id
    except NotFound:
        return name


def _with_gang(reader: ReadConnection | Tx, spec: JobSpec, rules: QueueSettings) -> JobSpec:
    """Let a job that declares its workers, or whose queue does, ask for them as one gang."""
    text = spec.gang
    if not text and not (spec.gpus or spec.memory_bytes or spec.nodes > 1):
        text = rules.gang
    if not text:
        return spec
    gang = parse_gang(text)
    nodes = scheduler_nodes(load_nodes(reader))
    request = choose(gang.workers, gang.workers, gang.ask, nodes, ()).request
    spec = msgspec.structs.replace(
        spec,
        gang=text,
        default_cpus=False,
        default_memory=False,
        own_cpu_milli=spec.cpu_milli,
        nodes=request.nodes,
        gpus=request.gpus,
        gpu_milli=request.gpu_milli,
        # Whichever node the command itself lands on must have room for both.
        cpu_milli=request.cpu_milli + spec.cpu_milli,
        memory_bytes=request.memory_bytes,
    )
    check_spec(spec)
    return spec


def known_submission(reader: ReadConnection | Tx, principal: Principal, key: str) -> list[JobRow]:
    """Return the jobs of a submission that was made before under the same key."""
    if not key:
        return []
    row = reader.one(
        "SELECT job_id FROM submissions WHERE team_id = ? AND key = ?", (principal.team_id, key)
    )
    return [] if row is None else find_jobs(reader, principal, row[0])


def was_submitted(reader: ReadConnection, principal: Principal, key: str) -> bool:
    """Tell whether a submission was made before under the same key."""
    sql = "SELECT 1 FROM submissions WHERE team_id = ? AND key = ?"
    return bool(key) and reader.one(sql, (principal.team_id, key)) is not None


def submit(
    tx: Tx, names: Names, principal: Principal, wish: JobRequest, spec: JobSpec
) -> list[JobRow]:
    """Queue a job, or the first jobs of an array, each with its run; the same key submits once.

    Returns the first of them. What is left of a large array is written by `arrivals`, part by
    part: with this commit all of it is accepted.
    """
    known = known_submission(tx, principal, wish.key)
    if known:
        return known
    spec = prepare(tx, principal, wish, spec, now_ms=tx.now_ms)
    experiment = experiment_of(tx, principal, wish.experiment)
    spec_id = tx.insert(
        "INSERT INTO job_specs (spec) VALUES (?)", (msgspec.json.encode(spec).decode(),)
    )
    base = new_job_id()
    plan = SubmissionPlan(
        base=base,
        name=wish.name or new_name(),
        team_id=principal.team_id,
        user_id=principal.user_id,
        user_name=principal.name,
        spec_id=spec_id,
        queue=wish.queue,
        priority=wish.priority,
        held=wish.hold,
        not_before_ms=wish.not_before_ms,
        submitted_ms=tx.now_ms,
        array=wish.array,
        experiment_id=experiment,
        location=require_active(tx, principal, experiment)[2],
        tags=wish.tags,
    )
    begin(tx, names, principal, plan, spec)
    if wish.key:
        tx.run(
            "INSERT INTO submissions (team_id, key, job_id, created_ms) VALUES (?, ?, ?, ?)",
            (principal.team_id, wish.key, base, tx.now_ms),
        )
    return load_jobs(tx, f"spec_id = ? ORDER BY id LIMIT {MAX_SHOWN}", (spec_id,))


def add_member(
    tx: Tx,
    names: Names,
    principal: Principal,
    wish: JobRequest,
    spec: JobSpec,
    *,
    array: str,
    index: int,
) -> JobRow:
    """Queue one more job of an array that grows job by job, each with a command of its own.

    The wish's `array` gives the cap on how many run at once, as in `0-0%4`.
    """
    spec = prepare(tx, principal, wish, spec, now_ms=tx.now_ms)
    experiment = experiment_of(tx, principal, wish.experiment)
    spec_id = tx.insert(
        "INSERT INTO job_specs (spec) VALUES (?)", (msgspec.json.encode(spec).decode(),)
    )
    plan = SubmissionPlan(
        base=array,
        name=wish.name,
        team_id=principal.team_id,
        user_id=principal.user_id,
        user_name=principal.name,
        spec_id=spec_id,
        queue=wish.queue,
        priority=wish.priority,
        held=wish.hold,
        not_before_ms=wish.not_before_ms,
        submitted_ms=tx.now_ms,
        array=wish.array,
        experiment_id=experiment,
        location=require_active(tx, principal, experiment)[2],
        tags=wish.tags,
    )
    make(tx, names, principal, plan, spec=spec, indices=[index])
    return load_jobs(tx, "job_id = ?", (f"{array}-{index}",))[0]


def experiment_of(tx: Tx, principal: Principal, wanted: str) -> int:
    """Return the experiment of a name or id, made if nobody has that name."""
    if not wanted:
        return principal.default_experiment
    found = find_experiment(tx, principal.team_id, name=wanted)
    if found is None and EXPERIMENT_ID.match(wanted):
        inner = inner_experiment_id(principal, wanted)
        found = find_experiment(tx, principal.team_id, inner=inner)
    if found is not None:
        return found
    return create_experiment(tx, principal, name=wanted, artifact_location=None, tags=[])


def siblings(reader: ReadConnection | Tx, job: JobRow) -> list[JobRow]:
    """Return the first jobs of the submission that a job belongs to."""
    if not job.array_id:
        return [job]
    return load_jobs(reader, f"array_id = ? ORDER BY id LIMIT {MAX_SHOWN}", (job.array_id,))


def is_array_id(text: str, jobs: list[JobRow]) -> bool:
    """Tell whether a word named a whole array."""
    return bool(jobs) and bool(JOB_ID.match(text)) and jobs[0].array_id == text
