"""A lease: nodes promised to someone for a time, and the states it may go through.

Owns the value the scheduler sees, who may use it, and the table of transitions. Knows nothing of
calendars, conflicts or the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LeaseState(StrEnum):
    """Where a lease stands. Pending, active, terminated and error last; the others pass."""

    CREATING = "creating"
    #: promised; its time has not come
    PENDING = "pending"
    #: its time has come; what others still run on its nodes is being drained
    STARTING = "starting"
    ACTIVE = "active"
    UPDATING = "updating"
    #: its time is over; its jobs are being drained
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    #: its time has come and none of its nodes works
    ERROR = "error"
    DELETING = "deleting"
    #: given back before it began; kept for the record
    DELETED = "deleted"

    @property
    def is_over(self) -> bool:
        """Whether its nodes are free of it."""
        return self in (LeaseState.TERMINATED, LeaseState.DELETED)

    @property
    def is_stable(self) -> bool:
        """Whether it stays so until time or someone changes it."""
        return self in STABLE

    def may_become(self, state: LeaseState) -> bool:
        """Say whether the table has this step."""
        if state is LeaseState.DELETING:
            return self not in (LeaseState.DELETING, LeaseState.DELETED)
        return state in TRANSITIONS[self]


STABLE = frozenset(
    (LeaseState.PENDING, LeaseState.ACTIVE, LeaseState.TERMINATED, LeaseState.ERROR)
)
#: From each state, those it may go to; any may go to deleting as well.
TRANSITIONS: dict[LeaseState, frozenset[LeaseState]] = {
    LeaseState.CREATING: frozenset((LeaseState.PENDING,)),
    LeaseState.PENDING: frozenset((LeaseState.STARTING, LeaseState.UPDATING)),
    LeaseState.STARTING: frozenset((LeaseState.ACTIVE, LeaseState.ERROR)),
    LeaseState.ACTIVE: frozenset((LeaseState.TERMINATING, LeaseState.UPDATING)),
    LeaseState.TERMINATING: frozenset((LeaseState.TERMINATED, LeaseState.ERROR)),
    LeaseState.TERMINATED: frozenset((LeaseState.UPDATING,)),
    LeaseState.ERROR: frozenset((LeaseState.TERMINATING, LeaseState.UPDATING)),
    LeaseState.UPDATING: STABLE,
    LeaseState.DELETING: frozenset((LeaseState.ERROR, LeaseState.DELETED)),
    LeaseState.DELETED: frozenset(),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Nodes that belong to a team or a person for a time (seconds since the epoch)."""

    #: stable id
    id: str
    #: ids of the nodes
    nodes: tuple[str, ...]
    #: first second of the lease
    starts_at: float
    #: first second after it
    ends_at: float
    #: team it is promised to
    team: str
    #: one person of that team; empty: the whole team
    user: str = ""
    #: lies idle and is lent to preemptible jobs of anyone until its holder asks
    lent: bool = False
    #: from then on nothing new of its own starts: its nodes are made ready; None: to its end
    closes_at: float | None = None
    #: what people call it
    name: str = ""
    #: the lease of which this is a part, where a pool has been handed out in pieces
    part_of: str = ""

    @property
    def last_start(self) -> float:
        """The moment from which nothing new of its own starts."""
        return self.ends_at if self.closes_at is None else self.closes_at

    @property
    def label(self) -> str:
        """What to call it before people."""
        return self.name or self.id

    def admits(self, *, team: str, user: str, lease: str, preemptible: bool = False) -> bool:
        """Say whether a job of this team and user, naming that lease or none, may use it."""
        if lease:
            return lease in (self.id, self.part_of)
        if self.lent and preemptible:
            return True
        return team == self.team and (not self.user or user == self.user)

    def overlaps(self, *, start: float, end: float) -> bool:
        """Say whether the lease and the span [start, end) share a moment."""
        return self.starts_at < end and start < self.ends_at
