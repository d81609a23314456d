"""Leases as the API shows them. Owns the shapes and their sentences; changes nothing."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Any

import msgspec

from trackyard.core.lease import LeaseState
from trackyard.leases.holders import may_change
from trackyard.leases.plan.fairness import units
from trackyard.leases.plan.machines import LeasableNode
from trackyard.leases.plan.world import LeaseWorld, usable_until
from trackyard.leases.records import LeaseQuery, LeaseRecord
from trackyard.leases.rules import MINUTE_MS
from trackyard.leases.wishes import LeaseCaller
from trackyard.leases.wording import length, names, spoken


class LeaseNode(msgspec.Struct):
    """A node of a lease and what it has."""

    node_id: str
    state: str
    #: does not work, and nothing took its place
    lost: bool
    node_class: str = msgspec.field(name="class")
    gpus: int
    gpu_type: str
    gpu_memory_bytes: int


class LeaseView(msgspec.Struct, kw_only=True):
    """A lease."""

    lease_id: str
    name: str
    team: str
    #: the holder
    user: str
    mine: bool
    #: whether the caller may change it
    editable: bool
    state: str
    over: bool
    #: lease or pool
    kind: str
    personal: bool
    starts_ms: int
    ends_ms: int
    #: when jobs on it begin to be drained; before `ends_ms` if another lease follows closely
    usable_until_ms: int
    started_ms: int | None
    ended_ms: int | None
    created_ms: int
    changed_ms: int
    nodes: list[LeaseNode]
    asked: LeaseQuery
    min_nodes: int
    max_nodes: int
    gpus: int
    #: drain or notify
    before_end: str
    #: empty for other teams' leases
    purpose: str
    provider: str
    provider_ref: str
    #: the pool it was handed out from
    parent: str
    parent_name: str
    degraded: bool
    idle_since_ms: int | None
    nudged_ms: int | None
    lent_ms: int | None
    used_ms: int | None
    #: neighbours on the same nodes, within the turnaround
    follows: str
    followed_by: str
    #: service units it costs
    units: float
    sentence: str
    #: jobs of the caller's team on its nodes
    jobs: list[str] = []


class LeaseList(msgspec.Struct):
    """Leases by start."""

    now_ms: int
    leases: list[LeaseView]


class JobEffect(msgspec.Struct, kw_only=True):
    """What a lease does to a job; of another team's job only that there is one."""

    job_id: str
    name: str
    user: str
    team: str
    node_ids: list[str]
    #: drained, waits, ends_before or blocks
    effect: str
    at_ms: int | None
    sentence: str


class LeaseAnswer(msgspec.Struct, kw_only=True):
    """What became, or would become, of a request."""

    lease: LeaseView
    dry_run: bool
    sentence: str
    effects: list[JobEffect] = []
    warnings: list[str] = []


class SlotView(msgspec.Struct):
    """A span in which enough nodes are free."""

    starts_ms: int
    ends_ms: int
    nodes: list[str]
    free_until_ms: int | None
    sentence: str


class SlotList(msgspec.Struct):
    """The next free slots."""

    slots: list[SlotView]
    sentence: str


class ClassView(msgspec.Struct):
    """What holds for a class of nodes."""

    gap_minutes: int
    units: float
    nodes: int


class RulesView(msgspec.Struct, kw_only=True):
    """The rules in force and what the caller's team has used."""

    max_hours: float
    ahead_days: float
    extend_window_hours: float
    quota_units: float | None
    used_units: float
    quota_days: float
    hoard_share: float
    stacking_share: float
    gap_minutes: int
    warn_minutes: int
    idle_minutes: int
    lend_minutes: int | None
    release_idle_minutes: int
    classes: dict[str, ClassView]


