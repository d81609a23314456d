"""One pass over the line: who starts, who stops, what is kept, and why the rest does not start.

Owns Pass: the order of steps for one job (quota, room, leases and reservations, victims, a
reservation) and what closes a bucket. The rules themselves live in quota, place, backfill and
preempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE
from trackyard.scheduling.backfill import ReservationSet
from trackyard.scheduling.crowd import Crowd
from trackyard.scheduling.decisions import Cause
from trackyard.scheduling.explain import Explainer
from trackyard.scheduling.order.bucket import Bucket, Key
from trackyard.scheduling.order.line import Entry
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.capacity import Capacity, Part
from trackyard.scheduling.place.choose import place
from trackyard.scheduling.place.table import Mask, Shape
from trackyard.scheduling.policy import Backfill
from trackyard.scheduling.preemption.preempt import PreemptionPlan, VictimSearch
from trackyard.scheduling.state import HeldJob, PassState

_NO_REASONS: tuple[Reason, ...] = ()


@dataclass(slots=True)
class PassResult:
    """What a pass decided, in the scheduler's own terms."""

    #: (job, held, started past an earlier job)
    started: list[tuple[PendingJob, HeldJob, bool]] = field(default_factory=list)
    #: (victim, claimant, why)
    stopped: list[tuple[HeldJob, str, Cause]] = field(default_factory=list)
    #: claimants whose victims are stopping
    claims: dict[str, Reason] = field(default_factory=dict)
    #: what they will have: (claimant, parts, from when on)
    claimed: list[tuple[PendingJob, list[Part], float]] = field(default_factory=list)


