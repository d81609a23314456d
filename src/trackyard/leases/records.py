"""Leases as they are kept: rows with their nodes, read and told in other parts' words.

Owns the reading of `leases` and `lease_nodes`, and the lock that lets one change at a time near
the calendar. Changes nothing; `life` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from trackyard.core.errors import NotFound
from trackyard.core.ids import LEASE_ID
from trackyard.core.lease import Lease, LeaseState
from trackyard.leases.plan.calendar import PromisedLease
from trackyard.store.database import ReadConnection, Tx

#: Serialises changes of the calendar across server processes on PostgreSQL.
CALENDAR_LOCK = 0x7961_7266
OVER = tuple(state.value for state in LeaseState if state.is_over)
_NOT_OVER = "l.state NOT IN ('terminated', 'deleted')"


class LeaseQuery(msgspec.Struct, frozen=True):
    """What was asked for, as it was written."""

    nodes: list[str] = []
    type: str = ""
    where: str = ""
    count: int = 1


class LeaseRow(NamedTuple):
    """A lease's row."""

    id: int
    lease_id: str
    team_id: int
    user_id: int | None
    user_name: str
    name: str
    state: str
    kind: str
    personal: int
    starts_ms: int
    ends_ms: int
    asked: str
    min_nodes: int
    max_nodes: int
    before_end: str
    purpose: str
    provider: str
    provider_ref: str
    parent: int | None
    degraded: int
    created_ms: int
    changed_ms: int
    started_ms: int | None
    ended_ms: int | None
    warned_ms: int | None
    used_ms: int | None
    nudged_ms: int | None
    lent_ms: int | None
    sentence: str
    hold: str
    version: int


class BoundNode(NamedTuple):
    """A node of a lease."""

    node_id: str
    bound_ms: int
    #: since when it does not work
    lost_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A lease with its nodes and the names of what it points at."""

    row: LeaseRow
    team: str
    bound: tuple[BoundNode, ...]
    parent_id: str = ""
    parent_name: str = ""

    @property
    def state(self) -> LeaseState:
        """Where it stands."""
        return LeaseState(self.row.state)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes it holds."""
        return tuple(one.node_id for one in self.bound)

    @property
    def is_pool(self) -> bool:
        """Whether staff hands it out in parts."""
        return self.row.kind == "pool"

    @property
    def asked(self) -> LeaseQuery:
        """What was asked for."""
        return _decode(self.row.asked)

    @property
    def only_user(self) -> str:
        """The one person who may use it; empty: the whole team."""
        return self.row.user_name if self.row.personal else ""

    @property
    def promise(self) -> PromisedLease:
        """The lease as the calendar sees it."""
        row = self.row
        return PromisedLease(
            lease_id=row.lease_id,
            name=row.name,
            user=row.user_name,
            team=self.team,
            nodes=self.nodes,
            starts_ms=row.starts_ms,
            ends_ms=row.ends_ms,
            parent=self.parent_id,
            is_pool=self.is_pool,
        )


_COLUMNS = ", ".join(f"l.{name}" for name in LeaseRow._fields)
_decode = msgspec.json.Decoder(LeaseQuery).decode


def lock_calendar(tx: Tx) -> None:
    """Let no other server change the calendar until this transaction is over."""
    if tx.dialect.name == "postgresql":
        tx.all("SELECT pg_advisory_xact_lock(?)", (CALENDAR_LOCK,))


def load_leases(
    reader: ReadConnection | Tx, where: str, params: Sequence[Any] = ()
) -> list[LeaseRecord]:
    """Return the leases of a condition (over `l`), in the order of their start unless told."""
    order = "" if "ORDER BY" in where else " ORDER BY l.starts_ms, l.id"
    found = reader.all(
        f"SELECT {_COLUMNS}, t.name, p.lease_id, p.name FROM leases l"
        " JOIN teams t ON t.id = l.team_id LEFT JOIN leases p ON p.id = l.parent"
        f" WHERE {where}{order}",
        params,
    )
    width = len(LeaseRow._fields)
    rows = [LeaseRow(*one[:width]) for one in found]
    nodes = _nodes(reader, [row.id for row in rows])
    return [
        LeaseRecord(
            row=row,
            team=one[width],
            bound=tuple(nodes.get(row.id, ())),
            parent_id=one[width + 1] or "",
            parent_name=one[width + 2] or "",
        )
        for row, one in zip(rows, found, strict=True)
    ]


def load_open(reader: ReadConnection | Tx) -> list[LeaseRecord]:
    """Return every lease that is not over."""
    return load_leases(reader, _NOT_OVER)


