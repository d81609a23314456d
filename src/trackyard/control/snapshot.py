"""The queue as one snapshot: rows of the database in the scheduler's own words.

Owns what is remembered between passes: a job whose row has not changed is not read again, so a
pass over ten thousand waiting jobs reads two numbers of each. Decides nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from trackyard.control.foreign import foreign_jobs
from trackyard.control.past_stops import NONE, PastStops, owed, past_stops, with_stops
from trackyard.core.job import Dependency, DependsOn, Job, JobState, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.node import Node
from trackyard.core.ports import ExitCause
from trackyard.core.resources import WHOLE, Placement, ResourceRequest
from trackyard.datasets.uses import load_places
from trackyard.fleet.nodes import load_nodes, match_types, scheduler_nodes
from trackyard.queue.records import (
    HOLDING,
    JOB_COLUMNS,
    AttemptRow,
    JobRow,
    load_attempts,
    load_jobs,
    load_specs,
)
from trackyard.queue.shares.queues import scheduler_queues, scheduler_teams
from trackyard.queue.shares.usage import usages
from trackyard.queue.specification import JobSpec
from trackyard.queue.submit.data_inputs import DataOf, Places, holders
from trackyard.scheduling import ActiveJob, DurationModel, Policy, Snapshot, WaitingJob
from trackyard.scheduling.shares.requests import DefaultRequests
from trackyard.store.database import ReadConnection

LEARN_FROM = 2000
_GRACE_SLACK_SECONDS = 5.0
_PAGE = 400
_LIVE_JOBS = "SELECT job FROM attempts WHERE state IN ('starting', 'running', 'stopping')"


class _Claimant(NamedTuple):
    job: int
    attempt: int
    job_id: str


@dataclass(slots=True)
class _Known:
    version: int
    row: JobRow
    job: Job
    #: ready for the line, where that depends on nothing but the row, the nodes and the queues
    waiting: WaitingJob | None
    #: why the scheduler is not shown this job while it waits; empty: nothing is wrong with it
    fault: str = ""
    #: seconds between its checkpoints, as far as it recorded any when the row was read
    save_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """A snapshot with the rows behind it."""

    snapshot: Snapshot
    waiting: dict[str, JobRow] = field(default_factory=dict)
    #: jobs that hold resources, with their live attempt
    running: dict[str, tuple[JobRow, AttemptRow]] = field(default_factory=dict)
    #: waiting jobs that are not in the snapshot, with what is wrong with each
    aside: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SnapshotLoader:
    """Loads snapshots, remembering what has not changed."""

    policy: Policy
    durations: DurationModel = field(default_factory=DurationModel)
    _known: dict[int, _Known] = field(default_factory=dict)
    _specs: dict[int, JobSpec] = field(default_factory=dict)
    _teams: dict[int, str] = field(default_factory=dict)
    _learned_until: int = 0
    #: one of all equal requests: a pass looks each up by its identity
    _requests: dict[ResourceRequest, ResourceRequest] = field(default_factory=dict)
    #: types of GPUs among the nodes at the last look
    _types: frozenset[str] = frozenset()
    #: what jobs get that state no CPUs or no memory, as of that look
    _defaults: DefaultRequests = field(default_factory=lambda: DefaultRequests((), ()))
    #: jobs that read data sets, and which nodes held data when last looked
    _data: dict[int, DataOf] = field(default_factory=dict)
    _places: Places = field(default_factory=dict)
    #: of open claims, the job that asked and which of its attempts
    _claims: dict[int, _Claimant] = field(default_factory=dict)

    def load(
        self, reader: ReadConnection, now_ms: int, leases: Sequence[Lease] = ()
    ) -> LoadedSnapshot:
        """Read the queue as it stands."""
        self._learn_teams(reader)
        running = self._running(reader)
        nodes = scheduler_nodes(load_nodes(reader), _held_gpus(running))
        queues = scheduler_queues(reader)
        self._learn_nodes(nodes, DefaultRequests(nodes, queues))
        self._claims = _open_claims(reader)
        waiting_rows = self._waiting(reader)
        self._learn_places(reader)
        live = {*(row.id for row in waiting_rows), *(row.id for row, _ in running)}
        for gone in [inner for inner in self._known if inner not in live]:
            del self._known[gone]
            self._data.pop(gone, None)
        aside = {row.job_id: fault for row in waiting_rows if (fault := self._known[row.id].fault)}
        stopped = past_stops(reader)
        waiting = with_stops(
            (
                (row.id, self._known[row.id].waiting or self._as_waiting(row, nodes))
                for row in waiting_rows
                if row.job_id not in aside
            ),
            stopped,
            owed(reader),
        )
        saved, there = _checkpoints(reader), {node.id for node in nodes}
        paces = _save_paces(reader, _LIVE_JOBS)
        holding = [
            self._as_running(row, attempt, saved, paces, stopped.get(row.id, NONE))
            for row, attempt in running
            if all(share.node in there for share in attempt.where.shares)
        ]
        self._learn_durations(reader)
        snapshot = Snapshot(
            now=now_ms / 1000,
            nodes=nodes,
            waiting=waiting,
            running=(*holding, *foreign_jobs(load_nodes(reader), now_ms / 1000)),
            teams=scheduler_teams(reader, self._usage(reader, now_ms, running), now_ms),
            queues=queues,
            leases=tuple(leases),
            outcomes=_outcomes(reader, waiting, live, self._known),
            durations=self.durations,
            policy=self.policy,
        )
        return LoadedSnapshot(
            snapshot=snapshot,
            waiting={row.job_id: row for row in waiting_rows},
            running={row.job_id: (row, attempt) for row, attempt in running},
            aside=aside,
        )

    def as_job(self, row: JobRow, spec: JobSpec, team: str) -> Job:
        """Say a job in the scheduler's words, its GPU types as the user called them."""
        request = self._requests.setdefault(spec.request, spec.request)
        return Job(
            id=row.job_id,
            team=team,
            user=row.user_name,
            queue=row.queue,
            priority=PriorityClass(row.priority),
            request=request,
            default_cpus=spec.default_cpus,
            default_memory=spec.default_memory,
            submitted_at=row.submitted_ms / 1000,
            time_limit_seconds=spec.time_limit_seconds,
            estimate_seconds=spec.estimate_seconds,
            preemptible=spec.preemptible,
            not_before=row.not_before_ms / 1000,
            held=bool(row.held),
            dependencies=tuple(
                Dependency(job=one.job, when=DependsOn(one.when)) for one in spec.after
            ),
            lease=spec.lease,
            array=row.array_id,
            array_cap=row.array_cap,
            part_of=asker.job_id if (asker := self._claims.get(row.id)) else "",
            name=row.name,
            command=shlex.join(spec.command)[:500],
        )

    # -- rows -------------------------------------------------------------------------------

    def _waiting(self, reader: ReadConnection) -> list[JobRow]:
        # Answered by an index alone; sorted here, which is quicker than there.
        marks = sorted(reader.all("SELECT id, version FROM jobs WHERE state = 'queued'"))
        stale = [
            inner
            for inner, version in marks
            if (known := self._known.get(inner)) is None or known.version != version
        ]
        self._refresh(reader, stale)
        rows = (self._known.get(inner) for inner, _ in marks)
        return [known.row for known in rows if known is not None and known.row.state == "queued"]

    def _refresh(self, reader: ReadConnection, stale: Sequence[int]) -> None:
        rows: list[JobRow] = []
        for at in range(0, len(stale), _PAGE):
            part = stale[at : at + _PAGE]
            marks = ",".join("?" * len(part))
            found = reader.all(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id IN ({marks})", part)
            rows.extend(JobRow(*row) for row in found)
        self._remember(reader, rows)

    def _remember(self, reader: ReadConnection, rows: Iterable[JobRow]) -> None:
        rows = list(rows)
        missing = {row.spec_id for row in rows if row.spec_id not in self._specs}
        if missing:
            if len(self._specs) > 20_000:
                self._specs.clear()
                self._requests.clear()
                missing = {row.spec_id for row in rows}
            self._specs.update(load_specs(reader, missing))
        for row in rows:
            spec = self._specs.get(row.spec_id)
            if spec is None:
                spec = self._specs[row.spec_id] = load_specs(reader, [row.spec_id])[row.spec_id]
            self._known[row.id] = self._known_of(row, spec)
        again = [row.id for row in rows if row.attempt and row.state == "queued"]
        for at in range(0, len(again), _PAGE):
            part = again[at : at + _PAGE]
            for inner, seconds in _save_paces(reader, ",".join("?" * len(part)), part).items():
                self._known[inner].save_seconds = seconds

    def _known_of(self, row: JobRow, spec: JobSpec) -> _Known:
        """Say a row in the scheduler's words; one that makes no sense must not stop the others."""
        team = self._teams.get(row.team_id, "")
        try:
            job = self.as_job(row, spec, team)
            fault = job.request.fault()
        except (ValueError, ArithmeticError, TypeError) as wrong:
            job = Job(id=row.job_id, team=team, user=row.user_name, queue=row.queue)
            fault = f"{type(wrong).__name__}: {wrong}"
        if spec.data:
            self._data[row.id] = row.team_id, tuple(one.digest for one in spec.data)
        return _Known(row.version, row, job, None, fault)

    def _running(self, reader: ReadConnection) -> list[tuple[JobRow, AttemptRow]]:
        marks = ",".join("?" * len(HOLDING))
        rows = load_jobs(reader, f"state IN ({marks})", HOLDING)
        fresh = [
            row
            for row in rows
            if (known := self._known.get(row.id)) is None or known.version != row.version
        ]
        self._remember(reader, fresh)
        attempts = {
            attempt.job: attempt
            for attempt in load_attempts(reader, "state IN ('starting', 'running', 'stopping')")
        }
        return [(row, attempts[row.id]) for row in rows if row.id in attempts]

    # -- words ------------------------------------------------------------------------------

    def _learn_nodes(self, nodes: Sequence[Node], defaults: DefaultRequests) -> None:
        """Note which types of GPUs there are and what jobs get by default.

        Where either changed, requests that leave something open may mean something else by now.
        """
        types = frozenset(node.gpu_type for node in nodes if node.gpus)
        if types == self._types and self._defaults.holds_for(defaults):
            return
        self._types, self._defaults = types, defaults
        for known in self._known.values():
            known.waiting = None

    def _learn_places(self, reader: ReadConnection) -> None:
        """Note which nodes hold the data that waiting jobs read; most queues have no such job."""
        if not self._data:
            return
        places = load_places(reader)
        if places != self._places:
            self._places = places
            for inner in self._data:
                if inner in self._known:
                    self._known[inner].waiting = None

    def _near_data(self, row: JobRow, job: Job) -> Job:
        near = holders(self._places, self._data[row.id])
        request = replace(job.request, near=near) if near else job.request
        return replace(job, request=self._requests.setdefault(request, request))

    def _job(self, row: JobRow) -> Job:
        job = self._known[row.id].job
        request = job.request
        if request.gpu_types:
            request = replace(request, gpu_types=match_types(request.gpu_types, self._types))
        if job.default_cpus or job.default_memory:
            request = self._defaults.fill(
                request, row.queue, cpus=job.default_cpus, memory=job.default_memory
            )
        if request is job.request:
            return job
        return replace(job, request=self._requests.setdefault(request, request))

    def _as_waiting(self, row: JobRow, nodes: Sequence[Node]) -> WaitingJob:
        job = self._job(row)
        if row.id in self._data:
            job = self._near_data(row, job)
        avoid = row.avoided if row.avoid != "[]" else []
        waiting = WaitingJob(
            job=job,
            attained_seconds=row.attained_ms / 1000,
            avoid=_elsewhere(job, avoid, nodes) if avoid else (),
            engine_note=row.engine_note,
            save_seconds=self._known[row.id].save_seconds,
        )
        if not avoid:
            self._known[row.id].waiting = waiting
        return waiting

    def _as_running(
        self,
        row: JobRow,
        attempt: AttemptRow,
        checkpoints: Mapping[tuple[int, int], int],
        paces: Mapping[int, float],
        stopped: PastStops,
    ) -> ActiveJob:
        asker = self._claims.get(row.id)
        saved = checkpoints.get(
            (row.id, attempt.number) if asker is None else (asker.job, asker.attempt)
        )
        stops_at = None
        if attempt.stop_ms is not None:
            grace = (attempt.grace_ms or 0) / 1000 + _GRACE_SLACK_SECONDS
            stops_at = attempt.stop_ms / 1000 + grace
        return ActiveJob(
            job=_as_placed(self._job(row), attempt.where, self._requests),
            placement=attempt.where,
            started_at=(attempt.started_ms or attempt.admitted_ms) / 1000,
            attained_seconds=row.attained_ms / 1000,
            checkpoint_at=saved / 1000 if saved else None,
            save_seconds=paces.get(row.id if asker is None else asker.job),
            stops_at=stops_at,
            stops_for=attempt.stops_for or "",
            stops=stopped.times,
            stopped_for=stopped.stopped_for,
        )

    def _learn_teams(self, reader: ReadConnection) -> None:
        for team_id, name in reader.all("SELECT id, name FROM teams"):
            self._teams[team_id] = name

    def _usage(
        self, reader: ReadConnection, now_ms: int, running: Sequence[tuple[JobRow, AttemptRow]]
    ) -> dict[str, float]:
        """What teams have used, with what their running jobs have used so far."""
        found = usages(reader, now_ms, self.policy.half_life_seconds)
        for row, attempt in running:
            held = max(0, now_ms - attempt.admitted_ms) / 1000
            used = attempt.where.gpu_milli_total / WHOLE * held
            found[row.team_id] = found.get(row.team_id, 0.0) + used
        return {self._teams[team]: use for team, use in found.items() if team in self._teams}

    def _learn_durations(self, reader: ReadConnection) -> None:
        """Learn run times from jobs that ended well since the last look."""
        ended = load_jobs(
            reader,
            "state = 'succeeded' AND cause = ? AND ended_ms > ? ORDER BY ended_ms DESC LIMIT ?",
            (ExitCause.SUCCEEDED.value, self._learned_until, LEARN_FROM),
        )
        if not ended:
            return
        specs = load_specs(reader, {row.spec_id for row in ended})
        for row in reversed(ended):
            if row.started_ms is None or row.ended_ms is None:
                continue
            job = self.as_job(row, specs[row.spec_id], self._teams.get(row.team_id, ""))
            self.durations.observe(job, max(0.0, (row.ended_ms - row.started_ms) / 1000))
        self._learned_until = max(row.ended_ms or 0 for row in ended)


def _as_placed(
    job: Job, placement: Placement, known: dict[ResourceRequest, ResourceRequest]
) -> Job:
    """Return a job that holds resources as one that asks for just these.

    What it asked for may have changed since, and defaults are settled when it is placed.
    """
    asked, shares = job.request, placement.shares
    if not shares:
        return job
    first = shares[0]
    # A share of no GPU says nothing of a fraction.
    milli = first.gpu_milli if first.gpus else WHOLE
    held = (len(shares), len(first.gpus), milli, first.cpu_milli, first.memory_bytes)
    if held == (asked.nodes, asked.gpus, asked.gpu_milli, asked.cpu_milli, asked.memory_bytes):
        return job
    request = replace(
        asked,
        nodes=len(shares),
        gpus=len(first.gpus),
        gpu_milli=milli,
        cpu_milli=first.cpu_milli,
        memory_bytes=first.memory_bytes,
    )
    return replace(job, request=known.setdefault(request, request))


def _checkpoints(reader: ReadConnection) -> dict[tuple[int, int], int]:
    """Return when each live attempt last saved, by job and number."""
    rows = reader.all(
        "SELECT a.job, a.number, max(c.created_ms) FROM attempts a"
        " JOIN checkpoints c ON c.job = a.job AND c.attempt = a.number"
        " WHERE a.state IN ('starting', 'running', 'stopping') GROUP BY a.job, a.number"
    )
    return {(job, number): saved for job, number, saved in rows}


def _save_paces(reader: ReadConnection, jobs: str, params: Sequence[int] = ()) -> dict[int, float]:
    """Return the seconds between checkpoints of those of these jobs that ever recorded one."""
    found: dict[int, float] = {}
    for job, count, first, last, started in reader.all(
        "SELECT c.job, count(*), min(c.created_ms), max(c.created_ms), min(j.started_ms)"
        f" FROM checkpoints c JOIN jobs j ON j.id = c.job WHERE c.job IN ({jobs}) GROUP BY c.job",
        params,
    ):
        # Of one checkpoint alone, how long it took to come.
        whole, steps = (last - first, count - 1) if count > 1 else (last - (started or last), 1)
        found[job] = max(0, whole) / steps / 1000
    return found


def _open_claims(reader: ReadConnection) -> dict[int, _Claimant]:
    """Return for which job each open claim is."""
    rows = reader.all(
        "SELECT c.job, a.job, a.number, j.job_id FROM claims c JOIN attempts a ON a.id = c.attempt"
        " JOIN jobs j ON j.id = a.job WHERE c.released_ms IS NULL"
    )
    return {row[0]: _Claimant(*row[1:]) for row in rows}


def _held_gpus(running: Iterable[tuple[JobRow, AttemptRow]]) -> dict[str, int]:
    """How many GPUs of each node, counted from the first, are held, be they there or lost."""
    found: dict[str, int] = {}
    for _, attempt in running:
        for share in attempt.where.shares:
            most = max(share.gpus, default=-1) + 1
            found[share.node] = max(most, found.get(share.node, 0))
    return found


def _outcomes(
    reader: ReadConnection, waiting: Sequence[WaitingJob], live: set[int], known: dict[int, _Known]
) -> dict[str, JobState]:
    """How the jobs stand that others wait for and that are neither waiting nor running."""
    present = {known[inner].row.job_id for inner in live if inner in known}
    wanted = {
        dependency.job
        for one in waiting
        for dependency in one.job.dependencies
        if dependency.job not in present
    }
    found: dict[str, JobState] = {}
    names = sorted(wanted)
    for at in range(0, len(names), _PAGE):
        part = names[at : at + _PAGE]
        marks = ",".join("?" * len(part))
        for job_id, state in reader.all(
            f"SELECT job_id, state FROM jobs WHERE job_id IN ({marks})", part
        ):
            found[job_id] = JobState(state)
    return found


def _elsewhere(job: Job, avoid: Sequence[str], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the nodes to avoid, or none where too few others could hold the job."""
    request = job.request
    able = [
        node
        for node in nodes
        if node.id not in avoid
        and node.state.takes_work
        and len(node.gpus) >= request.gpus
        and (not request.gpu_types or node.gpu_type in request.gpu_types)
        and node.cpu_milli >= request.cpu_milli
        and node.memory_bytes >= request.memory_bytes
        and all(node.label(name) == value for name, value in request.labels)
    ]
    return tuple(avoid) if len(able) >= request.nodes else ()
