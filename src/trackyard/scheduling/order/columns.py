"""A whole line of waiting jobs in columns, for a pass that sees it once.

Owns Columns and ColumnLine: the same lengths, bounds and order as Measurer and Line give,
worked out for all jobs together. A job becomes a Pending only when its turn comes, which for
most of a long line is never.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from math import inf
from operator import attrgetter

import numpy as np

from trackyard.scheduling.forecast.durations import DurationModel, level_of
from trackyard.scheduling.order.line import Entry
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.table import Floats, Ints, Mask, Shape
from trackyard.scheduling.policy import Policy, QueueOrder
from trackyard.scheduling.snapshot import WaitingJob

_PRIORITY = attrgetter("priority")


class JobColumns:
    """Measures of many jobs, and the jobs in groups of alike ones, each in order."""

    def __init__(
        self,
        waiting: Sequence[WaitingJob],
        *,
        numbers: Sequence[int],
        shapes: Sequence[Shape],
        durations: DurationModel,
        policy: Policy,
        orders: dict[str, QueueOrder],
        by_user: Collection[str] = (),
        by_preemptible: bool = False,
    ) -> None:
        self.waiting = waiting
        self.numbers = numbers
        self._durations = durations
        self._jobs = jobs = [one.job for one in waiting]
        self.ids = [job.id for job in jobs]
        self.shapes = shapes
        self.submitted: Floats = np.array([job.submitted_at for job in jobs], dtype=np.float64)
        attained: Floats = np.array([one.attained_seconds for one in waiting], dtype=np.float64)
        self._may_stop: Mask = np.array([job.preemptible for job in jobs], dtype=np.bool_)
        self._kinds: Ints = np.array([shape.index for shape in shapes], dtype=np.int64)
        self._known = {shape.index: shape for shape in dict.fromkeys(shapes)}
        queues = _codes([job.queue for job in jobs])
        order_of = [orders[name] for name in queues[1]]
        is_default: Mask = np.array([order is QueueOrder.DEFAULT for order in order_of])[queues[0]]
        is_shortest: Mask = np.array([order is QueueOrder.SHORTEST for order in order_of])[
            queues[0]
        ]
        self.length, self.bound = self._lengths(attained, is_default, is_shortest)
        self.level: Ints = np.fromiter(map(_PRIORITY, jobs), np.int64, len(jobs))
        self.measure: Floats = np.where(is_shortest, self.length, self.submitted)
        if is_default.any():
            length = np.maximum(self.length, policy.shortest_length)
            passing = policy.halving_seconds * np.log2(length / policy.shortest_length)
            self.measure = np.where(is_default, self.submitted + attained + passing, self.measure)
        self.sequence: Ints = np.array(self.numbers, dtype=np.int64)
        code, limited = self._group(queues, by_user)
        if by_preemptible:
            may_stop = self._may_stop.astype(np.int64)
            code, limited = code * 2 + may_stop, limited * 2 + may_stop
        order = np.lexsort((self.sequence, self.submitted, self.measure, code))
        edges = np.flatnonzero(np.diff(code[order], prepend=-1))
        #: the first row of each group of alike jobs, and how many there are
        self.heads: Ints = order[edges]
        self.sizes: Ints = np.diff(edges, append=len(order))
        #: for each group a number that is the same where limits cannot tell the difference
        self.limited_alike: Ints = limited[self.heads]
        self._rows: list[int] = order.tolist()
        self._edges: list[int] = [*edges.tolist(), len(order)]

    def rows(self, group: int) -> list[int]:
        """Return the rows of one group, in order."""
        return self._rows[self._edges[group] : self._edges[group + 1]]

    def ids_of(self, group: int) -> list[str]:
        """Return the ids of one group's jobs, in order."""
        return self._ordered_ids[self._edges[group] : self._edges[group + 1]]

    @cached_property
    def _ordered_ids(self) -> list[str]:
        ids = self.ids
        return [ids[row] for row in self._rows]

    def pending(self, row: int) -> PendingJob:
        """Return one job, measured."""
        return PendingJob(
            self.waiting[row],
            self.shapes[row],
            self.numbers[row],
            float(self.length[row]),
            float(self.bound[row]),
        )

    def entry(self, row: int) -> Entry:
        """Return one job's entry in its line."""
        pending = self.pending(row)
        submitted = float(self.submitted[row])
        return (float(self.measure[row]), submitted, pending.sequence, pending.bound, pending)

    def _lengths(
        self, attained: Floats, is_default: Mask, is_shortest: Mask
    ) -> tuple[Floats, Floats]:
        """What the order compares, and the bound for backfill, as Measurer has them."""
        jobs = self._jobs
        limit = _stated([job.time_limit_seconds for job in jobs])
        stated = _stated([job.estimate_seconds for job in jobs])
        is_stated = ~np.isnan(stated)
        rest = np.maximum(stated - attained, 0.0)
        length = np.zeros(len(jobs))
        if is_default.any():
            sizes = np.zeros(max(self._known, default=0) + 1)
            for index, shape in self._known.items():
                sizes[index] = shape.size
            size = sizes[self._kinds]
            rank = np.fmin(self._ranks(attained), limit)
            mean = self._expected(stated, limit)
            rank = np.where(
                self._may_stop, np.where(attained > 0, rank, np.fmin(rank, mean)), mean
            )
            length = np.where(is_default, np.where(is_stated, rest, rank) * size, 0.0)
        for row in np.flatnonzero(is_shortest):
            learned = self._durations.expected_seconds(jobs[row])
            length[row] = rest[row] if is_stated[row] else learned
        bound = np.where(is_stated, np.fmin(rest, limit), limit)
        for row in np.flatnonzero(np.isnan(bound)):
            bound[row] = self._durations.bound_seconds(jobs[row], float(attained[row]))
        return length, bound

    def _expected(self, stated: Floats, limit: Floats) -> Floats:
        """Whole runs: as stated, else the time limit, else what was learned."""
        mean: Floats = np.where(np.isnan(stated), limit, stated)
        unknown = np.flatnonzero(np.isnan(mean))
        if len(unknown):
            jobs = self._jobs
            mean[unknown] = self._durations.expected_of([jobs[row] for row in unknown.tolist()])
        return mean

    def _ranks(self, attained: Floats) -> Floats:
        durations, jobs = self._durations, self._jobs
        if durations.is_empty and jobs:
            rows = durations.rows(jobs[0])
            ranks = np.full(len(jobs), rows[0])
            for row in np.flatnonzero(attained):
                ranks[row] = rows[level_of(float(attained[row]))]
            return ranks
        found = durations.rows_of(jobs)
        levels = [level_of(spent) if spent else 0 for spent in attained.tolist()]
        return np.array([rows[level] for rows, level in zip(found, levels, strict=True)])

    def _group(
        self, queues: tuple[Ints, list[str]], by_user: Collection[str]
    ) -> tuple[Ints, Ints]:
        """Numbers that are the same for alike jobs, and for those whom limits take to be alike."""
        jobs = self._jobs
        teams = _codes([job.team for job in jobs])
        shape, most = self._kinds, max(self._known, default=0)
        amounts: Ints = np.zeros(most + 1, dtype=np.int64)
        for index, one in self._known.items():
            amounts[index] = one.total_milli
        milli = amounts[shape]
        payer = queues[0] * (len(teams[1]) or 1) + teams[0]
        if by_user:
            payer = self._split_users(payer, queues, by_user)
        code = (payer * 16 + self.level) * (most + 1) + shape
        return code, payer * (int(milli.max(initial=0)) + 1) + milli

    def _split_users(
        self, code: Ints, queues: tuple[Ints, list[str]], by_user: Collection[str]
    ) -> Ints:
        """Tell users apart in queues whose limits do."""
        personal = np.array([name in by_user for name in queues[1]])[queues[0]]
        rows = np.flatnonzero(personal)
        users = _codes([self._jobs[row].user for row in rows.tolist()])
        code = code * (len(users[1]) + 1)
        code[rows] += users[0] + 1
        return code


