"""The calendar as a page draws it: nodes as rows, and on each its leases, jobs and outages.

Owns the shapes and what a caller sees of others' jobs. Decides nothing; predicted starts are the
scheduler's own forecast.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.control.loop import LastPass
from trackyard.core.resources import WHOLE
from trackyard.fleet.nodes import NodeRow, load
from trackyard.leases.holders import may_change
from trackyard.leases.plan.machines import LeasableNode, machine_of
from trackyard.leases.plan.world import LeaseWorld, usable_until
from trackyard.leases.records import LeaseRecord
from trackyard.leases.views import LeaseView
from trackyard.leases.wishes import LeaseCaller, NodeChoice
from trackyard.scheduling import decide
from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.forecast.eta import forecast
from trackyard.scheduling.snapshot import Snapshot
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection

#: Waiting jobs beyond which no starts are foreseen for the picture.
MOST_FORESEEN = 60


def who(principal: Principal) -> LeaseCaller:
    """Say the caller in the calendar's words."""
    return LeaseCaller(
        name=principal.name,
        user_id=principal.user_id,
        team=principal.team,
        team_id=principal.team_id,
        is_admin=principal.is_admin,
        is_maintainer=principal.may(Role.maintainer),
    )


class CalendarLease(msgspec.Struct, kw_only=True):
    """A lease on a row."""

    lease_id: str
    name: str
    team: str
    user: str
    mine: bool
    editable: bool
    state: str
    kind: str
    parent: str
    degraded: bool
    lent: bool
    starts_ms: int
    ends_ms: int
    usable_until_ms: int


class CalendarJob(msgspec.Struct, kw_only=True):
    """A job on a row; of another team's only that there is one."""

    job_id: str
    name: str
    user: str
    team: str
    #: running or predicted
    phase: str
    starts_ms: int
    ends_ms: int
    #: false: no limit is known, the end is a guess
    ends_known: bool
    gpus: float
    preemptible: bool
    lease: str


class Outage(msgspec.Struct):
    """A time in which a node takes no work."""

    state: str
    note: str
    from_ms: int
    to_ms: int | None


class CalendarRow(msgspec.Struct, kw_only=True):
    """A node and what is on it."""

    node_id: str
    state: str
    note: str
    node_class: str = msgspec.field(name="class")
    gpu_type: str
    vendor: str
    gpus: int
    gpu_memory_bytes: int
    cpus: float
    memory_bytes: int
    labels: dict[str, str]
    leases: list[CalendarLease]
    jobs: list[CalendarJob]
    outages: list[Outage]


class CalendarView(msgspec.Struct):
    """Nodes as rows, time as columns."""

    from_ms: int
    to_ms: int
    now_ms: int
    #: every GPU type there is, for the filter
    types: list[str]
    rows: list[CalendarRow]


class CalendarDrawer:
    """Puts the rows together."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._db = services.database

    async def draw(
        self, principal: Principal, choice: NodeChoice, window: tuple[int, int]
    ) -> CalendarView:
        """Draw the nodes of a choice over a span."""
        condition, caller = choice.condition(), who(principal)
        looked = await self._services.jobs.scheduler.view()
        now_ms = self._db.clock.time_ms()

        def read(reader: ReadConnection) -> tuple[list[NodeRow], LeaseWorld]:
            return load(reader), self._services.leases.world(reader, now_ms)

        rows, world = await self._db.read(read)
        jobs = await self._jobs(looked, principal, window, now_ms)
        drawn = []
        for row in rows:
            machine = machine_of(row)
            if choice.nodes and machine.id not in choice.nodes:
                continue
            if choice.type and not machine.is_type(choice.type):
                continue
            if condition is not None and not condition.matches(machine):
                continue
            drawn.append(_row(row, machine, world=world, caller=caller, window=window, jobs=jobs))
        types = sorted({node.gpu_type for node in looked.loaded.snapshot.nodes if node.gpus})
        return CalendarView(*window, now_ms, types, drawn)

    async def jobs_of(self, lease: LeaseView, principal: Principal) -> list[str]:
        """Return the jobs on a lease's nodes that the caller may see."""
        looked = await self._services.jobs.scheduler.view()
        nodes = {node.node_id for node in lease.nodes}
        return [
            one.job.id
            for one in looked.loaded.snapshot.running
            if nodes & set(one.placement.nodes)
            and (principal.is_admin or one.job.team == principal.team)
        ]

    async def _jobs(
        self, looked: LastPass, principal: Principal, window: tuple[int, int], now_ms: int
    ) -> dict[str, list[CalendarJob]]:
        snapshot = looked.loaded.snapshot
        found: dict[str, list[CalendarJob]] = {}
        for one in snapshot.running:
            limit = one.job.time_limit_seconds
            start = int(one.started_at * 1000)
            end, known = _end(snapshot, one.job, start, limit)
            if one.stops_at is not None:
                end, known = int(one.stops_at * 1000), True
            for share in one.placement.shares:
                drawn = _job(
                    one.job,
                    principal,
                    phase="running",
                    span=(start, max(end, now_ms)),
                    ends_known=known,
                    gpus=len(share.gpus) * share.gpu_milli / WHOLE,
                )
                found.setdefault(share.node, []).append(drawn)
        for node, job in await asyncio.to_thread(_predicted, snapshot, principal):
            if job.starts_ms < window[1]:
                found.setdefault(node, []).append(job)
        return found