class SchedulingPass:
    """One walk over the buckets, best head first."""

    def __init__(self, state: PassState, *, explain: bool, reservations: ReservationSet) -> None:
        self._state = state
        self._capacity = state.capacity
        self._policy = state.policy
        self._preemption = VictimSearch(state)
        self._can_preempt = state.policy.preemption.is_on
        backfill = state.policy.backfill
        self._is_strict = backfill is Backfill.STRICT
        self._is_easy = backfill is Backfill.EASY
        self._depth = state.policy.reservations if backfill is Backfill.CONSERVATIVE else 0
        self.reservations = reservations
        self.result = PassResult()
        self._explainer = Explainer(state, self.result) if explain else None
        self._hopeless: dict[object, list[tuple[int, int, int, int, int]]] = {}
        self._shut: dict[str, str] = {}
        self._passed = False
        self._heap: list[tuple[Key, int, Bucket, Entry]] = []
        #: those whom a limit held back when the pass began, where nobody wants to know why
        self._limited: list[tuple[Key, int, Bucket, Entry]] = []
        self._now_at: Key = (0, 0, 0, 0.0, 0.0, 0)

    def run(self, buckets: Iterable[Bucket], crowd: Crowd | None = None) -> PassResult:
        """Walk until no bucket can start anything more; those of the crowd are made in turn."""
        ledger = self._state.ledger
        heap = self._heap
        room = self._least_useful()
        tells = self._explainer is not None or self._is_strict
        for bucket in buckets:
            entry = bucket.line.first()
            if entry is not None and bucket.gate is None and bucket.shape.least_milli <= room:
                item = (bucket.key(entry, ledger), bucket.number, bucket, entry)
                if not tells and ledger.is_blocked(bucket.job, bucket.shape, bucket.team):
                    self._limited.append(item)
                else:
                    heap.append(item)
        heapify(heap)
        if crowd is not None:
            crowd.line_up()
        while True:
            if crowd is not None:
                self._admit_from(crowd)
            if not heap:
                return self.result
            key, number, bucket, entry = heappop(heap)
            current = bucket.key(entry, ledger)
            if current > key:
                heappush(heap, (current, number, bucket, entry))
                continue
            self._now_at = key
            following = self._visit(bucket, entry)
            if following is not None:
                heappush(heap, (bucket.key(following, ledger), number, bucket, following))

    def _admit_from(self, crowd: Crowd) -> None:
        """Let in the next group of the crowd, if its head goes before everyone here."""
        key = crowd.peek()
        while key is not None and (not self._heap or key < self._heap[0][0]):
            if self._pass_over(crowd):
                key = crowd.peek()
                continue
            bucket = crowd.take()
            entry = bucket.line.first()
            assert entry is not None, "a group has a head"
            current = bucket.key(entry, self._state.ledger)
            heappush(self._heap, (current, bucket.number, bucket, entry))
            key = crowd.peek()

    def _pass_over(self, crowd: Crowd) -> bool:
        """Answer the next group at once, if its turn would only show that there is no room.

        That is so where the like was refused already, nobody may be stopped for it and it has no
        reservation to come: what `_visit` would find, without making a bucket.
        """
        if self._explainer is None or not self._is_easy or not crowd.answers_limits:
            return False
        job, shape, team = crowd.head()
        rights, owner = self.reservations.rights, team.owner
        if (
            not self._is_hopeless(shape)
            or -int(job.priority) not in rights
            or (owner is not None and owner.name not in rights and team.owns(shape))
            or not crowd.is_in_place()
        ):
            return False
        pending = crowd.pending()
        if self._can_preempt and self._preemption.may(pending, crowd.order()):
            return False
        self._passed = True
        crowd.answer(self._explainer.room(job, team, pending, None))
        return True

    def _least_useful(self) -> float:
        """GPU thousandths beyond which no bucket is worth a visit, if room alone counts."""
        if self._explainer or self._can_preempt or self._depth or self._is_easy or self._is_strict:
            return inf
        return self._capacity.whole_total * WHOLE

    def claim(self, pending: PendingJob, victims: list[HeldJob], until: float) -> bool:
        """Keep what these stopping jobs hold for the job they stop for."""
        capacity, shape = self._capacity, pending.shape
        for held in victims:
            capacity.give(held.shape, held.parts)
        parts = self._place_on_freed(shape, victims)
        for held in victims:
            capacity.take(held.shape, held.parts)
        if parts is None:
            return False
        if self._explainer:
            self._explainer.freeze()
        capacity.hold(shape, parts)
        self.result.claimed.append((pending, parts, until))
        # It is as good as started: limits count it.
        self._state.ledger.charge(pending.waiting.job, shape)
        names = tuple(sorted(held.job.id for held in victims))
        self.result.claims[pending.waiting.job.id] = Reason(
            code=Code.PREEMPTING, holders=names, until=until, needed=shape.total_milli / 1000
        )
        return True

    def _place_on_freed(self, shape: Shape, victims: list[HeldJob]) -> list[Part] | None:
        """Place a claimant on what its victims leave, if that is enough for it.

        What is free already may have been freed for someone else, who starts in this pass.
        """
        freed: dict[int, set[int]] = {}
        for held in victims:
            for row, gpus in held.parts:
                freed.setdefault(row, set()).update(gpus)
        capacity = self._capacity
        rows: Mask = np.zeros(capacity.table.count, dtype=np.bool_)
        rows[list(freed)] = True
        parts = self._place(capacity, shape, rows) or self._place(capacity, shape, None)
        if parts is None:
            return None
        return [(row, capacity.pick_among(shape, row, freed.get(row, set()))) for row, _ in parts]

    def _visit(self, bucket: Bucket, entry: Entry) -> Entry | None:
        """Try one job; return the entry of its bucket to look at next, if any."""
        head = self._shut.get(bucket.job.queue)
        if head is not None:
            self._close(
                bucket, Reason(code=Code.BEHIND_HEAD, what=bucket.job.queue, holders=(head,))
            )
            return None
        pending = entry[4]
        ledger = self._state.ledger
        if ledger.is_blocked(pending.waiting.job, pending.shape, bucket.team):
            limit = ledger.block(pending.waiting.job, pending.shape) if self._explainer else None
            bucket.closed = _NO_REASONS if limit is None else (limit,)
            bucket.is_limited = True
            return None
        if self._is_hopeless(pending.shape):
            is_done = self._make_room(bucket, entry)
        else:
            allowed = self._allowed(bucket, pending)
            view = self.reservations.view(self._state.now + pending.bound)
            parts = self._place(view or self._capacity, pending.shape, allowed)
            is_done = parts is not None
            if parts is not None:
                self._start(bucket, entry, parts)
            else:
                is_done = self._refuse(bucket, entry, allowed, view)
        if not is_done:
            return self._after_reservation(bucket, entry)
        return None if bucket.closed is not None else bucket.line.first(bucket.bound)

    def _after_reservation(self, bucket: Bucket, entry: Entry) -> Entry | None:
        """Under conservative backfill later jobs of a full bucket earn reservations too."""
        if len(self.reservations) < self._depth and self._policy.backfill is Backfill.CONSERVATIVE:
            return bucket.line.after(entry)
        return None

    def _place(self, capacity: Capacity, shape: Shape, allowed: Mask | None) -> list[Part] | None:
        return place(
            capacity,
            shape,
            style=self._policy.style,
            fragmentation=self._state.fragmentation,
            allowed=allowed,
            scores_of=self._capacity,
        )

    def _allowed(self, bucket: Bucket, pending: PendingJob) -> Mask | None:
        """Rows that neither its own past nor anyone's lease closes to it."""
        windows = self._state.windows
        if not windows:
            return bucket.allowed
        now = self._state.now
        open_rows: Mask = windows.deadlines(bucket.job, now) >= now + pending.bound
        return open_rows if bucket.allowed is None else open_rows & bucket.allowed

    def _start(self, bucket: Bucket, entry: Entry, parts: list[Part]) -> None:
        state, pending = self._state, entry[4]
        if self._explainer:
            self._explainer.freeze()
        ends_at = state.now + pending.bound
        unended = pending.waiting.stopped_for in state.stoppers
        held = HeldJob(
            pending.waiting.job,
            shape=pending.shape,
            parts=parts,
            started_at=state.now,
            ends_at=ends_at,
            attained=pending.waiting.attained_seconds,
            save_seconds=pending.waiting.save_seconds,
            stops=pending.waiting.stops,
            stopped_for=pending.waiting.stopped_for if unended else "",
        )
        state.hold(held)
        self.reservations.admitted(pending.shape, parts, ends_at)
        bucket.line.remove(entry)
        self.result.started.append((pending, held, self._passed))

    def _refuse(
        self, bucket: Bucket, entry: Entry, allowed: Mask | None, view: Capacity | None
    ) -> bool:
        """Find out why a job cannot start; False when its bucket is closed for lack of room."""
        pending = entry[4]
        if view is not None and self._would_fit(pending, allowed):
            if self._can_preempt and self._preempt(bucket, entry):
                return True
            reason = self._reservation_reason(pending)
            self._reserve(bucket, entry)
            self._shorten(bucket, pending, reason)
            return True
        if self._state.windows and self._would_fit(pending, bucket.allowed):
            self._passed = True
            self._reserve(bucket, entry)
            self._shut_if_strict(bucket, entry)
            self._shorten(bucket, pending, self._lease_reason(bucket, pending))
            return True
        return self._make_room(bucket, entry)

    def _make_room(self, bucket: Bucket, entry: Entry) -> bool:
        """Stop others for a job that finds no room; False: its bucket is closed for lack of it."""
        if self._can_preempt and self._preempt(bucket, entry):
            return True
        self._passed = True
        self._reserve(bucket, entry)
        self._shut_if_strict(bucket, entry)
        self._give_up_on(bucket, entry[4].shape)
        self._close_for_room(bucket, entry[4])
        return False

    def _would_fit(self, pending: PendingJob, allowed: Mask | None) -> bool:
        return self._place(self._capacity, pending.shape, allowed) is not None

    def _reservation_reason(self, pending: PendingJob) -> Reason:
        kept = self.reservations.blocker(self._state.now + pending.bound)
        return Reason(
            code=Code.BEHIND_RESERVATION,
            holders=(kept.pending.waiting.job.id,),
            until=kept.at,
            ahead=1,
        )

    def _lease_reason(self, bucket: Bucket, pending: PendingJob) -> Reason:
        if self._explainer is None:
            return Reason(code=Code.RUNS_INTO_LEASE)
        return self._explainer.lease(bucket, pending)

    def _shorten(self, bucket: Bucket, pending: PendingJob, reason: Reason) -> None:
        """From here on only shorter jobs of this bucket have a chance."""
        now = self._state.now
        threshold = self.reservations.threshold_below(pending.bound)
        if self._state.windows:
            ends = self._state.windows.deadlines(bucket.job, now) - now
            below = ends[ends < pending.bound]
            if len(below):
                threshold = max(threshold, float(below.max()))
        if threshold < 0:
            self._close(bucket, reason)
            return
        bucket.skips.append((threshold, (reason,)))
        bucket.bound = threshold

    def _reserve(self, bucket: Bucket, entry: Entry) -> None:
        """Keep room for a job that finds none, if the policy has a reservation for it."""
        pending = entry[4]
        if len(self.reservations) < self._depth:
            self.reservations.add(pending, bucket.allowed)
            return
        if not self._is_easy:
            return
        # The first of its class has one, and of its team where that is within its quota.
        rights: set[int | str] = {bucket.level}
        owner = bucket.team.owner
        if owner is not None and bucket.team.owns(pending.shape):
            rights.add(owner.name)
        if rights <= self.reservations.rights:
            return
        if self.reservations.add(pending, bucket.allowed) is not None:
            self.reservations.rights |= rights

    def _shut_if_strict(self, bucket: Bucket, entry: Entry) -> None:
        if self._is_strict:
            self._shut[bucket.job.queue] = entry[4].waiting.job.id

    def _preempt(self, bucket: Bucket, entry: Entry) -> bool:
        """Make room by stopping others; True when that works."""
        state, pending = self._state, entry[4]
        if not self._preemption.may(pending, bucket.order):
            return False
        ends_at = state.now + pending.bound
        allowed = self._allowed(bucket, pending)
        view, kept = self.reservations.kept_from(pending.waiting.job, ends_at)
        plan = self._preemption.find(pending, bucket.order, allowed, kept, view)
        if plan is None:
            return False
        claimant = pending.waiting.job.id
        grace = self._policy.preemption.grace_seconds
        if grace > 0:
            return self._claim(bucket, entry, plan)
        for held, _ in plan.victims:
            state.release(held.job.id)
            self.reservations.freed(held.shape, held.parts)
        self._hopeless.clear()
        self._look_again()
        mask = pending.shape.any_mask().copy()
        mask[:] = False
        mask[list(plan.rows)] = True
        parts = self._place(view or self._capacity, pending.shape, mask)
        assert parts is not None, "the plan made room"
        self.result.stopped.extend((held, claimant, cause) for held, cause in plan.victims)
        self._start(bucket, entry, parts)
        return True

    def _look_again(self) -> None:
        """Let those have their turn whom a limit held back, now that someone gave GPUs back."""
        for item in self._limited:
            if item[0] > self._now_at:
                heappush(self._heap, item)
        self._limited.clear()

    def _claim(self, bucket: Bucket, entry: Entry, plan: PreemptionPlan) -> bool:
        state, pending = self._state, entry[4]
        until = state.now + self._policy.preemption.grace_seconds
        if not self.claim(pending, [held for held, _ in plan.victims], until):
            return False
        for held, cause in plan.victims:
            state.victims.spare(held)
            held.stops_at, held.stops_for = until, pending.waiting.job.id
            self.result.stopped.append((held, pending.waiting.job.id, cause))
        bucket.line.remove(entry)
        return True

    def _close(self, bucket: Bucket, reason: Reason) -> None:
        bucket.closed = (reason,)

    def _close_for_room(self, bucket: Bucket, pending: PendingJob) -> None:
        if self._explainer is None:
            bucket.closed = _NO_REASONS
        else:
            bucket.closed = self._explainer.room(bucket.job, bucket.team, pending, bucket.allowed)

    def _is_hopeless(self, shape: Shape) -> bool:
        """Say whether a job that asks for no more of anything was refused already."""
        known = self._hopeless.get(shape.kind)
        if known is None:
            return False
        nodes, gpus, milli, cpu, memory = shape.asked
        for failed in known:
            if (
                gpus >= failed[1]
                and nodes >= failed[0]
                and milli >= failed[2]
                and cpu >= failed[3]
                and memory >= failed[4]
            ):
                return True
        return False

    def _give_up_on(self, bucket: Bucket, shape: Shape) -> None:
        """Remember that there is no room for such a shape, leases and reservations aside."""
        if bucket.allowed is None and not self._is_hopeless(shape):
            known = self._hopeless.setdefault(shape.kind, [])
            if len(known) < 16:
                known.append(shape.asked)
