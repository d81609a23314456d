"""Who must stop so that another can start.

Owns `find`: lower classes first, then borrowed quota, then much longer jobs of the same class;
among them those who lose least work; as few as needed, on as few nodes as needed. Stops nobody
itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trackyard.core.resources import WHOLE
from trackyard.scheduling.decisions import Cause
from trackyard.scheduling.order.pending import Pending
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.sketch import RowSketch
from trackyard.scheduling.place.table import Floats, Ints, Mask, Shape
from trackyard.scheduling.policy import Order
from trackyard.scheduling.state import Held, State

_CAUSES = (Cause.HIGHER_CLASS, Cause.RECLAIMED, Cause.YIELDS_TO_SHORTER)
_NOBODY = 9
#: Under these orders a job may push out a longer one; under the others lengths say nothing.
_BY_LENGTH = (Order.DEFAULT, Order.SHORTEST)
#: Rows looked at closely for one claimant, beside those that its gang needs.
_MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """Stop these, and the claimant fits on these rows."""

    victims: tuple[tuple[Held, Cause], ...]
    rows: tuple[int, ...]


class Preemption:
    """The search for victims within one pass; what it derives from the running jobs is kept."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._settings = state.policy.preemption
        self._lengths: tuple[float, bool, Floats] | None = None
        self.attempts = 0
        self._ripe: Mask | None = None
        self._capacity = state.capacity
        self._lowest = _NOBODY
        self._longest: dict[Order, float] = {}
        self._some_over = False

    def find(
        self,
        pending: Pending,
        order: Order,
        allowed: Mask | None,
        kept: frozenset[tuple[int, int]] = frozenset(),
        view: Capacity | None = None,
    ) -> Plan | None:
        """Return whom to stop for a job that does not fit, or None.

        `kept` GPUs are reserved for others; `view` is what these reservations leave free.
        """
        self._capacity = view or self._state.capacity
        causes, lengths = self._causes(pending, order)
        if kept:
            self._spare_kept(causes, kept)
        slots = np.flatnonzero(causes < _NOBODY)
        if not len(slots) or not self._could_do(pending.shape, slots):
            return None
        self.attempts += 1
        ranked = self._rank(slots, causes, lengths)
        if self._state.table.count == 1:
            ranked = ranked[: self._settings.max_victims]
        return self._cheapest(pending.shape, ranked, causes, allowed)

    def may(self, pending: Pending, order: Order) -> bool:
        """A cheap check whether anyone at all may be stopped for this job."""
        state, settings = self._state, self._settings
        if self.attempts >= settings.attempts_per_pass:
            return False
        victims = state.victims
        if self._ripe is None or len(self._ripe) != len(victims.started):
            ripe = victims.can_stop & (victims.started <= state.now - settings.min_run_seconds)
            # Whoever started at this very moment was just preferred to others.
            ripe &= victims.started < state.now
            self._ripe = ripe
            self._lowest = int(victims.level[ripe].min()) if ripe.any() else _NOBODY
            self._some_over = any(use.is_over for use in state.ledger.teams.values())
            self._longest.clear()
        level = int(pending.waiting.job.priority)
        return (
            (settings.lower_classes and self._lowest < level)
            or (self._some_over and self._reclaims(pending))
            or settings.yield_ratio * pending.length < self._longest_of(order)
        )

    def _longest_of(self, order: Order) -> float:
        """The longest rest of those who may yield, in the unit of an order; 0: nobody yields."""
        known = self._longest.get(order)
        if known is None:
            known = 0.0
            if self._settings.yield_to_shorter and order in _BY_LENGTH and self._ripe is not None:
                loose = self._ripe & (self._state.victims.protected <= self._state.now)
                if loose.any():
                    known = float(self.lengths(order)[loose].max())
            self._longest[order] = known
        return known

    def _over(self, team: str, *, own: bool) -> Mask:
        """For each team by number whether it is over its quota; `own` is said of this one."""
        teams, ledger = self._state.victims.teams, self._state.ledger.teams
        flags = [own if name == team else ledger[name].is_over for name in teams]
        # A table without any job yet still has one number.
        return np.array(flags or [False], dtype=np.bool_)

    def _reclaims(self, pending: Pending) -> bool:
        """Say whether a job may take back what others borrowed from its team."""
        settings, waiting = self._settings, pending.waiting
        if not settings.reclaim:
            return False
        waited = self._state.now - waiting.job.submitted_at - waiting.attained_seconds
        if waited < settings.reclaim_after_seconds:
            return False
        return not self._state.ledger.borrows(waiting.job.team, pending.shape)

    def _spare_kept(self, causes: Ints, kept: frozenset[tuple[int, int]]) -> None:
        """Let those run on whose GPUs are reserved for someone ahead."""
        state = self._state
        for row, gpu in kept:
            slot = int(state.slot_on[row, gpu])
            if slot >= 0:
                causes[slot] = _NOBODY
                continue
            for held in state.on_row(row).values():
                if any(at == row and gpu in gpus for at, gpus in held.parts):
                    causes[held.slot] = _NOBODY

    def _causes(self, pending: Pending, order: Order) -> tuple[Ints, Floats | None]:
        """For each running job why it may be stopped for this one, or nobody."""
        state, settings, victims = self._state, self._settings, self._state.victims
        job = pending.waiting.job
        level = int(job.priority)
        assert self._ripe is not None, "may() comes first"
        ripe = self._ripe & victims.can_stop & (victims.started < state.now)
        causes: Ints = np.full(len(ripe), _NOBODY, dtype=np.int64)
        lengths = None
        if settings.yield_to_shorter and order in _BY_LENGTH:
            lengths = self.lengths(order)
            longer = lengths > settings.yield_ratio * pending.length
            loose = victims.protected <= state.now
            if state.ledger.borrows(job.team, pending.shape):
                # Whoever borrows may not push out those within their quota, who would come back.
                loose &= self._over(job.team, own=True)[victims.team]
            causes[ripe & longer & loose & (victims.level == level)] = 2
        if self._reclaims(pending):
            over = self._over(job.team, own=False)
            if over.any():
                causes[ripe & over[victims.team] & (victims.level <= level)] = 1
        if settings.lower_classes:
            causes[ripe & (victims.level < level)] = 0
        return causes, lengths

    def lengths(self, order: Order) -> Floats:
        """Remaining lengths of running jobs in the unit of an order, computed once a moment."""
        by_size = order is Order.DEFAULT
        known = self._lengths
        if known is None or known[0] != self._state.now or known[1] != by_size:
            lengths = self._state.victims.lengths(self._state.now, by_size=by_size)
            known = self._lengths = (self._state.now, by_size, lengths)
        if len(known[2]) != len(self._state.victims.started):
            self._lengths = None
            return self.lengths(order)
        return known[2]

    def _could_do(self, shape: Shape, slots: Ints) -> bool:
        """Say whether all of them together would free enough GPUs somewhere."""
        need = shape.total_milli
        if need == 0:
            return True
        free = self._capacity.whole_total * WHOLE
        if shape.is_fraction:
            return True
        return bool(free + self._state.victims.milli[slots].sum() >= need)

    def _rank(self, slots: Ints, causes: Ints, lengths: Floats | None) -> list[int]:
        """Order victims: plainest cause, lowest class, then least lost work or longest rest."""
        victims, now = self._state.victims, self._state.now
        last = (now - victims.saved[slots]) * victims.size[slots]
        if lengths is not None:
            last = np.where(causes[slots] == 2, -lengths[slots], last)
        order = np.lexsort((slots, last, victims.level[slots], causes[slots]))
        return [int(slot) for slot in slots[order]]

    def _cheapest(
        self, shape: Shape, ranked: list[int], causes: Ints, allowed: Mask | None
    ) -> Plan | None:
        """Choose the rows where making room costs least."""
        state = self._state
        able = shape.any_mask() & state.table.up
        if allowed is not None:
            able &= allowed
        on_row = self._promising(shape, ranked, able)
        fitting = np.flatnonzero(self._capacity.fits(shape, able)).tolist()
        options: list[tuple[int, int, int, list[int]]] = [(0, 0, row, []) for row in fitting]
        for row, candidates in on_row.items():
            chosen = self._clear_row(shape, row, candidates)
            if chosen:
                worst = max(cost for cost, _ in chosen)
                options.append((len(chosen), worst, row, [slot for _, slot in chosen]))
        options.sort(key=lambda option: (option[1], option[0], option[2]))
        rows = self._rows_together(shape, options)
        return None if rows is None else self._plan(rows, causes)

    def _promising(
        self, shape: Shape, ranked: list[int], able: Mask
    ) -> dict[int, list[tuple[int, int]]]:
        """Victims by row, cheapest first, for rows where they could free enough GPUs."""
        need = shape.gpus * shape.milli
        whole = self._capacity.whole
        on_row: dict[int, list[tuple[int, int]]] = {}
        freed: dict[int, int] = {}
        ready: dict[int, list[tuple[int, int]]] = {}
        for cost, slot in enumerate(ranked):
            held = self._state.victims.held[slot]
            assert held is not None
            for row, gpus in held.parts:
                if not able[row] or self._capacity.fits_row(shape, row):
                    continue
                on_row.setdefault(row, []).append((cost, slot))
                milli = freed.get(row, int(whole[row]) * WHOLE) + len(gpus) * held.shape.milli
                freed[row] = milli
                if milli >= need:
                    ready[row] = on_row[row]
            # The cheapest are found; rows further down cost more.
            if len(ready) >= _MOST_ROWS + 2 * shape.node_count and not shape.same:
                break
        return ready

    def _plan(self, rows: list[tuple[int, int, int, list[int]]], causes: Ints) -> Plan | None:
        state = self._state
        slots = sorted({slot for option in rows for slot in option[3]})
        if len(slots) > self._settings.max_victims:
            return None
        pairs = []
        for slot in slots:
            held = state.victims.held[slot]
            assert held is not None
            pairs.append((held, _CAUSES[int(causes[slot])]))
        return Plan(tuple(pairs), tuple(option[2] for option in rows))

    def _clear_row(
        self, shape: Shape, row: int, candidates: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Take candidates in order until the row fits, then put back whoever is not needed."""
        sketch = RowSketch(self._capacity, row)
        chosen: list[tuple[int, int]] = []
        for cost, slot in candidates:
            if len(chosen) >= self._settings.max_victims:
                return []
            self._give(sketch, slot, row, 1)
            chosen.append((cost, slot))
            if sketch.fits(shape):
                break
        else:
            return []
        for pair in reversed(chosen[:-1]):
            self._give(sketch, pair[1], row, -1)
            if sketch.fits(shape):
                chosen.remove(pair)
            else:
                self._give(sketch, pair[1], row, 1)
        return chosen

    def _give(self, sketch: RowSketch, slot: int, row: int, sign: int) -> None:
        held = self._state.victims.held[slot]
        assert held is not None
        for at, gpus in held.parts:
            if at == row:
                sketch.give(held.shape, gpus, sign)

    def _rows_together(
        self, shape: Shape, options: list[tuple[int, int, int, list[int]]]
    ) -> list[tuple[int, int, int, list[int]]] | None:
        """The cheapest rows for a gang; under one label when it asks for that."""
        if not shape.same:
            enough = len(options) >= shape.node_count
            return options[: shape.node_count] if enough else None
        best = None
        for group in self._state.table.groups(shape.same):
            members = set(group.tolist())
            inside = [option for option in options if option[2] in members][: shape.node_count]
            if len(inside) == shape.node_count:
                cost = sum(option[0] for option in inside)
                if best is None or cost < best[0]:
                    best = (cost, inside)
        return None if best is None else best[1]
