"""The scheduler: a line of waiting jobs over a state of the yard.

Owns Scheduler, which takes a snapshot, and can then be told of jobs that come and go. `decide`
answers a whole snapshot; the simulator steps the same object forward. No I/O, no clock, no
randomness.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from math import inf

import numpy as np

from trackyard.core.job import Job, JobState
from trackyard.core.reasons import Code, Reason
from trackyard.scheduling.backfill import ReservationSet
from trackyard.scheduling.crowd import Crowd
from trackyard.scheduling.decisions import (
    Admission,
    Decisions,
    Ranking,
    Reservation,
    RoomClaim,
    Stop,
)
from trackyard.scheduling.gate import moment, rows_of, standing
from trackyard.scheduling.order.bucket import Bucket
from trackyard.scheduling.order.columns import ColumnLine, JobColumns
from trackyard.scheduling.order.line import Entry, JobLine
from trackyard.scheduling.order.pending import Measurer, PendingJob
from trackyard.scheduling.passing import PassResult, SchedulingPass
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import Mask, Shape
from trackyard.scheduling.policy import Backfill, QueueOrder
from trackyard.scheduling.snapshot import Snapshot, WaitingJob
from trackyard.scheduling.state import HeldJob, PassState

#: Shares of use move slowly; stretching lengths by them more often only costs time.
_STRETCH_EVERY_SECONDS = 300.0


class PassScheduler:
    """Waiting jobs in buckets over the state of the yard."""

    def __init__(
        self, snapshot: Snapshot, *, keep_fragmentation: bool = True, is_lasting: bool = True
    ) -> None:
        self.state = PassState(snapshot)
        #: whether time will pass for it, so that jobs must be watched for becoming overdue
        self._is_lasting = is_lasting
        self._noted: dict[str, str] = {}
        self._outcomes = dict(snapshot.outcomes)
        self._first_waiting = snapshot.waiting
        self._buckets: dict[Hashable, Bucket] = {}
        self._gates: dict[Hashable, Reason | None] = {}
        self._where: dict[str, tuple[Bucket, Entry]] = {}
        self._gated: dict[str, tuple[PendingJob, Reason]] = {}
        #: the ordinary part of the line, where it is seen once
        self._crowd: Crowd | None = None
        #: buckets that may hold someone
        self._active: list[Bucket] = []
        self._fresh: dict[int, Bucket] = {}
        self._everything_changed = True
        #: in strict order a newcomer must be compared with everyone
        self._is_strict = snapshot.policy.backfill is Backfill.STRICT
        self._reservations = ReservationSet(self.state)
        self._sequence = 0
        self._stretched_at = float("-inf")
        self._lease_change = self.state.windows.changes_after(snapshot.now)
        self._by_user = _queues_by_user(snapshot)
        self._users_matter = self.state.windows.is_personal
        self._has_leases = bool(self.state.windows)
        self._orders = {
            queue.name: queue.order or snapshot.policy.order for queue in snapshot.queues
        }
        self._checked = {
            queue.name for queue in snapshot.queues if queue.max_wall_seconds is not None
        }
        everyone = snapshot.waiting
        self._load(list(enumerate(everyone)) if is_lasting else self._load_plain(everyone))
        self._sequence = len(everyone)
        if keep_fragmentation:
            self.state.fragmentation = self._learn_fragmentation()

    @property
    def waiting_count(self) -> int:
        """How many jobs wait."""
        return len(self._where) + len(self._gated)

    @cached_property
    def _ids(self) -> set[str]:
        """Ids of all that ever waited here; few ask."""
        return {one.job.id for one in self._first_waiting}

    def submit(self, waiting: WaitingJob) -> None:
        """Put a job into the line."""
        pending = self._measure(waiting)
        self._ids.add(waiting.job.id)
        if waiting.stopped_for:
            self.state.stoppers.add(waiting.stopped_for)
        reason = self._moment(waiting.job)
        if reason is not None:
            self._gated[waiting.job.id] = (pending, reason)
            return
        self._enter(pending)

    def finish(self, job: str, *, at: float, outcome: JobState = JobState.SUCCEEDED) -> HeldJob:
        """Take back what a job held until this moment, when it ended so."""
        self._everything_changed = True
        # Its team used it up to now, and not up to the last time that someone looked.
        self.state.ledger.advance(at, self.state.policy.half_life_seconds)
        if self._gated:
            self._outcomes[job] = outcome
        self.state.ended(job)
        return self.state.release(job)

    def next_release(self, now: float) -> float:
        """Return the next moment at which a job's own start time comes."""
        times = (pending.waiting.job.not_before for pending, _ in self._gated.values())
        return min((time for time in times if time > now), default=inf)

    def step(self, now: float, *, explain: bool = False) -> PassResult:
        """Decide at this moment; what starts is held, what stops is released."""
        self._advance(now)
        if self._everything_changed or explain or self._is_strict:
            self._active = buckets = [bucket for bucket in self._active if bucket.line]
            self._reservations = ReservationSet(self.state)
        else:
            buckets = list(self._fresh.values())
        for bucket in buckets:
            if bucket.closed is not None or bucket.skips:
                bucket.reopen()
        for bucket in self._fresh.values():
            bucket.is_fresh = False
        self._fresh.clear()
        self._everything_changed = False
        walk = SchedulingPass(self.state, explain=explain, reservations=self._reservations)
        if explain:
            self._renew_claims(walk)
        result = walk.run(list(buckets), self._crowd)
        for pending, _, _ in result.started:
            self._where.pop(pending.waiting.job.id, None)
        for job in result.claims:
            self._where.pop(job, None)
        if result.stopped:
            self._everything_changed = True
        return result

    def decide(self, now: float) -> Decisions:
        """Decide at this moment, with a reason for every job left waiting."""
        result = self.step(now, explain=True)
        grace = self.state.policy.preemption.grace_seconds
        return Decisions(
            admissions=tuple(
                Admission(
                    job=held.job.id,
                    placement=self.state.placement(held.shape, held.parts),
                    predicted_seconds=pending.bound,
                    backfilled=passed,
                )
                for pending, held, passed in result.started
            ),
            stops=tuple(
                Stop(
                    job=held.job.id,
                    for_job=claimant,
                    cause=cause,
                    grace_seconds=grace,
                    lost_seconds=held.lost_seconds(now),
                )
                for held, claimant, cause in result.stopped
            ),
            reservations=tuple(
                Reservation(
                    job=kept.pending.waiting.job.id,
                    at=kept.at,
                    placement=self.state.placement(kept.pending.shape, list(kept.parts)),
                )
                for kept in self._reservations.kept
            ),
            claims=tuple(
                RoomClaim(
                    job=pending.waiting.job.id,
                    at=at,
                    placement=self.state.placement(pending.shape, parts),
                    predicted_seconds=pending.bound,
                )
                for pending, parts, at in result.claimed
            ),
            reasons=self._reasons(result),
            line=Ranking(lambda: self._line(result)),
        )

    def _load_plain(self, everyone: Sequence[WaitingJob]) -> list[tuple[int, WaitingJob]]:
        """Take in all ordinary jobs in columns; return the others."""
        checked, known, spent = self._checked, self._orders, self.state.ledger.spent
        special = [
            (number, one)
            for number, one in enumerate(everyone)
            if one.avoid
            or one.engine_note
            or one.is_owed
            or (job := one.job).queue in checked
            or job.queue not in known
            or job.held
            or job.dependencies
            or job.not_before
            or job.lease
            or job.array_cap
            or job.part_of
            or job.team in spent
        ]
        state = self.state
        shapes = state.table.shapes([one.job.request for one in everyone])
        if len(special) == len(everyone):
            return special
        plain, numbers = list(everyone), list(range(len(everyone)))
        if special:
            apart = {number for number, _ in special}
            numbers = [number for number in numbers if number not in apart]
            plain = [everyone[number] for number in numbers]
            shapes = [shapes[number] for number in numbers]
        columns = JobColumns(
            plain,
            numbers=numbers,
            shapes=shapes,
            durations=state.durations,
            policy=state.policy,
            orders=known,
            by_user=frozenset(known) if self._users_matter else self._by_user,
            by_preemptible=self._has_leases or state.ledger.has_quotas,
        )
        preemption = state.policy.preemption
        self._crowd = Crowd(
            columns,
            ledger=state.ledger,
            orders=known,
            gate_of=self._gate,
            bucket_of=self._column_bucket,
            # Strict order names the head to all behind it, and stops without grace give back.
            answers_limits=not self._is_strict
            and (preemption.grace_seconds > 0 or not preemption.is_on),
        )
        return special

    def _column_bucket(self, pending: PendingJob, line: ColumnLine) -> Bucket:
        bucket = self._new_bucket(pending, self._order(pending.waiting.job.queue), line)
        self._buckets["columns", bucket.number] = bucket
        self._active.append(bucket)
        return bucket

    def _find(self, jobs: set[str]) -> None:
        """Note where these jobs of the columns stand."""
        if self._crowd is not None:
            self._crowd.find(jobs)
        for bucket in self._active:
            if isinstance(bucket.line, ColumnLine):
                for job, entry in zip(bucket.line.ids(), bucket.line, strict=True):
                    if job in jobs:
                        self._where[job] = (bucket, entry)

    def _load(self, waiting: list[tuple[int, WaitingJob]]) -> None:
        """Take in a whole line at once; the same as submitting each, in one tight loop."""
        members: dict[int, list[Entry]] = {}
        touched: list[Bucket] = []
        shape_of, where, checked = self.state.table.shape, self._where, self._checked
        measure_of = Measurer(self.state.durations)
        default, orders = self.state.policy.order, self._orders
        spent = self.state.ledger.spent
        for number, one in waiting:
            job = one.job
            order = orders.get(job.queue, default)
            shape = shape_of(job.request)
            pending = measure_of(one, shape, number, order)
            is_special = job.held or job.dependencies or job.not_before or job.lease
            if is_special or job.queue in checked or job.team in spent:
                reason = self._moment(job)
                if reason is not None:
                    self._gated[job.id] = (pending, reason)
                    continue
            bucket = self._bucket(pending, order)
            entry = bucket.entry(pending, self.state.ledger)
            where[job.id] = (bucket, entry)
            if one.engine_note:
                self._noted[job.id] = one.engine_note
            known = members.get(bucket.number)
            if known is None:
                members[bucket.number] = [entry]
                touched.append(bucket)
            else:
                known.append(entry)
        for bucket in touched:
            bucket.line = JobLine(members[bucket.number])
        self._active.extend(touched)

    def _measure(self, waiting: WaitingJob) -> PendingJob:
        self._sequence += 1
        job = waiting.job
        shape = self.state.table.shape(job.request)
        measure = Measurer(self.state.durations)
        return measure(waiting, shape, self._sequence, self._order(job.queue))

    def _order(self, queue_name: str) -> QueueOrder:
        return self._orders.get(queue_name, self.state.policy.order)

    def _enter(self, pending: PendingJob) -> None:
        bucket = self._bucket(pending, self._order(pending.waiting.job.queue))
        entry = bucket.entry(pending, self.state.ledger)
        bucket.line.add(entry)
        self._where[pending.waiting.job.id] = (bucket, entry)
        if len(bucket.line) == 1 and bucket not in self._active:
            self._active.append(bucket)
        if not bucket.is_fresh:
            bucket.is_fresh = True
            self._fresh[bucket.number] = bucket

    def _bucket(self, pending: PendingJob, order: QueueOrder) -> Bucket:
        waiting = pending.waiting
        job = waiting.job
        # Adding 0 turns the class into a plain number, which hashes ten times faster.
        signature: Hashable = (job.queue, job.team, job.priority + 0, pending.shape.index)
        if (
            self._users_matter
            or job.lease
            or waiting.avoid
            or job.array_cap
            or job.queue in self._by_user
        ):
            signature = (signature, job.user, job.lease, job.array, job.array_cap, waiting.avoid)
        if job.preemptible and (self._has_leases or self.state.ledger.has_quotas):
            # It can be drained before others' lease and from lent nodes, and may borrow quota.
            signature = (signature, "preemptible")
        if job.part_of:
            signature = (signature, job.part_of)
        if waiting.is_owed:
            signature = (signature, "owed")
        bucket = self._buckets.get(signature)
        if bucket is None:
            bucket = self._buckets[signature] = self._new_bucket(pending, order)
        return bucket

    def _new_bucket(
        self, pending: PendingJob, order: QueueOrder, line: ColumnLine | None = None
    ) -> Bucket:
        state, waiting = self.state, pending.waiting
        queue = state.ledger.queues.get(waiting.job.queue)
        return Bucket(
            waiting.job,
            shape=pending.shape,
            order=order,
            team=state.ledger.team(waiting.job.team),
            rank=0 if queue is None else queue.rank,
            number=len(self._buckets),
            gate=self._gate(waiting, pending.shape),
            allowed=self._allowed(waiting),
            line=line,
            is_owed=waiting.is_owed,
        )

    def _gate(self, waiting: WaitingJob, shape: Shape) -> Reason | None:
        """Why jobs like this one cannot run here at all; found once for those alike."""
        job = waiting.job
        if job.lease or waiting.avoid:
            return self._standing(waiting, shape)
        alike: Hashable = (job.queue, job.team, job.preemptible, shape.index)
        if shape.is_known_sound:
            size = (shape.node_count, shape.total_milli)
            alike = (job.queue, job.team, job.preemptible, *size, "sound")
        if alike not in self._gates:
            self._gates[alike] = self._standing(waiting, shape)
        return self._gates[alike]

    def _standing(self, waiting: WaitingJob, shape: Shape) -> Reason | None:
        state = self.state
        return standing(
            waiting,
            shape=shape,
            table=state.table,
            ledger=state.ledger,
            windows=state.windows,
            now=state.now,
        )

    def _allowed(self, waiting: WaitingJob) -> Mask | None:
        """Rows that are not closed by its own past or by the lease it asks for; None: all."""
        if not (waiting.avoid or waiting.job.lease):
            return None
        table = self.state.table
        mask: Mask | None = None
        if waiting.avoid:
            mask = ~rows_of(table, waiting.avoid)
        lease = self.state.windows.leases.get(waiting.job.lease)
        if lease is not None:
            inside = rows_of(table, lease.nodes)
            mask = inside if mask is None else mask & inside
        return mask

    def _moment(self, job: Job) -> Reason | None:
        if job.queue not in self.state.ledger.queues:
            return None
        return moment(
            job,
            ledger=self.state.ledger,
            windows=self.state.windows,
            state_of=self._state_of,
            now=self.state.now,
        )

    def _state_of(self, job: str) -> JobState | None:
        if job in self.state.held:
            return JobState.RUNNING
        known = self._outcomes.get(job)
        if known is None and job in self._ids:
            return JobState.QUEUED
        return known

    def _advance(self, now: float) -> None:
        """Let time pass: use decays, leases begin and end."""
        state, policy = self.state, self.state.policy
        state.now = now
        state.ledger.advance(now, policy.half_life_seconds)
        if policy.share_stretch > 1 and now - self._stretched_at >= _STRETCH_EVERY_SECONDS:
            state.ledger.stretch(policy.share_stretch)
            self._stretched_at = now
        if now >= self._lease_change:
            self._lease_change = state.windows.changes_after(now)
            self._everything_changed = True
        if self._gated:
            self._recheck()

    def _recheck(self) -> None:
        for job, (pending, _) in list(self._gated.items()):
            reason = self._moment(pending.waiting.job)
            if reason is None:
                del self._gated[job]
                self._enter(pending)
            else:
                self._gated[job] = (pending, reason)

    def _renew_claims(self, walk: SchedulingPass) -> None:
        """Keep for each claimant what its victims are still giving up."""
        victims: dict[str, list[HeldJob]] = {}
        claimants = {held.stops_for for held in self.state.held.values() if held.stops_for}
        if claimants:
            self._find(claimants)
        for held in self.state.held.values():
            if held.stops_for in self._where:
                victims.setdefault(held.stops_for, []).append(held)
        for claimant in sorted(victims):
            bucket, entry = self._where[claimant]
            until = max(held.ends_by(self.state.now) for held in victims[claimant])
            if walk.claim(entry[4], victims[claimant], until):
                bucket.line.remove(entry)

    def _learn_fragmentation(self) -> Fragmentation | None:
        """Take what waits and runs as the jobs usually seen here."""
        if self.state.table.count < 2:
            return None
        weights = Counter[Shape](held.shape for held in self.state.held.values())
        demand: dict[Shape, float] = {shape: float(count) for shape, count in weights.items()}
        for bucket in self._buckets.values():
            if bucket.gate is None and not isinstance(bucket.line, ColumnLine):
                demand[bucket.shape] = demand.get(bucket.shape, 0.0) + len(bucket.line)
        if self._crowd is not None:
            for shape, size in self._crowd.demand().items():
                demand[shape] = demand.get(shape, 0.0) + size
        # In one order, whichever way the line was read: sums of fractions depend on it.
        listed = sorted(demand.items(), key=lambda pair: pair[0].index)
        return Fragmentation(self.state.table, listed)

    def _reasons(self, result: PassResult) -> dict[str, tuple[Reason, ...]]:
        reasons = self._crowd.reasons() if self._crowd is not None else {}
        reasons.update((job, (reason,)) for job, reason in result.claims.items())
        for job, (_, reason) in self._gated.items():
            reasons[job] = (reason,)
        for bucket in self._active:
            if not len(bucket.line):
                continue
            if bucket.gate is not None or not bucket.skips:
                known = (bucket.gate,) if bucket.gate is not None else self._closing(bucket)
                reasons.update(dict.fromkeys(bucket.line.ids(), known))
            else:
                for job, bound in zip(bucket.line.ids(), bucket.line.bounds(), strict=True):
                    reasons[job] = self._skipped(bucket, bound)
        for job, note in self._noted.items():
            if job in reasons:
                reasons[job] = (*reasons[job], Reason(code=Code.ENGINE_REFUSED, what=note))
        return reasons

    def _line(self, result: PassResult) -> tuple[str, ...]:
        """Order all that still wait, claimants first, those who cannot run last."""
        ledger = self.state.ledger
        if self._crowd is not None:
            self._crowd.rest()
        buckets = [bucket for bucket in self._active if len(bucket.line)]
        sizes = [len(bucket.line) for bucket in buckets]
        keys = [key for bucket in buckets for key in bucket.line.measures()]
        if not keys:
            return (*sorted(result.claims), *sorted(self._gated))
        heads = np.array(
            [
                (bucket.gate is not None, *bucket.key(_head(bucket), ledger)[:3])
                for bucket in buckets
            ],
            dtype=np.float64,
        )
        stretch = np.repeat([bucket.scale(ledger) for bucket in buckets], sizes, axis=0)
        own = np.array(keys)
        measure = own[:, 0] * stretch[:, 0] + stretch[:, 1]
        columns = np.repeat(heads, sizes, axis=0)
        order = np.lexsort((own[:, 2], own[:, 1], measure, *columns.T[::-1]))
        ids = [job for bucket in buckets for job in bucket.line.ids()]
        line = [ids[at] for at in order]
        return (*sorted(result.claims), *line, *sorted(self._gated))

    def _closing(self, bucket: Bucket) -> tuple[Reason, ...]:
        """Why a bucket's line did not move; limits in the numbers that the pass ended with."""
        assert bucket.closed is not None
        if bucket.is_limited:
            reason = self.state.ledger.block(bucket.job, bucket.shape)
            return bucket.closed if reason is None else (reason,)
        return bucket.closed

    def _skipped(self, bucket: Bucket, bound: float) -> tuple[Reason, ...]:
        """Why a job of a bucket that was passed over by length waits."""
        for threshold, reasons in bucket.skips:
            if bound > threshold:
                return reasons
        return self._closing(bucket)


def _head(bucket: Bucket) -> Entry:
    entry = bucket.line.first()
    assert entry is not None
    return entry


def _queues_by_user(snapshot: Snapshot) -> frozenset[str]:
    """Queues whose limits tell users apart."""
    return frozenset(
        queue.name
        for queue in snapshot.queues
        if queue.max_gpus_per_user is not None or queue.max_running_per_user is not None
    )


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile.

    Tens of thousands of small objects are made and none is garbage: collecting costs a third.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def decide(snapshot: Snapshot) -> Decisions:
    """Decide what starts, what stops and what is kept, and say why the rest waits."""
    with uncollected():
        return PassScheduler(snapshot, is_lasting=False).decide(snapshot.now)
