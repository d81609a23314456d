"""The life of a lease: every change of its state, each with its event, in one transaction.

Owns `step`, through which every change goes, and the changes built on it. Checks the table of
transitions. Decides nothing: `planning` and `upkeep` do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from trackyard.core.errors import Conflict, InternalFault
from trackyard.core.ids import new_lease_id
from trackyard.core.lease import LeaseState
from trackyard.leases.records import BoundNode, LeaseQuery, LeaseRecord, find_lease
from trackyard.store.database import Tx

SYSTEM = "system"


def step(
    tx: Tx,
    record: LeaseRecord,
    *path: LeaseState,
    event: str,
    sentence: str,
    actor: str = SYSTEM,
    data: dict[str, Any] | None = None,
    columns: dict[str, Any] | None = None,
) -> LeaseRecord:
    """Take a lease through states of the table, write what it brings, and record the event.

    Without a path it stays where it is. Someone else's change in between is a conflict.
    """
    at = record.state
    for state in path:
        if not at.may_become(state):
            raise InternalFault(f"lease {record.row.lease_id} cannot go from {at} to {state}")
        at = state
    written = {**(columns or {}), "state": at.value, "changed_ms": tx.now_ms}
    record = note(tx, record, **written)
    tx.event(
        event,
        team_id=record.row.team_id,
        actor=actor,
        subject="lease",
        subject_id=record.row.lease_id,
        name=record.row.name,
        user=record.row.user_name,
        state=at.value,
        nodes=list(record.nodes),
        starts_ms=record.row.starts_ms,
        ends_ms=record.row.ends_ms,
        sentence=sentence,
        **(data or {}),
    )
    return record


def note(tx: Tx, record: LeaseRecord, **columns: Any) -> LeaseRecord:
    """Write facts that change no state: when it was last used, what the engine was told."""
    row = record.row
    names = ", ".join(f"{name} = ?" for name in columns)
    changed = tx.run(
        f"UPDATE leases SET {names}, version = version + 1 WHERE id = ? AND version = ?",
        (*columns.values(), row.id, row.version),
    )
    if not changed:
        raise Conflict(f"lease {row.name} changed meanwhile; look at it again and repeat")
    return replace(record, row=row._replace(version=row.version + 1, **columns))


def create(
    tx: Tx,
    *,
    team_id: int,
    user_id: int | None,
    user_name: str,
    name: str,
    nodes: Iterable[str],
    starts_ms: int,
    ends_ms: int,
    asked: LeaseQuery,
    min_nodes: int,
    max_nodes: int,
    sentence: str,
    actor: str,
    kind: str = "lease",
    personal: bool = False,
    before_end: str = "drain",
    purpose: str = "",
    provider: str = "",
    parent: int | None = None,
) -> LeaseRecord:
    """Promise nodes: the row, its nodes and the event at once."""
    lease_id = new_lease_id()
    inner = tx.insert(
        "INSERT INTO leases (lease_id, team_id, user_id, user_name, name, state, kind, personal,"
        " starts_ms, ends_ms, asked, min_nodes, max_nodes, before_end, purpose, provider,"
        " provider_ref, parent, degraded, created_ms, changed_ms, sentence, hold, version)"
        " VALUES (?, ?, ?, ?, ?, 'creating', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?, 0, ?, ?, '',"
        " '', 0)",
        (
            lease_id,
            team_id,
            user_id,
            user_name,
            name,
            kind,
            int(personal),
            starts_ms,
            ends_ms,
            msgspec.json.encode(asked).decode(),
            min_nodes,
            max_nodes,
            before_end,
            purpose,
            provider,
            parent,
            tx.now_ms,
            tx.now_ms,
        ),
    )
    bind(tx, inner, nodes)
    record = find_lease(tx, lease_id, None)
    return step(
        tx, record, LeaseState.PENDING, event="lease.created", sentence=sentence, actor=actor
    )


def update(
    tx: Tx,
    record: LeaseRecord,
    *,
    event: str,
    sentence: str,
    actor: str,
    nodes: Iterable[str] | None = None,
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> LeaseRecord:
    """Change a lease that stands still: it passes through updating and comes back."""
    if nodes is not None:
        record = rebind(tx, record, nodes)
    return step(
        tx,
        record,
        LeaseState.UPDATING,
        record.state,
        event=event,
        sentence=sentence,
        actor=actor,
        data=data,
        columns=columns,
    )


def bind(tx: Tx, inner: int, nodes: Iterable[str]) -> None:
    """Write the nodes of a lease; one that it had before is its own again."""
    tx.many(
        "INSERT INTO lease_nodes (lease, node_id, bound_ms) VALUES (?, ?, ?)"
        " ON CONFLICT (lease, node_id) DO UPDATE SET bound_ms = excluded.bound_ms,"
        " lost_ms = NULL, replaced_ms = NULL",
        [(inner, node, tx.now_ms) for node in nodes],
    )


def unbind(tx: Tx, inner: int, nodes: Iterable[str]) -> None:
    """Take nodes from a lease; that it had them stays on record."""
    tx.many(
        "UPDATE lease_nodes SET replaced_ms = ? WHERE lease = ? AND node_id = ?",
        [(tx.now_ms, inner, node) for node in nodes],
    )


def rebind(tx: Tx, record: LeaseRecord, nodes: Iterable[str]) -> LeaseRecord:
    """Give a lease these nodes and no others."""
    wanted, had = sorted(set(nodes)), set(record.nodes)
    unbind(tx, record.row.id, sorted(had - set(wanted)))
    bind(tx, record.row.id, [node for node in wanted if node not in had])
    known = {one.node_id: one for one in record.bound}
    bound = tuple(known.get(node) or BoundNode(node, tx.now_ms, None) for node in wanted)
    return replace(record, bound=bound)


def mark_lost(tx: Tx, record: LeaseRecord, node: str, lost_ms: int | None) -> LeaseRecord:
    """Note since when a node of a lease does not work, or that it works again."""
    tx.run(
        "UPDATE lease_nodes SET lost_ms = ? WHERE lease = ? AND node_id = ?",
        (lost_ms, record.row.id, node),
    )
    bound = tuple(
        one._replace(lost_ms=lost_ms) if one.node_id == node else one for one in record.bound
    )
    return replace(record, bound=bound)
