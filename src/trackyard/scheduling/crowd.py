"""The ordinary part of a long line, for a pass that sees it once.

Owns Crowd: groups of alike jobs in the order of their heads. A group becomes a bucket when its
turn comes; one that a fault or a limit holds back never does, nor one of which the pass says at
once why it waits. What a limit holds back it holds back for the rest of the pass, for a pass only
adds to what is held.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trackyard.core.job import Job
from trackyard.core.reasons import Reason
from trackyard.scheduling.order.bucket import WITHIN_QUOTA, Bucket, Key, scale
from trackyard.scheduling.order.columns import ColumnLine, JobColumns
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.table import Floats, Ints, Shape
from trackyard.scheduling.policy import QueueOrder
from trackyard.scheduling.shares.departments import TeamUse
from trackyard.scheduling.shares.quota import QuotaLedger
from trackyard.scheduling.snapshot import WaitingJob


class Crowd:
    """The groups of a Columns: those to look at in turn, and those already answered."""

    def __init__(
        self,
        columns: JobColumns,
        *,
        ledger: QuotaLedger,
        orders: dict[str, QueueOrder],
        gate_of: Callable[[WaitingJob, Shape], Reason | None],
        bucket_of: Callable[[PendingJob, ColumnLine], Bucket],
        answers_limits: bool,
    ) -> None:
        self._columns = columns
        self._ledger = ledger
        self._orders = orders
        self._bucket_of = bucket_of
        self._answers_limits = answers_limits
        self._heads = columns.heads.tolist()
        self._jobs = [columns.waiting[head].job for head in self._heads]
        self._shapes = [columns.shapes[head] for head in self._heads]
        #: what limits tell groups apart by, as a number; and for each whether one was reached
        self._alike: list[int] = columns.limited_alike.tolist()
        self._reached: dict[int, bool] = {}
        self._reached_at = -1
        self._taken = [False] * len(self._heads)
        #: why groups wait whose turn came and of which no bucket was made
        self._answers: dict[int, tuple[Reason, ...]] = {}
        self._gates = self._find_gates(gate_of)
        self._queue: list[int] = []
        self._keys: list[Key] = []
        self._next = 0
        #: what each kind stood by when lined up, and whether it still does
        self._first_standing: dict[int, tuple[float, ...]] = {}
        self._placed: dict[int, bool] = {}
        self._placed_at = -1

    def demand(self) -> dict[Shape, float]:
        """Jobs by shape, those with a fault left out."""
        found: dict[Shape, float] = {}
        sizes = self._columns.sizes.tolist()
        for group, shape in enumerate(self._shapes):
            if self._gates[group] is None:
                found[shape] = found.get(shape, 0.0) + sizes[group]
        return found

    def line_up(self) -> None:
        """Sort the groups by their heads, as things stand."""
        columns, heads = self._columns, self._columns.heads
        borrowing, ranks, factors, addends = self._by_kind()
        measure: Floats = columns.measure[heads] * factors + addends
        level: Ints = -columns.level[heads]
        submitted = columns.submitted[heads]
        sequence = columns.sequence[heads]
        order = np.lexsort((sequence, submitted, measure, ranks, borrowing, level))
        gates = self._gates
        self._queue = [group for group in order.tolist() if gates[group] is None]
        listed = (level, borrowing, ranks, measure, submitted, sequence)
        self._keys = list(zip(*(column.tolist() for column in listed), strict=True))
        self._next = 0

    def peek(self) -> Key | None:
        """Return the key of the next group that no limit holds back, as it was when lined up."""
        queue, taken, alike = self._queue, self._taken, self._alike
        if self._reached_at != self._ledger.changes:
            # Limits once reached stay so; of the others we must ask again.
            self._reached = {kind: True for kind, is_so in self._reached.items() if is_so}
            self._reached_at = self._ledger.changes
        reached = self._reached
        at, end = self._next, len(queue)
        while at < end:
            group = queue[at]
            if not taken[group]:
                is_reached = reached.get(alike[group])
                if is_reached is None:
                    is_reached = reached[alike[group]] = self._is_limited(group)
                if not is_reached:
                    self._next = at
                    return self._keys[group]
            at += 1
        self._next = end
        return None

    def take(self) -> Bucket:
        """Make a bucket of the group that was peeked at."""
        group = self._queue[self._next]
        self._next += 1
        return self._make(group)

    @property
    def answers_limits(self) -> bool:
        """Whether what is refused in this pass stays refused until its end."""
        return self._answers_limits

    def head(self) -> tuple[Job, Shape, TeamUse]:
        """Return the first job of the group that was peeked at, what it asks for, and its team."""
        group = self._queue[self._next]
        job = self._jobs[group]
        return job, self._shapes[group], self._ledger.team(job.team)

    def order(self) -> QueueOrder:
        """Return the order under which the group stands that was peeked at."""
        return self._orders[self._jobs[self._queue[self._next]].queue]

    def pending(self) -> PendingJob:
        """Return the first job of the group that was peeked at, measured."""
        return self._columns.pending(self._heads[self._queue[self._next]])

    def is_in_place(self) -> bool:
        """Say whether the group that was peeked at still stands where it did when lined up."""
        group, changes = self._queue[self._next], self._ledger.changes
        if self._placed_at != changes:
            self._placed_at = changes
            self._placed.clear()
        kind = self._alike[group]
        found = self._placed.get(kind)
        if found is None:
            # What moves a group is the same for all whom limits take to be alike.
            found = self._placed[kind] = self._standing_of(group) == self._first_standing[kind]
        return found

    def _standing_of(self, group: int) -> tuple[float, ...]:
        """Standing, the queue's rank, and what turns a measure into one for all lines."""
        ledger, job = self._ledger, self._jobs[group]
        use = ledger.team(job.team)
        standing = WITHIN_QUOTA + use.borrowing(self._shapes[group].total_milli)
        scales = scale(self._orders[job.queue], use, ledger)
        return (standing, ledger.queues[job.queue].rank, *scales)

    def answer(self, reasons: tuple[Reason, ...]) -> None:
        """Say why the group that was peeked at waits, and go on to the next."""
        self._answers[self._queue[self._next]] = reasons
        self._next += 1

    def find(self, jobs: set[str]) -> list[Bucket]:
        """Make buckets of the groups that these jobs are in."""
        ids, columns = self._columns.ids, self._columns
        return [
            self._make(group)
            for group, is_taken in enumerate(self._taken)
            if not is_taken and any(ids[row] in jobs for row in columns.rows(group))
        ]

    def rest(self) -> list[Bucket]:
        """Make buckets of all groups whose turn never came."""
        return [self._make(group) for group, taken in enumerate(self._taken) if not taken]

    def reasons(self) -> dict[str, tuple[Reason, ...]]:
        """Why the jobs wait whose turn never came."""
        ids_of = self._columns.ids_of
        limits: dict[int, tuple[Reason, ...]] = {}
        found: dict[str, tuple[Reason, ...]] = {}
        for group, is_taken in enumerate(self._taken):
            if is_taken:
                continue
            gate, kind = self._gates[group], self._alike[group]
            answer: tuple[Reason, ...]
            if gate is not None:
                answer = (gate,)
            elif group in self._answers:
                answer = self._answers[group]
            elif kind in limits:
                answer = limits[kind]
            else:
                reason = self._ledger.block(self._jobs[group], self._shapes[group])
                assert reason is not None, "a pass only adds to what is held"
                answer = limits[kind] = (reason,)
            found.update(dict.fromkeys(ids_of(group), answer))
        return found

    def _find_gates(
        self, gate_of: Callable[[WaitingJob, Shape], Reason | None]
    ) -> list[Reason | None]:
        waiting = self._columns.waiting
        team_of, known = self._ledger.team, set[str]()
        for job in self._jobs:
            if job.team not in known:
                # Whoever waits counts among those who share, also while a fault holds it back.
                known.add(job.team)
                team_of(job.team)
        answers: dict[tuple[int, int], Reason | None] = {}
        found = []
        for head, shape, kind in zip(self._heads, self._shapes, self._alike, strict=True):
            alike = (kind, shape.node_count)
            if shape.is_known_sound and alike in answers:
                found.append(answers[alike])
                continue
            gate = gate_of(waiting[head], shape)
            found.append(gate)
            if shape.is_known_sound:
                answers[alike] = gate
        return found

    def _is_limited(self, group: int) -> bool:
        if not self._answers_limits:
            return False
        return self._ledger.is_blocked(self._jobs[group], self._shapes[group])

    def _by_kind(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Standing, the queue's rank, and what turns a measure into one for all lines."""
        kinds = self._columns.limited_alike
        _, firsts, which = np.unique(kinds, return_index=True, return_inverse=True)
        found = [self._standing_of(group) for group in firsts.tolist()]
        alike = self._alike
        self._first_standing = dict(
            zip([alike[group] for group in firsts.tolist()], found, strict=True)
        )
        table = np.array(found, dtype=np.float64)[which]
        flags, ranks = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        return flags, ranks, table[:, 2], table[:, 3]

    def _make(self, group: int) -> Bucket:
        self._taken[group] = True
        columns, head = self._columns, self._heads[group]
        line = ColumnLine(columns, columns.rows(group))
        return self._bucket_of(columns.pending(head), line)