def _predicted(snapshot: Snapshot, principal: Principal) -> list[tuple[str, CalendarJob]]:
    """Foresee where and when waiting jobs start; where is known for those kept a place."""
    if not snapshot.waiting or len(snapshot.waiting) > MOST_FORESEEN:
        return []
    kept = {one.job: one.placement for one in decide(snapshot).reservations}
    starts = forecast(snapshot, [one.job.id for one in snapshot.waiting], most_events=500)
    found = []
    for one in snapshot.waiting:
        when = starts[one.job.id].expected
        if when is None:
            continue
        nodes = list(kept[one.job.id].nodes) if one.job.id in kept else _likely(snapshot, one.job)
        start = int(when * 1000)
        end, known = _end(snapshot, one.job, start, one.job.time_limit_seconds)
        drawn = _job(
            one.job,
            principal,
            phase="predicted",
            span=(start, end),
            ends_known=known,
            gpus=one.job.request.total_gpus / max(1, one.job.request.nodes),
        )
        found += [(node, drawn) for node in nodes[: one.job.request.nodes]]
    return found


def _likely(snapshot: Snapshot, job: Any) -> list[str]:
    """Return nodes that could hold a job, for one whose place is not decided yet."""
    request = job.request
    lease = next((one for one in snapshot.leases if one.id == job.lease), None)
    return [
        node.id
        for node in snapshot.nodes
        if node.state.takes_work
        and len(node.gpus) >= request.gpus
        and (not request.gpu_types or node.gpu_type in request.gpu_types)
        and (lease is None or node.id in lease.nodes)
    ]


def _end(snapshot: Snapshot, job: Any, start_ms: int, limit: float | None) -> tuple[int, bool]:
    if limit is not None:
        return start_ms + int(limit * 1000), True
    model: DurationModel = snapshot.durations
    seconds = min(model.expected_seconds(job), 7 * 86400.0)
    return max(start_ms, int(snapshot.now * 1000)) + int(seconds * 1000), False


def _job(
    job: Any,
    principal: Principal,
    *,
    phase: str,
    span: tuple[int, int],
    ends_known: bool,
    gpus: float,
) -> CalendarJob:
    is_open = principal.is_admin or job.team == principal.team
    return CalendarJob(
        job_id=job.id if is_open else "",
        name=job.name if is_open else "",
        user=job.user if is_open else "",
        team=job.team if is_open else "another team",
        phase=phase,
        starts_ms=span[0],
        ends_ms=span[1],
        ends_known=ends_known,
        gpus=round(gpus, 3),
        preemptible=job.preemptible,
        lease=job.lease if is_open else "",
    )


def _row(
    row: NodeRow,
    machine: LeasableNode,
    *,
    world: LeaseWorld,
    caller: LeaseCaller,
    window: tuple[int, int],
    jobs: dict[str, list[CalendarJob]],
) -> CalendarRow:
    outages = []
    if not machine.works:
        outages.append(Outage(machine.state.value, row.note, row.state_ms, row.until_ms))
    return CalendarRow(
        node_id=row.id,
        state=machine.state.value,
        note=row.note,
        node_class=machine.node_class,
        gpu_type=machine.gpu_model,
        vendor=machine.gpu_vendor,
        gpus=machine.gpu_count,
        gpu_memory_bytes=machine.gpu_memory_bytes,
        cpus=machine.cpus,
        memory_bytes=machine.memory_bytes,
        labels=row.labels,
        leases=[
            _lease(record, caller, world)
            for record in world.records
            if row.id in record.nodes and record.promise.overlaps(*window)
        ],
        jobs=[one for one in jobs.get(row.id, ()) if one.ends_ms > window[0]],
        outages=outages,
    )


def _lease(record: LeaseRecord, caller: LeaseCaller, world: LeaseWorld) -> CalendarLease:
    row = record.row
    until, _ = usable_until(record.promise, world.calendar, world.rules)
    return CalendarLease(
        lease_id=row.lease_id,
        name=row.name,
        team=record.team,
        user=row.user_name,
        mine=row.team_id == caller.team_id and row.user_name == caller.name,
        editable=may_change(caller, record),
        state=row.state,
        kind=row.kind,
        parent=record.parent_id,
        degraded=bool(row.degraded),
        lent=row.lent_ms is not None,
        starts_ms=row.starts_ms,
        ends_ms=row.ends_ms,
        usable_until_ms=until,
    )
