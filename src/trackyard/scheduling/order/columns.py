"""A whole line of waiting jobs in columns, for a pass that sees it once.

Owns Columns and ColumnLine: the same lengths, bounds and order as Measurer and Line give,
worked out for all jobs together. A job becomes a Pending only when its turn comes, which for
most of a long line is never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from math import inf

import numpy as np

from trackyard.scheduling.durations import DurationModel, level_of
from trackyard.scheduling.order.line import Entry
from trackyard.scheduling.order.pending import Pending
from trackyard.scheduling.place.table import Floats, Ints, NodeTable
from trackyard.scheduling.policy import Order
from trackyard.scheduling.snapshot import Waiting


class Columns:
    """Measures of many jobs, and the jobs in groups of alike ones, each in order."""

    def __init__(
        self,
        waiting: Sequence[Waiting],
        *,
        numbers: Sequence[int],
        table: NodeTable,
        durations: DurationModel,
        now: float,
        starvation_seconds: float,
        orders: dict[str, Order],
    ) -> None:
        self.waiting = waiting
        self.numbers = numbers
        self._durations = durations
        jobs = [one.job for one in waiting]
        self.ids = [job.id for job in jobs]
        self.shapes = table.shapes([job.request for job in jobs])
        self.submitted: Floats = np.array([job.submitted_at for job in jobs], dtype=np.float64)
        attained: Floats = np.array([one.attained_seconds for one in waiting], dtype=np.float64)
        queues = _codes([job.queue for job in jobs])
        order_of = [orders[name] for name in queues[1]]
        is_default = np.array([order is Order.DEFAULT for order in order_of])[queues[0]]
        is_shortest = np.array([order is Order.SHORTEST for order in order_of])[queues[0]]
        self.phase = np.ones(len(jobs), dtype=np.int64)
        late = self.submitted + 2 * attained + starvation_seconds <= now
        self.phase[late & is_default] = 0
        self.length, self.bound = self._lengths(attained, is_default, is_shortest)
        by_length = (is_default | is_shortest) & (self.phase == 1)
        self.measure: Floats = np.where(by_length, self.length, self.submitted)
        self._group(queues)

    def groups(self) -> Iterator[list[int]]:
        """Yield the rows of each group of alike jobs, in order."""
        rows = self._order.tolist()
        edges = [0, *(np.flatnonzero(np.diff(self._code[self._order])) + 1).tolist(), len(rows)]
        for start, end in pairwise(edges):
            yield rows[start:end]

    def pending(self, row: int) -> Pending:
        """Return one job, measured."""
        return Pending(
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
        self, attained: Floats, is_default: Floats, is_shortest: Floats
    ) -> tuple[Floats, Floats]:
        """What the order compares, and the bound for backfill, as Measurer has them."""
        jobs = [one.job for one in self.waiting]
        # Where nothing is stated the list holds None, which becomes not-a-number.
        limit = np.array([job.time_limit_seconds for job in jobs], dtype=np.float64)
        stated = np.array([job.estimate_seconds for job in jobs], dtype=np.float64)
        size = np.array([shape.size for shape in self.shapes], dtype=np.float64)
        rest = np.maximum(stated - attained, 0.0)
        length = np.zeros(len(jobs))
        if is_default.any():
            rank = np.fmin(self._ranks(attained), limit)
            length = np.where(is_default, np.where(np.isnan(stated), rank, rest) * size, 0.0)
        for row in np.flatnonzero(is_shortest):
            known = stated[row]
            learned = self._durations.expected_seconds(jobs[row])
            length[row] = learned if np.isnan(known) else rest[row]
        bound = np.where(np.isnan(stated), limit, np.fmin(rest, limit))
        for row in np.flatnonzero(np.isnan(bound)):
            bound[row] = self._durations.bound_seconds(jobs[row], float(attained[row]))
        return length, bound

    def _ranks(self, attained: Floats) -> Floats:
        known: dict[tuple[object, ...], tuple[float, ...]] = {}
        durations = self._durations
        ranks = np.empty(len(self.waiting))
        if durations.is_empty and self.waiting:
            rows = durations.rows(self.waiting[0].job)
            ranks[:] = rows[0]
            for row in np.flatnonzero(attained):
                ranks[row] = rows[level_of(float(attained[row]))]
            return ranks
        found = []
        for one, shape in zip(self.waiting, self.shapes, strict=True):
            job = one.job
            alike = (job.team, job.user, job.name, job.command, job.group, shape.total_milli)
            rows_or_none = known.get(alike)
            if rows_or_none is None:
                rows_or_none = known[alike] = durations.rows(job)
            spent = one.attained_seconds
            found.append(rows_or_none[level_of(spent) if spent else 0])
        return np.array(found)

    def _group(self, queues: tuple[Ints, list[str]]) -> None:
        jobs = [one.job for one in self.waiting]
        teams = _codes([job.team for job in jobs])
        level = np.array([job.priority for job in jobs], dtype=np.int64)
        shape = np.array([shape.index for shape in self.shapes], dtype=np.int64)
        code = queues[0] * (len(teams[1]) or 1) + teams[0]
        code = (code * 16 + level) * (int(shape.max(initial=0)) + 1) + shape
        self._code = code * 2 + self.phase
        sequence = np.array(self.numbers, dtype=np.int64)
        self._order = np.lexsort((sequence, self.submitted, self.measure, self._code))


class ColumnLine:
    """One group of a Columns as a line; nothing is added to it."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: Columns, rows: list[int]) -> None:
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
        """What each of its jobs compares by, in order."""
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


def _codes(names: list[str]) -> tuple[Ints, list[str]]:
    """Number names by first appearance."""
    numbers: dict[str, int] = {}
    fresh = count()
    for name in names:
        if name not in numbers:
            numbers[name] = next(fresh)
    return np.array([numbers[name] for name in names], dtype=np.int64), list(numbers)
