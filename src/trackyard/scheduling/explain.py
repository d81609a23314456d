"""Why a job that reached its turn did not start, with numbers, holders and the time it clears.

Owns Explainer: it asks the state the counterfactual (would it fit without those ahead, without
the leases, without these holders) and says the answer. It decides nothing and never runs when
nobody asks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trackyard.core.job import Job
from trackyard.core.lease import Lease
from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE
from trackyard.scheduling.backfill import Opening, ReservationSet
from trackyard.scheduling.forecast.outlook import EXPECTED, end_of
from trackyard.scheduling.gate import amount_words
from trackyard.scheduling.order.bucket import Bucket
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.choose import place
from trackyard.scheduling.place.table import Mask, Shape
from trackyard.scheduling.shares.departments import TeamUse
from trackyard.scheduling.state import PassState

if TYPE_CHECKING:
    from trackyard.scheduling.passing import PassResult

#: Shape, and what leases tell jobs apart by.
Alike = tuple[int, tuple[object, ...]]
#: Holders named in one reason; the rest is counted.
MOST_NAMES = 32


class Explainer:
    """Finds the reasons of one pass; answers are kept by shape."""

    def __init__(self, state: PassState, result: PassResult) -> None:
        self._state = state
        self._result = result
        self._first: Capacity | None = None
        #: how many had started or claimed when the answer was found, where there will be room, and
        #: the answer without what differs between teams
        self._rooms: dict[Alike, tuple[tuple[int, int], Opening | None, tuple[Reason, ...]]] = {}
        #: whether there was room when the pass began
        self._before: dict[Alike, bool] = {}
        self._openings = ReservationSet(state, names=True)
        self._openings_at = 0
        self._by_team: dict[str, list[str]] = {}
        self._teams_at = -1
        #: whole answers by team, for jobs that have waited long enough to have quota back at once
        self._told: dict[tuple[str, Alike], tuple[Reason, ...]] = {}
        self._told_at = (0, 0)
        self._reclaim_after = state.policy.preemption.reclaim_after_seconds
        #: answers that leases do not change, by shape; None: they may
        self._common: dict[
            int, tuple[tuple[int, int], tuple[Opening, tuple[Reason, ...]] | None]
        ] = {}
        #: borrowers by team and size of the job that would have its quota back
        self._debts: dict[tuple[str, int], tuple[list[str], bool]] = {}
        #: what is short for each shape, and how many had started or claimed when it was found
        self._shortages: dict[int, tuple[tuple[int, int], Code, float, float]] = {}

    def freeze(self) -> None:
        """Remember what was free before this pass gave anything away."""
        if self._first is None:
            self._first = self._state.capacity.copy()

    def room(
        self, job: Job, team: TeamUse, pending: PendingJob, allowed: Mask | None
    ) -> tuple[Reason, ...]:
        """Explain a job for which there is no room now."""
        if allowed is not None:
            opening, reasons = self._explain_room(job, pending, allowed)
            return (*self._lent(team, pending, opening), *reasons)
        version = (len(self._result.started), len(self._result.claims))
        if version != self._told_at:
            self._told_at = version
            self._told.clear()
        key = self._alike(job, pending)
        # Its quota comes back at once where it waited for long; else its own waiting counts.
        asked = job.submitted_at + pending.waiting.attained_seconds
        is_general = asked + self._reclaim_after <= self._state.now
        if is_general and (told := self._told.get((team.name, key))) is not None:
            return told
        answer = self._room(job, team, pending, key, version)
        if is_general:
            self._told[team.name, key] = answer
        return answer

    def _room(
        self, job: Job, team: TeamUse, pending: PendingJob, key: Alike, version: tuple[int, int]
    ) -> tuple[Reason, ...]:
        known = self._rooms.get(key)
        if known is None or known[0] != version:
            found = self._explain_room(job, pending, None)
            known = self._rooms[key] = (version, *found)
        if known[2][0].code is Code.BEHIND_JOBS:
            return known[2]
        lent = self._lent(team, pending, known[1])
        return (*lent, *known[2]) if lent else known[2]

    def _alike(self, job: Job, pending: PendingJob) -> Alike:
        """What jobs have in common that find room alike; leases tell holders apart."""
        windows = self._state.windows
        if not windows:
            return pending.shape.index, ()
        return pending.shape.index, windows.outlook(job, pending.bound, self._state.now)

    def lease(self, bucket: Bucket, pending: PendingJob) -> Reason:
        """Explain a job that would fit if nobody had leased the nodes."""
        state = self._state
        able = state.capacity.fits(pending.shape, pending.shape.any_mask())
        if bucket.allowed is not None:
            able &= bucket.allowed
        found = [
            lease
            for row in np.flatnonzero(able)
            if (lease := state.windows.foreign(bucket.job, int(row), state.now)) is not None
        ]
        active = [lease for lease in found if lease.starts_at <= state.now]
        if len(active) == len(found) and active:
            return _lease_reason(min(active, key=lambda one: (one.ends_at, one.id)), state.now)
        upcoming = [lease for lease in found if lease.starts_at > state.now]
        return _lease_reason(max(upcoming, key=lambda one: (one.starts_at, one.id)), state.now)

    def _explain_room(
        self, job: Job, pending: PendingJob, allowed: Mask | None
    ) -> tuple[Opening | None, tuple[Reason, ...]]:
        """Return where there will be room, and why there is none yet."""
        if allowed is None:
            known = self._without_leases(job, pending)
            if known is not None:
                return known
        behind = self._behind(job, pending, allowed)
        if behind is not None:
            return None, (behind,)
        opening = self._opening(job, pending, allowed)
        return opening, (
            self._capacity(pending.shape, opening),
            *self._leased(job, pending, opening),
            *self._unhealthy(pending.shape),
        )

    def _without_leases(
        self, job: Job, pending: PendingJob
    ) -> tuple[Opening, tuple[Reason, ...]] | None:
        """The same for all jobs of a shape, where no lease is near the room they wait for.

        None: a lease may tell them apart, or there was room when the pass began.
        """
        state, shape = self._state, pending.shape
        if not state.windows:
            return None
        version = (len(self._result.started), len(self._result.claims))
        known = self._common.get(shape.index)
        if known is None or known[0] != version:
            opening, style = None, state.policy.style
            first = self._first
            if first is None or place(first, shape, style=style, allowed=None) is None:
                opening = self._opening(job, pending, None, leases=False)
            if opening is None or state.windows.is_on([row for row, _ in opening.parts]):
                known = (version, None)
            else:
                reasons = (self._capacity(shape, opening), *self._unhealthy(shape))
                known = (version, (opening, reasons))
            self._common[shape.index] = known
        return known[1]

    def _lent(
        self, team: TeamUse, pending: PendingJob, opening: Opening | None
    ) -> tuple[Reason, ...]:
        """Name the borrowers, where the job is within its team's quota."""
        state, owner = self._state, team.owner
        if owner is None or not team.owns(pending.shape):
            return ()
        borrowers, may_stop = self._borrowers(team, pending.shape.total_milli)
        if not borrowers:
            return ()
        until = opening.at if opening is not None else None
        if may_stop:
            rules, waiting = state.policy.preemption, pending.waiting
            asked = waiting.job.submitted_at + waiting.attained_seconds
            back = max(asked + rules.reclaim_after_seconds, state.now) + rules.grace_seconds
            until = back if until is None else min(until, back)
        return (
            Reason(
                code=Code.QUOTA_LENT,
                what=owner.name,
                holders=tuple(borrowers[:MOST_NAMES]),
                holder_count=len(borrowers),
                until=until,
                needed=pending.shape.total_milli / WHOLE,
            ),
        )

    def _borrowers(self, team: TeamUse, need: int) -> tuple[list[str], bool]:
        """Who holds what is promised to a team that needs so much, and whether any may be stopped.

        The same for all its jobs of that size until someone starts or ends.
        """
        by_team, held = self._held_by_team(), self._state.held
        known = self._debts.get((team.name, need))
        if known is None:
            teams = self._state.ledger.teams
            over = [name for name, use in teams.items() if use.is_debtor(team, need)]
            names = sorted(name for debtor in over for name in by_team.get(debtor, ()))
            may_stop = any(held[name].job.preemptible for name in names)
            known = self._debts[team.name, need] = (names, may_stop)
        return known

    def _held_by_team(self) -> dict[str, list[str]]:
        """Ids of the jobs that hold something, by team, as things stand."""
        changes = self._state.ledger.changes
        if self._teams_at != changes:
            self._teams_at, self._by_team = changes, {}
            self._debts.clear()
            for name, held in self._state.held.items():
                self._by_team.setdefault(held.job.team, []).append(name)
        return self._by_team

    def _behind(self, job: Job, pending: PendingJob, allowed: Mask | None) -> Reason | None:
        """Say whether it would have started if nobody had come before it in this pass."""
        if self._first is None or not self._had_room(job, pending, allowed, self._first):
            return None
        started, claims = self._result.started, self._result.claims
        names = [one.waiting.job.id for one, _, _ in started[:MOST_NAMES]]
        names.extend(list(claims)[: MOST_NAMES - len(names)])
        count = len(started) + len(claims)
        return Reason(
            code=Code.BEHIND_JOBS,
            needed=pending.shape.total_milli / WHOLE,
            free=_free_gpus(self._first, pending.shape),
            what=_room_words(self._first, pending.shape),
            holders=tuple(names),
            holder_count=count,
            ahead=count,
        )

    def _had_room(
        self, job: Job, pending: PendingJob, allowed: Mask | None, first: Capacity
    ) -> bool:
        """Say whether there was room for it when the pass began."""
        key = self._alike(job, pending)
        is_general = allowed is None
        if is_general and key in self._before:
            return self._before[key]
        if self._state.windows:
            now = self._state.now
            deadlines = self._state.windows.deadlines(job, now)
            open_rows: Mask = deadlines >= now + pending.bound
            allowed = open_rows if allowed is None else open_rows & allowed
        had = place(first, pending.shape, style=self._state.policy.style, allowed=allowed)
        if is_general:
            self._before[key] = had is not None
        return had is not None

    def _capacity(self, shape: Shape, opening: Opening | None) -> Reason:
        capacity = self._state.capacity
        code, free, block = self._shortage(shape)
        holders = opening.holders if opening else ()
        reason = Reason(
            code=code,
            needed=shape.total_milli / WHOLE,
            free=free,
            holders=holders[:MOST_NAMES],
            holder_count=len(holders),
            until=self._until(opening),
            what=_what_words(shape),
            facts=(("block", f"{block:g}"),),
        )
        if reason.code is Code.NOT_TOGETHER:
            best, most = self._best_group(shape)
            return replace(
                reason,
                needed=shape.node_count,
                free=most,
                what=amount_words(shape),
                facts=(("label", shape.same), ("best", best)),
            )
        if reason.code is Code.NODE_SHARED:
            empty = np.count_nonzero(capacity.fits(shape, shape.any_mask()))
            return Reason(
                code=reason.code,
                needed=shape.node_count,
                free=int(empty),
                holders=reason.holders,
                holder_count=reason.holder_count,
                until=reason.until,
            )
        return reason

    def _shortage(self, shape: Shape) -> tuple[Code, float, float]:
        """What is short, the GPUs that are free, and the largest block of them on one node."""
        version = (len(self._result.started), len(self._result.claims))
        known = self._shortages.get(shape.index)
        if known is None or known[0] != version:
            capacity = self._state.capacity
            code, free = _shortage(capacity, shape), _free_gpus(capacity, shape)
            known = (version, code, free, _largest_block(capacity, shape))
            self._shortages[shape.index] = known
        return known[1:]

    def _until(self, opening: Opening | None) -> float | None:
        """When the holders are expected to be gone, as a forecast has it."""
        if opening is None:
            return None
        state = self._state
        ends = [
            end_of(held, state.now, state.durations, EXPECTED)
            for name in opening.holders
            if (held := state.held.get(name)) is not None
        ]
        return min(max(ends, default=opening.at), opening.at)

    def _best_group(self, shape: Shape) -> tuple[str, int]:
        """The value of the label under which most nodes have room now, and how many."""
        able = self._state.capacity.fits(shape, shape.any_mask() & self._state.table.up)
        table = self._state.table
        found = [(int(able[rows].sum()), rows) for rows in table.groups(shape.same)]
        most, rows = max(found, key=lambda one: one[0])
        return f"`{table.nodes[int(rows[0])].label(shape.same)}`", most

    def _opening(
        self, job: Job, pending: PendingJob, allowed: Mask | None, *, leases: bool = True
    ) -> Opening | None:
        if self._openings_at != len(self._result.started):
            self._openings = ReservationSet(self._state, names=True)
            self._openings_at = len(self._result.started)
        asked = (job, pending.shape, pending.bound, allowed)
        self._openings.minds_leases = leases
        opening = self._openings.earliest(*asked)
        if (opening is None or not opening.holders) and self._first and self._result.claims:
            # Those whom others stop for keep the room: say who must leave it first.
            capacity = self._first.copy()
            for _, held, _ in self._result.started:
                capacity.take(held.shape, held.parts)
            unclaimed = ReservationSet(self._state, names=True, capacity=capacity)
            unclaimed.minds_leases = leases
            opening = unclaimed.earliest(*asked)
        return opening

    def _leased(
        self, job: Job, pending: PendingJob, opening: Opening | None
    ) -> tuple[Reason, ...]:
        """Add the lease that is in the way where the holders leave room first."""
        windows, now = self._state.windows, self._state.now
        if not windows or opening is None:
            return ()
        deadlines = windows.deadlines(job, now)
        for row, _ in opening.parts:
            lease = windows.foreign(job, row, now)
            if lease is not None and deadlines[row] < now + pending.bound:
                return (_lease_reason(lease, now),)
        return ()

    def _unhealthy(self, shape: Shape) -> tuple[Reason, ...]:
        """Add that nodes out of service would have helped."""
        table = self._state.table
        rows = np.flatnonzero(shape.any_mask() & ~table.up)
        if not len(rows):
            return ()
        names = ", ".join(
            f"{table.nodes[row].name or table.ids[row]} ({table.nodes[row].state_words})"
            for row in rows[:5]
        )
        return (Reason(code=Code.MORE_NODES_OUT, what=names, needed=shape.node_count),)


