"""A lease: nodes promised to someone for a time.

Owns the value and who may use it. Knows nothing of calendars, conflicts or the queue.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    def admits(self, *, team: str, user: str, lease: str) -> bool:
        """Say whether a job of this team and user, naming that lease or none, may use it."""
        if lease:
            return lease == self.id
        return team == self.team and (not self.user or user == self.user)

    def overlaps(self, *, start: float, end: float) -> bool:
        """Say whether the lease and the span [start, end) share a moment."""
        return self.starts_at < end and start < self.ends_at