def load_since(reader: ReadConnection | Tx, since_ms: int) -> list[LeaseRecord]:
    """Return every lease that took time after that, those that are over included."""
    return load_leases(reader, "l.ends_ms > ? AND l.state <> 'deleted'", (since_ms,))


def find_lease(reader: ReadConnection | Tx, name: str, team_id: int | None) -> LeaseRecord:
    """Return a lease by its id, or by its name within a team, open ones first."""
    if LEASE_ID.match(name):
        found = load_leases(reader, "l.lease_id = ?", (name,))
        if found:
            return found[0]
    if team_id is not None:
        found = load_leases(
            reader,
            "l.team_id = ? AND l.name = ? ORDER BY CASE WHEN l.state IN"
            " ('terminated', 'deleted') THEN 1 ELSE 0 END, l.ends_ms DESC, l.id DESC",
            (team_id, name),
        )
        if found:
            return found[0]
    raise NotFound(f"no lease {name[:80]!r}; `yard lease ls` lists the leases")


def scheduler_leases(
    records: Iterable[LeaseRecord], closes: Mapping[str, int] | None = None
) -> list[Lease]:
    """Return the leases in the scheduler's own words; what a pool handed out is cut from it.

    `closes` says from when on nothing new of a lease's own starts, in milliseconds.
    """
    records = list(records)
    by_pool: dict[str, list[LeaseRecord]] = {}
    for record in records:
        if record.parent_id:
            by_pool.setdefault(record.parent_id, []).append(record)
    found: list[Lease] = []
    for record in records:
        parts = by_pool.get(record.row.lease_id, ()) if record.is_pool else ()
        if not parts:
            lease = _lease(record, record.nodes, record.row.starts_ms, record.row.ends_ms)
            closing = (closes or {}).get(record.row.lease_id)
            found.append(lease if closing is None else replace(lease, closes_at=closing / 1000))
            continue
        found += _rest(record, parts)
    return found


def usable_leases(
    records: Sequence[LeaseRecord], *, team: str, user: str, lease: str, preemptible: bool
) -> tuple[str, ...]:
    """Return the leases that admit such a job, and the pools they are handed out from."""
    found = {
        one.part_of or one.id
        for one in scheduler_leases(records)
        if one.admits(team=team, user=user, lease=lease, preemptible=preemptible)
    }
    pools = {one.parent_id for one in records if one.row.lease_id in found and one.parent_id}
    return tuple(sorted(found | pools))


def _rest(pool: LeaseRecord, parts: Sequence[LeaseRecord]) -> list[Lease]:
    """Return what is left of a pool, as pieces that together are the pool."""
    row, found = pool.row, []
    handed_out = {node for part in parts for node in part.nodes}
    for node in pool.nodes:
        if node not in handed_out:
            continue
        at = row.starts_ms
        own = [part for part in parts if node in part.nodes]
        spans = sorted((part.row.starts_ms, part.row.ends_ms) for part in own)
        for start, end in [*spans, (row.ends_ms, row.ends_ms)]:
            if start > at:
                found.append((node, at, start))
            at = max(at, end)
    pieces = [
        _lease(pool, (node,), start, end, piece=number)
        for number, (node, start, end) in enumerate(found, start=1)
    ]
    # Jobs that name the pool itself run where nothing of it was handed out.
    untouched = tuple(node for node in pool.nodes if node not in handed_out)
    whole = _lease(pool, untouched, row.starts_ms, row.ends_ms)
    return [whole, *pieces]


def _lease(
    record: LeaseRecord, nodes: tuple[str, ...], start_ms: int, end_ms: int, *, piece: int = 0
) -> Lease:
    row = record.row
    return Lease(
        id=f"{row.lease_id}/{piece}" if piece else row.lease_id,
        nodes=nodes,
        starts_at=start_ms / 1000,
        ends_at=end_ms / 1000,
        team=record.team,
        user=record.only_user,
        name=row.name,
        lent=row.lent_ms is not None,
        part_of=row.lease_id if piece else "",
    )


def _nodes(reader: ReadConnection | Tx, leases: Sequence[int]) -> dict[int, list[BoundNode]]:
    found: dict[int, list[BoundNode]] = {}
    for at in range(0, len(leases), 400):
        part = leases[at : at + 400]
        marks = ",".join("?" * len(part))
        for lease, *rest in reader.all(
            "SELECT lease, node_id, bound_ms, lost_ms FROM lease_nodes"
            f" WHERE replaced_ms IS NULL AND lease IN ({marks}) ORDER BY lease, node_id",
            part,
        ):
            found.setdefault(lease, []).append(BoundNode(*rest))
    return found