def _lease_reason(lease: Lease, now: float) -> Reason:
    if lease.starts_at <= now:
        return Reason(
            code=Code.LEASED_TO_OTHERS,
            what=lease.label,
            until=lease.ends_at,
            facts=(("team", lease.team),),
        )
    return Reason(
        code=Code.RUNS_INTO_LEASE,
        what=lease.label,
        until=lease.starts_at,
        free=lease.starts_at - now,
    )


def _free_gpus(capacity: Capacity, shape: Shape) -> float:
    """GPUs free on nodes of the right kind."""
    rows = capacity.open & shape.any_mask()
    if shape.is_fraction:
        return float(capacity.gpu[rows].sum()) / WHOLE
    return float(capacity.whole[rows].sum())


def _largest_block(capacity: Capacity, shape: Shape) -> float:
    rows = capacity.open & shape.any_mask()
    if not rows.any():
        return 0.0
    if shape.is_fraction:
        return float(capacity.largest[rows].max()) / WHOLE
    return float(capacity.whole[rows].max())


def _shortage(capacity: Capacity, shape: Shape) -> Code:
    """Name what is short: GPUs, blocks of them, what goes beside them, empty nodes, neighbours."""
    if (
        shape.same
        and int(np.count_nonzero(capacity.fits(shape, shape.any_mask()))) >= shape.node_count
    ):
        return Code.NOT_TOGETHER
    if shape.exclusive:
        return Code.NODE_SHARED
    if not shape.gpus:
        return Code.NO_FREE_CPUS
    free = _free_gpus(capacity, shape)
    if free * WHOLE < shape.total_milli:
        return Code.NO_FREE_GPUS
    rows = capacity.open & shape.any_mask()
    enough = capacity.largest >= shape.milli if shape.is_fraction else capacity.whole >= shape.gpus
    if np.count_nonzero(rows & enough) >= shape.node_count:
        return Code.NO_FREE_CPU_OR_MEMORY
    return Code.FRAGMENTED


def _room_words(capacity: Capacity, shape: Shape) -> str:
    """Say what was free for a job of this shape."""
    if not shape.gpus:
        return "CPUs and memory"
    return f"{_free_gpus(capacity, shape):g} GPUs"


def _what_words(shape: Shape) -> str:
    words = amount_words(shape)
    return f"{shape.node_count} nodes with {words} each" if shape.node_count > 1 else words
