"""Which nodes were whose in a window of time, read for accounts of usage. Owns that reading."""

from __future__ import annotations

from typing import NamedTuple

from trackyard.store.database import ReadConnection


class PastHold(NamedTuple):
    """A node of a lease while the lease was active."""

    lease: int
    lease_id: str
    name: str
    team_id: int
    user_name: str
    node: str
    since_ms: int
    until_ms: int


def past_holds(
    reader: ReadConnection, since_ms: int, until_ms: int, now_ms: int
) -> list[PastHold]:
    """Return what leases held in a window; what was handed out from a pool before the pool."""
    rows = reader.all(
        "SELECT l.id, l.lease_id, l.name, l.team_id, l.user_name, n.node_id, l.started_ms,"
        " n.bound_ms, l.ended_ms, n.replaced_ms FROM leases l JOIN lease_nodes n ON n.lease = l.id"
        " WHERE l.started_ms IS NOT NULL AND l.started_ms < ?"
        " AND (l.ended_ms IS NULL OR l.ended_ms > ?)"
        " ORDER BY CASE WHEN l.kind = 'pool' THEN 1 ELSE 0 END, l.id",
        (until_ms, since_ms),
    )
    found = []
    for inner, lease_id, name, team, user, node, started, bound, ended, replaced in rows:
        since = max(started, bound)
        until = min(one for one in (ended, replaced, now_ms) if one is not None)
        if since < until:
            found.append(PastHold(inner, lease_id, name, team, user, node, since, until))
    return found