def view(
    record: LeaseRecord, who: LeaseCaller, world: LeaseWorld, zone: tzinfo = UTC
) -> LeaseView:
    """Show a lease to a caller."""
    row, calendar = record.row, world.calendar
    known = calendar.known
    sees = who.is_admin or row.team_id == who.team_id
    until, follower = usable_until(record.promise, calendar, world.rules)
    machines = [known[node] for node in record.nodes if node in known]
    is_idle = record.state is LeaseState.ACTIVE and row.nudged_ms is not None
    used = row.used_ms or row.started_ms
    return LeaseView(
        lease_id=row.lease_id,
        name=row.name,
        team=record.team,
        user=row.user_name,
        mine=row.team_id == who.team_id and row.user_name == who.name,
        editable=may_change(who, record),
        state=row.state,
        over=record.state.is_over,
        kind=row.kind,
        personal=bool(row.personal),
        starts_ms=row.starts_ms,
        ends_ms=row.ends_ms,
        usable_until_ms=until,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        created_ms=row.created_ms,
        changed_ms=row.changed_ms,
        nodes=[_node(one.node_id, one.lost_ms, known) for one in record.bound],
        asked=record.asked,
        min_nodes=row.min_nodes,
        max_nodes=row.max_nodes,
        gpus=sum(machine.gpu_count for machine in machines),
        before_end=row.before_end,
        purpose=row.purpose if sees else "",
        provider=row.provider,
        provider_ref=row.provider_ref if sees else "",
        parent=record.parent_id,
        parent_name=record.parent_name,
        degraded=bool(row.degraded),
        idle_since_ms=used if is_idle else None,
        nudged_ms=row.nudged_ms,
        lent_ms=row.lent_ms,
        used_ms=row.used_ms,
        follows=_precursor(record, world),
        followed_by=follower,
        units=round(
            units(
                record.nodes,
                row.starts_ms,
                row.ended_ms or row.ends_ms,
                machines=world.machines,
                rules=world.rules,
            ),
            3,
        ),
        sentence=sentence_of(record, world.now_ms, zone),
    )


def sentence_of(record: LeaseRecord, now_ms: int, zone: tzinfo = UTC) -> str:
    """Describe the state of a lease."""
    row, nodes = record.row, names(record.nodes)
    state = record.state
    if state is LeaseState.PENDING:
        words = f"Starts in {length(row.starts_ms - now_ms)} on {nodes}"
    elif state is LeaseState.STARTING:
        words = f"Starts now on {nodes}; what others run there is being drained"
    elif state is LeaseState.ACTIVE:
        words = f"Active on {nodes} for {length(row.ends_ms - now_ms)} more"
    elif state is LeaseState.TERMINATING:
        words = f"Its time is over; its jobs on {nodes} save and make room"
    elif state is LeaseState.ERROR:
        words = f"None of {nodes} works; it waits for one until {spoken(row.ends_ms, zone)}"
    else:
        words = row.sentence or f"Over since {spoken(row.ended_ms or row.ends_ms, zone)}"
        words = words.rstrip(".")
    if row.degraded and not state.is_over:
        lost = [one.node_id for one in record.bound if one.lost_ms is not None]
        words += f"; degraded: {names(lost)} does not work"
    if row.lent_ms is not None:
        words += "; lent to preemptible jobs until you need it"
    elif row.nudged_ms is not None and state is LeaseState.ACTIVE:
        idle = now_ms - (row.used_ms or row.started_ms or row.starts_ms)
        words += f"; idle for {length(idle)}: release it?"
    return words if words.endswith("?") else f"{words}."


def effect(fact: dict[str, Any]) -> JobEffect:
    """Shape a fact about a job."""
    return msgspec.convert(fact, JobEffect)


def _node(node_id: str, lost_ms: int | None, known: dict[str, LeasableNode]) -> LeaseNode:
    machine = known.get(node_id)
    if machine is None:
        return LeaseNode(node_id, "gone", True, "", 0, "", 0)
    return LeaseNode(
        node_id,
        machine.state.value,
        lost_ms is not None,
        machine.node_class,
        machine.gpu_count,
        machine.gpu_model,
        machine.gpu_memory_bytes,
    )


def _precursor(record: LeaseRecord, world: LeaseWorld) -> str:
    """Return the lease that this one follows closely."""
    gap, start = world.rules.gap_minutes * MINUTE_MS, record.row.starts_ms
    nodes = set(record.nodes)
    for one in world.promises:
        if not one.ends_ms <= start <= one.ends_ms + gap or nodes.isdisjoint(one.nodes):
            continue
        if one.lease_id not in (record.row.lease_id, record.parent_id):
            return one.lease_id
    return ""
