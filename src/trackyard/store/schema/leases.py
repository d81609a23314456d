"""The tables of leases: who was promised which nodes, from when to when. Owns their shape; knows
no query.

Shares the metadata of `schema`, which imports this module last. Times are milliseconds since the
epoch, whole minutes where people chose them.
"""

from __future__ import annotations

from sqlalchemy import Index, PrimaryKeyConstraint, Table, UniqueConstraint

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "leases",
    shared,
    big_id(),
    words("lease_id"),
    ref("team_id", "teams.id"),
    integer("user_id", nullable=True),
    #: the holder
    words("user_name"),
    words("name"),
    #: a word of core.lease.LeaseState
    words("state"),
    #: `lease`, or `pool` for nodes that staff hands out in parts
    words("kind"),
    #: 1: the holder alone may use it; 0: the whole team
    integer("personal"),
    integer("starts_ms"),
    integer("ends_ms"),
    #: what was asked for; JSON of leases.wishes.Asked
    words("asked"),
    integer("min_nodes"),
    integer("max_nodes"),
    #: `drain` or `notify`
    words("before_end"),
    words("purpose"),
    #: who provides the nodes (empty: this yard) and what they call the reservation
    words("provider"),
    words("provider_ref"),
    #: the pool it was handed out from
    integer("parent", nullable=True),
    #: 1 while fewer nodes stand ready than were promised
    integer("degraded"),
    integer("created_ms"),
    integer("changed_ms"),
    #: when it became active and when it was over, in truth
    integer("started_ms", nullable=True),
    integer("ended_ms", nullable=True),
    #: when the holder was told of the end to come
    integer("warned_ms", nullable=True),
    #: last moment at which a job of the holder was seen on its nodes
    integer("used_ms", nullable=True),
    #: when the holder was told that it lies idle, and since when it is lent to others
    integer("nudged_ms", nullable=True),
    integer("lent_ms", nullable=True),
    #: how it ended, in one sentence
    words("sentence"),
    #: what the engine was last told of it; empty: nothing
    words("hold"),
    #: grows with every change of this row
    integer("version"),
    UniqueConstraint("lease_id"),
    Index(None, "state", "ends_ms"),
    Index(None, "team_id", "ends_ms"),
    Index(None, "parent"),
)
Table(
    "lease_nodes",
    shared,
    ref("lease", "leases.id"),
    words("node_id"),
    integer("bound_ms"),
    #: since when it does not take work; null: it does
    integer("lost_ms", nullable=True),
    #: when another took its place; null: it is still the lease's
    integer("replaced_ms", nullable=True),
    PrimaryKeyConstraint("lease", "node_id"),
    Index(None, "node_id"),
)
