"""Leases as hard windows on nodes.

Owns Windows: until when each node is open to a given holder, and when a span of time is free of
others' leases. Knows nothing of what is free on the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from trackyard.core.job import Job
from trackyard.core.lease import Lease
from trackyard.scheduling.place.table import Floats, NodeTable

Holder = tuple[str, str, str, bool]
#: A job that may be preempted need not end before others' lease begins: it is drained in time. It
#: starts if it has at least so long until then.
WORTH_STARTING_SECONDS = 300.0


class Windows:
    """The leases of a snapshot, by row and holder."""

    def __init__(self, leases: tuple[Lease, ...], *, table: NodeTable) -> None:
        self.leases = {lease.id: lease for lease in leases}
        self._table = table
        self._by_row: dict[int, list[Lease]] = {}
        for lease in sorted(leases, key=lambda lease: (lease.starts_at, lease.id)):
            for node in lease.nodes:
                if node in table.row:
                    self._by_row.setdefault(table.row[node], []).append(lease)
        #: whether a lease tells users of one team apart
        self.is_personal = any(lease.user for lease in leases)
        self._now = -inf
        self._deadlines: dict[Holder, Floats] = {}
        self._open_ended: dict[Holder, bool] = {}
        self._outlooks: dict[Holder, tuple[tuple[object, ...], bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_row)

    def is_on(self, rows: Iterable[int]) -> bool:
        """Say whether anyone has or had a lease on one of these rows."""
        return any(row in self._by_row for row in rows)

    def deadlines(self, job: Job, now: float) -> Floats:
        """Until when each row is open to this job's holder; minus infinity: closed now."""
        if now != self._now:
            self._now = now
            self._deadlines.clear()
            self._open_ended.clear()
        user = job.user if self.is_personal else ""
        holder = (job.team, user, job.lease, job.preemptible)
        known = self._deadlines.get(holder)
        if known is None:
            known = self._deadlines[holder] = self._compute(holder, now)
        return known

    def outlook(self, job: Job, seconds: float, now: float) -> tuple[object, ...]:
        """Return what leases tell jobs apart by: with the same outlook they meet the same ones."""
        user = job.user if self.is_personal else ""
        holder = (job.team, user, job.lease, job.preemptible)
        known = self._outlooks.get(holder)
        if known is None:
            shut = tuple(not _admits(lease, job) for lease in self.leases.values())
            known = self._outlooks[holder] = ((job.lease, job.preemptible, shut), any(shut))
        if not known[1]:
            return known[0]
        if job.preemptible and self._is_open_ended(holder, job, now):
            seconds = min(seconds, WORTH_STARTING_SECONDS)
        return (*known[0], seconds)

    def _is_open_ended(self, holder: Holder, job: Job, now: float) -> bool:
        """Say whether each row is open to this holder for ever or not at all."""
        deadlines = self.deadlines(job, now)
        known = self._open_ended.get(holder)
        if known is None:
            known = self._open_ended[holder] = not np.isfinite(deadlines).any()
        return known

    def start_from(self, job: Job, row: int, at: float, seconds: float) -> float:
        """Return the first moment from `at` when a span of that length meets no foreign lease."""
        if job.preemptible:
            seconds = min(seconds, WORTH_STARTING_SECONDS)
        own = self.leases.get(job.lease)
        for lease in self._by_row.get(row, ()):
            if own is not None and lease.starts_at >= own.ends_at:
                break
            mine = _admits(lease, job)
            if not mine and lease.overlaps(start=at, end=at + seconds):
                at = max(at, lease.ends_at)
        return at

    def foreign(self, job: Job, row: int, now: float) -> Lease | None:
        """Return the first lease of others on a row that has not ended."""
        for lease in self._by_row.get(row, ()):
            if lease.ends_at > now and not _admits(lease, job):
                return lease
        return None

    def changes_after(self, now: float) -> float:
        """Return the next moment at which a lease starts or ends."""
        moments = [
            moment
            for lease in self.leases.values()
            for moment in (lease.starts_at, lease.last_start, lease.ends_at)
            if moment > now
        ]
        return min(moments, default=inf)

    def _compute(self, holder: Holder, now: float) -> Floats:
        team, user, wanted, preemptible = holder
        rows = np.full(self._table.count, -inf if wanted else inf)
        if wanted in self.leases:
            lease = self.leases[wanted]
            for node in lease.nodes:
                if node in self._table.row and lease.starts_at <= now < lease.last_start:
                    rows[self._table.row[node]] = inf
        # A job of a lease is drained at its end: what comes after is no concern of its.
        last = self.leases[wanted].ends_at if wanted in self.leases else inf
        for row, leases in self._by_row.items():
            for lease in leases:
                if lease.starts_at >= last:
                    break
                if lease.ends_at <= now or lease.admits(
                    team=team, user=user, lease=wanted, preemptible=preemptible
                ):
                    continue
                closes = -inf if lease.starts_at <= now else lease.starts_at
                if preemptible and closes >= now + WORTH_STARTING_SECONDS:
                    continue
                rows[row] = min(rows[row], closes)
        return rows


def _admits(lease: Lease, job: Job) -> bool:
    return lease.admits(team=job.team, user=job.user, lease=job.lease, preemptible=job.preemptible)
