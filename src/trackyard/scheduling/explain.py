"""Why a job that reached its turn did not start, with numbers, holders and the time it clears.

Owns Explainer: it asks the state the counterfactual (would it fit without those ahead, without
the leases, without these holders) and says the answer. It decides nothing and never runs when
nobody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE
from trackyard.scheduling.backfill import Opening, Reservations
from trackyard.scheduling.gate import amount_words
from trackyard.scheduling.order.bucket import Bucket
from trackyard.scheduling.order.pending import Pending
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.choose import place
from trackyard.scheduling.place.table import Mask, Shape
from trackyard.scheduling.state import State

if TYPE_CHECKING:
    from trackyard.scheduling.passing import Result

#: Holders named in one reason; the rest is counted.
MOST_NAMES = 32


class Explainer:
    """Finds the reasons of one pass; answers are kept by shape."""

    def __init__(self, state: State, result: Result) -> None:
        self._state = state
        self._result = result
        self._first: Capacity | None = None
        #: by shape: how many had started when the answer was found, and the answer
        self._rooms: dict[tuple[object, ...], tuple[int, tuple[Reason, ...]]] = {}
        self._openings = Reservations(state, names=True)
        self._openings_at = 0

    def freeze(self) -> None:
        """Remember what was free before this pass gave anything away."""
        if self._first is None:
            self._first = self._state.capacity.copy()

    def room(self, bucket: Bucket, pending: Pending) -> tuple[Reason, ...]:
        """Explain a job for which there is no room now."""
        started = len(self._result.started)
        if bucket.allowed is not None:
            return self._explain_room(bucket, pending)
        key: tuple[object, ...] = (pending.shape.index,)
        if self._state.windows:
            # Leases tell holders apart, and long jobs from short ones.
            job = bucket.job
            holder = (job.team, self._user(bucket), job.lease, job.preemptible)
            key = (*key, holder, pending.bound)
        known = self._rooms.get(key)
        if known is None or known[0] != started:
            known = self._rooms[key] = (started, self._explain_room(bucket, pending))
        return known[1]

    def _user(self, bucket: Bucket) -> str:
        return bucket.job.user if self._state.windows.is_personal else ""

    def lease(self, bucket: Bucket, pending: Pending) -> Reason:
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
            lease = min(active, key=lambda lease: (lease.ends_at, lease.id))
            return Reason(
                code=Code.LEASED_TO_OTHERS,
                what=lease.label,
                until=lease.ends_at,
                facts=(("team", lease.team),),
            )
        upcoming = [lease for lease in found if lease.starts_at > state.now]
        lease = max(upcoming, key=lambda lease: (lease.starts_at, lease.id))
        free = lease.starts_at - state.now
        return Reason(
            code=Code.RUNS_INTO_LEASE, what=lease.label, until=lease.starts_at, free=free
        )

    def _explain_room(self, bucket: Bucket, pending: Pending) -> tuple[Reason, ...]:
        behind = self._behind(bucket, pending)
        if behind is not None:
            return (behind,)
        return (self._capacity(bucket, pending), *self._unhealthy(pending.shape))

    def _behind(self, bucket: Bucket, pending: Pending) -> Reason | None:
        """Say whether it would have started if nobody had come before it in this pass."""
        if self._first is None:
            return None
        allowed = bucket.allowed
        if self._state.windows:
            now = self._state.now
            deadlines = self._state.windows.deadlines(bucket.job, now)
            open_rows: Mask = deadlines >= now + pending.bound
            allowed = open_rows if allowed is None else open_rows & allowed
        style = self._state.policy.style
        if place(self._first, pending.shape, style=style, allowed=allowed) is None:
            return None
        started = self._result.started
        names = [one.waiting.job.id for one, _, _ in started[:MOST_NAMES]]
        names.extend(list(self._result.claims)[: MOST_NAMES - len(names)])
        count = len(started) + len(self._result.claims)
        return Reason(
            code=Code.BEHIND_JOBS,
            needed=pending.shape.total_milli / WHOLE,
            free=_free_gpus(self._first, pending.shape),
            holders=tuple(names),
            holder_count=count,
            ahead=count,
        )

    def _capacity(self, bucket: Bucket, pending: Pending) -> Reason:
        shape = pending.shape
        opening = self._opening(bucket, pending)
        capacity = self._state.capacity
        free = _free_gpus(capacity, shape)
        holders = opening.holders if opening else ()
        reason = Reason(
            code=_shortage(capacity, shape),
            needed=shape.total_milli / WHOLE,
            free=free,
            holders=holders[:MOST_NAMES],
            holder_count=len(holders),
            until=opening.at if opening else None,
            what=_what_words(shape),
            facts=(("block", f"{_largest_block(capacity, shape):g}"),),
        )
        if reason.code is Code.NODE_SHARED:
            empty = capacity.fits(shape, shape.any_mask()).sum()
            return Reason(
                code=reason.code,
                needed=shape.node_count,
                free=int(empty),
                holders=reason.holders,
                holder_count=reason.holder_count,
                until=reason.until,
            )
        return reason

    def _opening(self, bucket: Bucket, pending: Pending) -> Opening | None:
        if self._openings_at != len(self._result.started):
            self._openings = Reservations(self._state, names=True)
            self._openings_at = len(self._result.started)
        return self._openings.earliest(bucket.job, pending.shape, pending.bound, bucket.allowed)

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
        return (Reason(code=Code.NODES_UNHEALTHY, what=names, needed=shape.node_count),)


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
    """Name what is short: GPUs at all, blocks of them, what goes beside them, or empty nodes."""
    if shape.exclusive:
        return Code.NODE_SHARED
    if not shape.gpus:
        return Code.NO_FREE_CPU_OR_MEMORY
    free = _free_gpus(capacity, shape)
    if free * WHOLE < shape.total_milli:
        return Code.NO_FREE_GPUS
    rows = capacity.open & shape.any_mask()
    enough = capacity.largest >= shape.milli if shape.is_fraction else capacity.whole >= shape.gpus
    if int((rows & enough).sum()) >= shape.node_count and not shape.same:
        return Code.NO_FREE_CPU_OR_MEMORY
    return Code.FRAGMENTED


def _what_words(shape: Shape) -> str:
    words = amount_words(shape)
    return f"{shape.node_count} nodes with {words} each" if shape.node_count > 1 else words