class ColumnLine:
    """One group of a Columns as a line; nothing is added to it."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: JobColumns, rows: list[int]) -> None:
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._columns.entry, self._rows)

    def ids(self) -> list[str]:
        """Ids of all its jobs, in order."""
        ids = self._columns.ids
        return [ids[row] for row in self._rows]

    def bounds(self) -> list[float]:
        """Run-time bounds of all its jobs, in order."""
        found: list[float] = self._columns.bound[self._rows].tolist()
        return found

    def measures(self) -> list[tuple[float, float, int]]:
        """What each of its jobs compares by: the order's measure, then submission."""
        columns = self._columns
        measures = columns.measure[self._rows].tolist()
        submitted = columns.submitted[self._rows].tolist()
        numbers = [columns.numbers[row] for row in self._rows]
        return list(zip(measures, submitted, numbers, strict=True))

    def first(self, bound: float = inf) -> Entry | None:
        """Return the first entry whose run-time bound is at most this."""
        if not self._rows:
            return None
        if bound == inf:
            return self._columns.entry(self._rows[0])
        bounds = self._columns.bound
        row = next((row for row in self._rows if bounds[row] <= bound), None)
        return None if row is None else self._columns.entry(row)

    def after(self, entry: Entry) -> Entry | None:
        """Return the entry that follows this one."""
        at = self._place(entry) + 1
        return self._columns.entry(self._rows[at]) if at < len(self._rows) else None

    def add(self, entry: Entry) -> None:
        """Refuse: a line in columns is complete."""
        message = f"job {entry[4].waiting.job.id} cannot join a line in columns"
        raise TypeError(message)

    def remove(self, entry: Entry) -> None:
        """Take an entry out; it must be there."""
        del self._rows[self._place(entry)]

    def _place(self, entry: Entry) -> int:
        numbers = self._columns.numbers
        for at, row in enumerate(self._rows):
            if numbers[row] == entry[2]:
                return at
        raise KeyError(entry[2])


def _stated(seconds: list[float | None]) -> Floats:
    """Numbers, and not-a-number where nothing is stated."""
    if seconds.count(None) == len(seconds):
        return np.full(len(seconds), np.nan)
    return np.array(seconds, dtype=np.float64)


def _codes(names: list[str]) -> tuple[Ints, list[str]]:
    """Number names by first appearance."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    codes = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
    return codes, list(numbers)
