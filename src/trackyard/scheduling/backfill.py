"""Room kept for the head of the line, and what may still start without delaying it.

Owns `earliest` (when and where a job could start as running jobs end, and who is in its way)
and Reservations (views of the capacity for jobs that would still run when a reservation
begins). Admits nobody itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from trackyard.core.job import Job
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.capacity import Capacity, Part
from trackyard.scheduling.place.sketch import RowSketch
from trackyard.scheduling.place.table import Floats, Ints, Mask, Shape
from trackyard.scheduling.state import SOONEST_SECONDS, HeldJob, PassState, free_from

#: Rows looked at closely for one reservation.
_MOST_ROWS = 256


#: row and number of a GPU
_Gpu = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Opening:
    """When and where a job could start, and who must leave before."""

    at: float
    parts: tuple[Part, ...]
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptReservation:
    """One reservation."""

    pending: PendingJob
    at: float
    ends_at: float
    parts: tuple[Part, ...]
    view: Capacity


class ReservationSet:
    """The reservations of a pass, with a view of the capacity behind each."""

    def __init__(
        self, state: PassState, *, names: bool = False, capacity: Capacity | None = None
    ) -> None:
        self._state = state
        #: what is free, where that is not what the state has
        self._capacity = state.capacity if capacity is None else capacity
        #: whether openings name who is in the way
        self._names = names
        self.kept: list[KeptReservation] = []
        #: classes and teams whose first job has its reservation
        self.rights: set[int | str] = set()
        self._sorted: tuple[Floats, int] | None = None
        self._free_at: Floats = state.free_at
        #: whether openings keep clear of others' leases
        self.minds_leases = True
        #: those who stop for the job in question whenever it could start
        self._gives_way: Mask | None = None

    def __len__(self) -> int:
        return len(self.kept)

    def view(self, ends_at: float) -> Capacity | None:
        """Return the capacity for a job that runs until then; None: no reservation minds."""
        for kept in reversed(self.kept):
            if kept.at < ends_at:
                return kept.view
        return None

    def blocker(self, ends_at: float) -> KeptReservation:
        """Return the reservation that a job ending then would meet first."""
        return min((kept for kept in self.kept if kept.at < ends_at), key=lambda kept: kept.at)

    def kept_from(self, job: Job, ends_at: float) -> tuple[Capacity | None, frozenset[_Gpu]]:
        """Return what reservations leave to a job that would have others stopped, and what not.

        Those of its own class and below count if they begin before the job ends. Those of higher
        classes always do: foreseen moments move, and a stop must not turn out to be for them.
        """
        minds = [
            kept
            for kept in self.kept
            if kept.at < ends_at or kept.pending.waiting.job.priority > job.priority
        ]
        gpus = frozenset(
            (row, gpu) for kept in minds for row, theirs in kept.parts for gpu in theirs
        )
        return (minds[-1].view if minds else None), gpus

    def threshold_below(self, seconds: float) -> float:
        """Return the longest run time under this one that meets fewer reservations, or -1."""
        now = self._state.now
        return max((k.at - now for k in self.kept if k.at - now < seconds), default=-1.0)

    def add(self, pending: PendingJob, allowed: Mask | None) -> KeptReservation | None:
        """Keep room for a job where it could start first; None when no such time is foreseen."""
        opening = self._earliest_by_right(pending, allowed)
        if opening is None or opening.at == inf:
            return None
        view = (self.kept[-1].view if self.kept else self._capacity).copy()
        for row, gpus in opening.parts:
            self._narrow(view, pending.shape, row, gpus, opening.at)
        ends_at = opening.at + pending.bound
        kept = KeptReservation(pending, opening.at, ends_at, opening.parts, view)
        self.kept.append(kept)
        self._free_at = self._free_at.copy()
        self._sorted = None
        for row, gpus in opening.parts:
            for gpu in gpus:
                self._free_at[row, gpu] = max(self._free_at[row, gpu], ends_at)
        return kept

    def _earliest_by_right(self, pending: PendingJob, allowed: Mask | None) -> Opening | None:
        """Find when a job could start that stops preemptible jobs of lower classes by then."""
        state, job = self._state, pending.waiting.job
        asked = (job, pending.shape, pending.bound, allowed)
        victims, settings = state.victims, state.policy.preemption
        if not settings.lower_classes:
            return self.earliest(*asked)
        gives_way = victims.can_stop & (victims.level < int(job.priority))
        if not gives_way.any():
            return self.earliest(*asked)
        free_at = self._free_at
        on = state.slot_on
        soon = state.now + max(settings.grace_seconds, SOONEST_SECONDS)
        sooner = np.minimum(free_from(free_at, state.now), soon)
        self._free_at = np.where((on >= 0) & gives_way[on], sooner, free_at)
        self._gives_way, self._sorted = gives_way, None
        try:
            return self.earliest(*asked)
        finally:
            self._free_at, self._gives_way, self._sorted = free_at, None, None

    def _end(self, held: HeldJob) -> float:
        """When a job leaves, as far as the job in question is concerned."""
        now = self._state.now
        if self._gives_way is not None and self._gives_way[held.slot]:
            grace = max(self._state.policy.preemption.grace_seconds, SOONEST_SECONDS)
            return min(held.ends_by(now), now + grace)
        return held.ends_by(now)

    def admitted(self, shape: Shape, parts: list[Part], ends_at: float) -> None:
        """Bring the views up to date after a job started."""
        capacity = self._state.capacity
        for kept in self.kept:
            if kept.at < ends_at:
                kept.view.take(shape, parts)
                continue
            view = kept.view
            for row, _ in parts:
                np.minimum(view.gpu[row], capacity.gpu[row], out=view.gpu[row])
                view.cpu[row] = min(view.cpu[row], capacity.cpu[row])
                view.memory[row] = min(view.memory[row], capacity.memory[row])
                view.tenants[row] = max(view.tenants[row], capacity.tenants[row])
                view.open[row] &= capacity.open[row]
                view.recount(row)

    def freed(self, shape: Shape, parts: list[Part]) -> None:
        """Bring the views up to date after a job without reserved GPUs was stopped."""
        for kept in self.kept:
            kept.view.give(shape, parts)

    def earliest(
        self, job: Job, shape: Shape, seconds: float, allowed: Mask | None
    ) -> Opening | None:
        """Find when and where the job could start, as far as can be foreseen."""
        able = shape.any_mask() & self._state.table.up
        if allowed is not None:
            able &= allowed
        rows = np.flatnonzero(able)
        if shape.same:
            return self._earliest_together(job, shape, seconds, able)
        return self._earliest_of(job, shape, seconds, rows)

    def _earliest_together(
        self, job: Job, shape: Shape, seconds: float, able: Mask
    ) -> Opening | None:
        """The same under one value of a label: the most promising groups are looked at first."""
        last = shape.node_count - 1
        promising = []
        for number, group in enumerate(self._state.table.groups(shape.same)):
            rows = group[able[group]]
            if len(rows) > last:
                soonest = float(np.partition(self._likely(shape, rows), last)[last])
                promising.append((soonest, number, rows))
        best: Opening | None = None
        for soonest, _, rows in sorted(promising, key=lambda one: one[:2]):
            if best is not None and soonest >= best.at:
                break
            option = self._earliest_of(job, shape, seconds, rows)
            if option is not None and (best is None or option.at < best.at):
                best = option
        return best

    def _earliest_of(self, job: Job, shape: Shape, seconds: float, rows: Ints) -> Opening | None:
        if len(rows) < shape.node_count:
            return None
        likely = self._likely(shape, rows)
        order = np.argsort(likely, kind="stable")
        found: list[tuple[float, Part, tuple[str, ...]]] = []
        for looked, at in enumerate(order):
            row = int(rows[at])
            if len(found) >= shape.node_count:
                # The k best so far are final once no row that follows can beat the last of them.
                last_at, (last_row, _), _ = found[shape.node_count - 1]
                if likely[at] >= last_at or looked >= _MOST_ROWS + 4 * shape.node_count:
                    break
                if (self._soonest(shape, row), row) > (last_at, last_row):
                    continue
            option = self._open_row(job, shape, seconds, row)
            if option is not None:
                found.append(option)
                found.sort(key=lambda option: (option[0], option[1][0]))
        if len(found) < shape.node_count:
            return None
        return self._join(job, seconds, found[: shape.node_count])

    def _likely(self, shape: Shape, rows: Ints) -> Floats:
        """A lower bound, by GPUs alone, of when each row has room."""
        now = self._state.now
        if not shape.gpus or shape.exclusive:
            return np.full(len(rows), now)
        if shape.is_fraction:
            roomy = self._capacity.largest[rows] >= shape.milli
            late = np.where(roomy, now, now + SOONEST_SECONDS)
            result: Floats = late
            return result
        if self._sorted is None:
            late = np.maximum(free_from(self._free_at, now), now)
            self._sorted = (np.sort(late, axis=1), len(self.kept))
        column: Floats = self._sorted[0][rows, shape.gpus - 1]
        return column

    def _soonest(self, shape: Shape, row: int) -> float:
        """A lower bound of when a row has room: a full one, not before someone leaves it."""
        if self._capacity.fits_row(shape, row):
            return self._state.now
        ends = [self._end(held) for held in self._state.on_row(row).values()]
        ends += [kept.ends_at for kept in self.kept if any(at == row for at, _ in kept.parts)]
        return min(ends, default=inf)

    def _open_row(
        self, job: Job, shape: Shape, seconds: float, row: int
    ) -> tuple[float, Part, tuple[str, ...]] | None:
        """Let a row's jobs end one by one until the shape fits."""
        state = self._state
        if shape.is_plain and self._capacity.open[row]:
            return self._open_plain_row(job, shape, seconds, row)
        sketch = RowSketch(self._capacity, row)
        leaving = [
            (self._end(held), name, held.shape, gpus)
            for name, held in state.on_row(row).items()
            for at, gpus in held.parts
            if at == row
        ]
        for kept in self.kept:
            for at, gpus in kept.parts:
                if at == row:
                    sketch.give(kept.pending.shape, gpus, -1)
                    name = kept.pending.waiting.job.id
                    leaving.append((kept.ends_at, name, kept.pending.shape, gpus))
        leaving.sort(key=lambda one: (one[0], one[1]))
        gone = []
        for one in leaving:
            if sketch.fits(shape):
                break
            sketch.give(one[2], one[3])
            gone.append(one)
        if not sketch.fits(shape):
            return None
        needed = _prune(sketch, shape, gone)
        when = max((one[0] for one in needed), default=state.now)
        free_at = self._free_at[row]
        prefer = sorted(range(int(state.table.gpus[row])), key=lambda gpu: (free_at[gpu], gpu))
        when = self._start_from(job, row, when, seconds)
        return when, (row, sketch.pick(shape, prefer)), tuple(one[1] for one in needed)

    def _open_plain_row(
        self, job: Job, shape: Shape, seconds: float, row: int
    ) -> tuple[float, Part, tuple[str, ...]]:
        """The same for whole GPUs alone: those that are free first."""
        state = self._state
        free_at = free_from(self._free_at[row], state.now)
        gpus = np.argsort(free_at, kind="stable")[: shape.gpus].tolist()
        when = float(free_at[gpus[-1]])
        when = self._start_from(job, row, max(when, state.now), seconds)
        holders = self._holders(row, set(gpus)) if self._names else []
        return when, (row, tuple(sorted(gpus))), tuple(holders)

    def _holders(self, row: int, taken: set[int]) -> list[str]:
        """Who is on these GPUs now, or has them reserved."""
        holders = [
            name
            for name, held in self._state.on_row(row).items()
            if any(at == row and not taken.isdisjoint(theirs) for at, theirs in held.parts)
        ]
        for kept in self.kept:
            for at, theirs in kept.parts:
                if at == row and not taken.isdisjoint(theirs):
                    holders.append(kept.pending.waiting.job.id)
        return holders

    def _join(
        self,
        job: Job,
        seconds: float,
        found: list[tuple[float, Part, tuple[str, ...]]],
    ) -> Opening | None:
        """Find one moment for all rows of a gang."""
        at = max(when for when, _, _ in found)
        for _ in range(4):
            later = max(self._start_from(job, part[0], at, seconds) for _, part, _ in found)
            if later == at:
                break
            at = later
        else:
            return None
        holders = dict.fromkeys(name for _, _, names in found for name in names)
        return Opening(at, tuple(part for _, part, _ in found), tuple(holders))

    def _start_from(self, job: Job, row: int, at: float, seconds: float) -> float:
        if not self.minds_leases:
            return at
        return self._state.windows.start_from(job, row, at, seconds)

    def _narrow(
        self, view: Capacity, shape: Shape, row: int, gpus: tuple[int, ...], at: float
    ) -> None:
        """Leave in a view only what the reservation leaves on a row at its start."""
        state = self._state
        if shape.is_plain:
            view.gpu[row, list(gpus)] = 0
            view.tenants[row] += 1
            view.recount(row)
            return
        sketch = RowSketch(self._capacity, row)
        for held in state.on_row(row).values():
            if held.ends_by(state.now) <= at:
                for there, theirs in held.parts:
                    if there == row:
                        sketch.give(held.shape, theirs)
        sketch.give(shape, gpus, -1)
        for gpu in gpus:
            view.gpu[row, gpu] = max(min(int(view.gpu[row, gpu]), sketch.free(gpu)), 0)
        view.cpu[row] = max(min(int(view.cpu[row]), sketch.cpu), 0)
        view.memory[row] = max(min(int(view.memory[row]), sketch.memory), 0)
        view.tenants[row] += 1
        if shape.exclusive:
            view.open[row] = False
        view.recount(row)


#: Someone on a row: foreseen end, job, shape, GPUs.
_Leaving = tuple[float, str, Shape, tuple[int, ...]]


def _prune(sketch: RowSketch, shape: Shape, gone: list[_Leaving]) -> list[_Leaving]:
    """Put back all whose leaving is not needed."""
    needed = []
    for one in gone:
        sketch.give(one[2], one[3], -1)
        if not sketch.fits(shape):
            sketch.give(one[2], one[3])
            needed.append(one)
    return needed
