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
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.sketch import RowSketch
from trackyard.scheduling.place.table import Floats, Ints, Mask, Shape
from trackyard.scheduling.policy import QueueOrder
from trackyard.scheduling.preemption.remaining_time import RemainingTimes
from trackyard.scheduling.state import HeldJob, PassState

_CAUSES = (Cause.HIGHER_CLASS, Cause.RECLAIMED, Cause.YIELDS_TO_SHORTER)
_HIGHER, _RECLAIMED, _SHORTER = range(3)
_NOBODY = 9
#: Under these orders a job may push out a longer one; under the others lengths say nothing.
_BY_LENGTH = (QueueOrder.DEFAULT, QueueOrder.SHORTEST)
#: Rows looked at closely for one claimant, beside those that its gang needs.
_MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Stop these, and the claimant fits on these rows."""

    victims: tuple[tuple[HeldJob, Cause], ...]
    rows: tuple[int, ...]


class VictimSearch:
    """The search for victims within one pass; what it derives from the running jobs is kept."""

    def __init__(self, state: PassState) -> None:
        self._state = state
        self._settings = state.policy.preemption
        self.attempts = 0
        self._capacity = state.capacity
        self._lowest: int | None = None
        #: work that stopping each would lose, and who has saved; found when first needed
        self._losses: tuple[Floats, Mask] | None = None

    def find(
        self,
        pending: PendingJob,
        order: QueueOrder,
        allowed: Mask | None,
        kept: frozenset[tuple[int, int]] = frozenset(),
        view: Capacity | None = None,
    ) -> PreemptionPlan | None:
        """Return whom to stop for a job that does not fit, or None.

        `kept` GPUs are reserved for others; `view` is what these reservations leave free.
        """
        self._capacity = view or self._state.capacity
        # Without causes only those count who yield to a shorter job, the plainest case by far.
        causes = self._causes(pending, order)
        able = self._yielding(pending, order) if causes is None else causes < _NOBODY
        if kept:
            able &= ~self._kept(kept)
        elif causes is None and allowed is None and self._state.table.count == 1:
            plan = self._longest_alone(pending.shape, order, able)
            if plan is not None:
                return plan
        slots = able.nonzero()[0]
        if not len(slots) or not self._could_do(pending.shape, slots):
            return None
        self.attempts += 1
        ranked = self._rank(slots, causes, order)
        if self._state.table.count == 1:
            ranked = ranked[: self._settings.max_victims]
        return self._cheapest(pending.shape, ranked, causes, allowed)

    def may(self, pending: PendingJob, order: QueueOrder) -> bool:
        """A cheap check whether anyone at all may be stopped for this job."""
        settings, level = self._settings, int(pending.waiting.job.priority)
        if self.attempts >= settings.attempts_per_pass:
            return False
        return (
            self._is_some_longer(pending, order)
            or (settings.lower_classes and self._lowest_class() < level)
            or (self._settings.reclaim and self._state.ledger.is_some_over())
        )

    def _is_some_longer(self, pending: PendingJob, order: QueueOrder) -> bool:
        """Say whether someone of any class may yield to this job for being longer."""
        settings = self._settings
        if not settings.yield_to_shorter or order not in _BY_LENGTH:
            return False
        teams = self._rests(order).longer_than(settings.yield_ratio * pending.length)
        if not teams:
            return False
        ledger = self._state.ledger
        own = ledger.team(pending.waiting.job.team)
        if not own.borrowing(pending.shape.total_milli):
            return True
        names, uses = self._state.victims.team_names, ledger.teams
        return any((use := uses[names[at]]) is own or use.is_debtor(own) for at in teams)

    def _rests(self, order: QueueOrder) -> RemainingTimes:
        """Who may be stopped now, and for how long they would run on."""
        rests = self._state.victims.rests(by_size=order is QueueOrder.DEFAULT)
        rests.advance(self._state.now)
        return rests

    def _rest(self, order: QueueOrder) -> Floats:
        """How long each would run on, if it may be stopped now: no longer than its time limit."""
        victims, rest = self._state.victims, self._rests(order).rest
        if not victims.limited_count:
            return rest
        left = victims.deadline - self._state.now
        capped: Floats = np.minimum(
            rest, left * victims.size if order is QueueOrder.DEFAULT else left
        )
        return capped

    def _lost(self) -> tuple[Floats, Mask]:
        """Seconds of work that stopping each now would lose, restart included; who has saved."""
        known = self._losses
        if known is None or len(known[0]) != len(self._state.victims.held):
            lost, has_saved = self._state.victims.lost(self._state.now)
            known = self._losses = (lost + self._settings.restart_seconds, has_saved)
        return known

    def _stoppable(self) -> Mask:
        """Those who may be stopped at all: for a higher class, or for the owner of their GPUs."""
        victims, now = self._state.victims, self._state.now
        mask: Mask = victims.can_stop & (victims.stoppable_at <= now) & (victims.started < now)
        return mask

    def _lowest_class(self) -> int:
        """The lowest class of those who might be stopped when the pass first asked."""
        if self._lowest is None:
            levels = [level for level, count in self._state.victims.levels.items() if count]
            self._lowest = min(levels, default=_NOBODY)
        return self._lowest

    def _over(self, team: str, *, need: int | None, own: bool) -> Mask:
        """For each team by number whether it holds what is promised to this one; `own` of itself.

        With a `need`, only where this team stays within its quotas with that.
        """
        ledger, names = self._state.ledger, self._state.victims.teams
        uses, claimant = ledger.teams, ledger.team(team)
        flags = [own if name == team else uses[name].is_debtor(claimant, need) for name in names]
        # A table without any job yet still has one number.
        return np.array(flags or [False], dtype=np.bool_)

    def _has_waited(self, pending: PendingJob) -> bool:
        """Say whether it waited long enough to take GPUs back from its own class."""
        waiting = pending.waiting
        waited = self._state.now - waiting.job.submitted_at - waiting.attained_seconds
        return waited >= self._settings.reclaim_after_seconds

    def _kept(self, kept: frozenset[tuple[int, int]]) -> Mask:
        """Those whose GPUs are reserved for someone ahead."""
        state = self._state
        spared = set()
        for row, gpu in kept:
            slot = int(state.slot_on[row, gpu])
            if slot >= 0:
                spared.add(slot)
                continue
            if state.capacity.gpu[row, gpu] == WHOLE:
                continue
            for held in state.on_row(row).values():
                if any(at == row and gpu in gpus for at, gpus in held.parts):
                    spared.add(held.slot)
        mask: Mask = np.zeros(len(state.victims.started), dtype=np.bool_)
        mask[list(spared)] = True
        return mask

    def _yielding(self, pending: PendingJob, order: QueueOrder) -> Mask:
        """Those of its own class who yield to this job because it is so much shorter.

        They have saved, run on for much longer than it and than what the stop loses, are not of
        its kind, and the job they were last stopped for has ended.
        """
        state, rest, settings = self._state, self._rest(order), self._settings
        victims, job = state.victims, pending.waiting.job
        longer: Mask = rest > settings.yield_ratio * pending.length
        if (
            not settings.yield_to_shorter
            or order not in _BY_LENGTH
            or not longer.any()
            or not state.durations.knows(job)
            # Whoever was stopped itself makes nobody stop in turn.
            or pending.waiting.stopped_for in state.stoppers
        ):
            return np.zeros(len(rest), dtype=np.bool_)
        lost, has_saved = self._lost()
        if order is QueueOrder.DEFAULT:
            lost = lost * victims.size
        longer &= has_saved & ~victims.spared & (victims.stoppable_at <= state.now)
        longer &= rest > settings.yield_ratio * pending.length + settings.loss_ratio * lost
        longer &= ~victims.is_alike(job)
        if order is QueueOrder.DEFAULT:
            longer &= self._stands_before(pending, rest)
        level = int(job.priority)
        if not victims.is_all_of(level):
            longer &= victims.level == level
        if state.ledger.team(job.team).borrowing(pending.shape.total_milli):
            # Whoever borrows may not push out those within their quota, who would come back.
            longer &= self._over(job.team, need=None, own=True)[victims.team]
        return longer

    def _stands_before(self, pending: PendingJob, rest: Floats) -> Mask:
        """Those whom this job would go before, did they wait again from now on."""
        victims, policy, now = self._state.victims, self._state.policy, self._state.now
        own = pending.waiting.job.submitted_at + pending.waiting.attained_seconds
        length = np.maximum(rest, policy.shortest_length)
        passing = policy.halving_seconds * np.log2(length / policy.shortest_length)
        theirs = victims.submitted + victims.attained + (now - victims.started) + passing
        before: Mask = own + policy.passing_seconds(pending.length) < theirs
        return before

    def _causes(self, pending: PendingJob, order: QueueOrder) -> Ints | None:
        """For each row of the victims why it may be stopped for this job; None: for being longer.

        It is None only where no other cause is to be had.
        """
        settings, victims = self._settings, self._state.victims
        level = int(pending.waiting.job.priority)
        over = None
        if settings.reclaim and self._state.ledger.is_some_over():
            need = pending.shape.total_milli
            over = self._over(pending.waiting.job.team, need=need, own=False)
            over = over if over.any() else None
        is_higher = settings.lower_classes and self._lowest_class() < level
        if over is None and not is_higher:
            return None
        able = self._stoppable()
        causes: Ints = np.full(len(able), _NOBODY, dtype=np.int64)
        causes[self._yielding(pending, order)] = _SHORTER
        if over is not None:
            is_below = victims.level < level
            if self._has_waited(pending):
                is_below |= (victims.level == level) & self._rests(order).is_ripe
            causes[able & over[victims.team] & is_below] = _RECLAIMED
        if is_higher:
            causes[able & (victims.level < level)] = _HIGHER
        return causes

    def _longest_alone(self, shape: Shape, order: QueueOrder, able: Mask) -> PreemptionPlan | None:
        """In a pool of one node the one with the longest rest, if no other need be stopped."""
        slot = int((self._rest(order) * able).argmax())
        if not able[slot] or not shape.is_plain or shape.node_count > 1:
            return None
        capacity, held = self._capacity, self._state.victims.held[slot]
        size = self._whole_gpus(slot, 0)
        free = int(capacity.whole[0])
        is_here = capacity.open[0] and self._state.table.up[0] and shape.any_mask()[0]
        if held is None or size is None or not is_here or not free < shape.gpus <= free + size:
            return None
        self.attempts += 1
        return PreemptionPlan(((held, Cause.YIELDS_TO_SHORTER),), (0,))

    def _could_do(self, shape: Shape, slots: Ints) -> bool:
        """Say whether all of them together would free enough GPUs somewhere."""
        need = shape.total_milli
        if need == 0 or shape.is_fraction:
            return True
        need -= self._capacity.whole_total * WHOLE
        return bool(np.add.reduce(self._state.victims.milli[slots]) >= need)

    def _rank(self, slots: Ints, causes: Ints | None, order: QueueOrder) -> Ints:
        """Order victims: plainest cause, lowest class, then least lost work or longest rest."""
        rest = self._rest(order)[slots]
        if causes is None:
            return slots[(-rest).argsort(kind="stable")]
        victims, why = self._state.victims, causes[slots]
        last = self._lost()[0][slots] * victims.size[slots]
        if self._settings.yield_to_shorter and order in _BY_LENGTH:
            last = np.where(why >= _SHORTER, -rest, last)
        return slots[np.lexsort((slots, last, victims.level[slots], why))]

    def _cheapest(
        self, shape: Shape, ranked: Ints, causes: Ints | None, allowed: Mask | None
    ) -> PreemptionPlan | None:
        """Choose the rows where making room costs least."""
        state = self._state
        able = shape.any_mask() & state.table.up
        if allowed is not None:
            able &= allowed
        on_row = self._promising(shape, ranked, able)
        fitting = self._capacity.rows_that_fit(shape, able).tolist()
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
        self, shape: Shape, ranked: Ints, able: Mask
    ) -> dict[int, list[tuple[int, int]]]:
        """Victims by row, cheapest first, for rows where they could free enough GPUs."""
        need = shape.gpus * shape.milli
        capacity, victims = self._capacity, self._state.victims
        if self._state.table.count == 1:
            if not able[0] or capacity.fits_row(shape, 0):
                return {}
            could = int(capacity.whole[0]) * WHOLE + int(victims.milli[ranked].sum())
            return {0: list(enumerate(ranked.tolist()))} if could >= need else {}
        closed: dict[int, bool] = {}
        on_row: dict[int, list[tuple[int, int]]] = {}
        freed: dict[int, int] = {}
        ready: dict[int, list[tuple[int, int]]] = {}
        enough = _MOST_ROWS + 2 * shape.node_count
        for cost, slot in enumerate(ranked.tolist()):
            held = victims.held[slot]
            assert held is not None
            for row, gpus in held.parts:
                is_closed = closed.get(row)
                if is_closed is None:
                    is_closed = not able[row] or capacity.fits_row(shape, row)
                    closed[row] = is_closed
                    on_row[row], freed[row] = [], int(capacity.whole[row]) * WHOLE
                if is_closed:
                    continue
                on_row[row].append((cost, slot))
                freed[row] += len(gpus) * held.shape.milli
                if freed[row] >= need:
                    ready[row] = on_row[row]
            # The cheapest are found; rows further down cost more.
            if len(ready) >= enough and not shape.same:
                break
        return ready

    def _plan(
        self, rows: list[tuple[int, int, int, list[int]]], causes: Ints | None
    ) -> PreemptionPlan | None:
        state = self._state
        slots = sorted({slot for option in rows for slot in option[3]})
        if len(slots) > self._settings.max_victims:
            return None
        pairs = []
        for slot in slots:
            held = state.victims.held[slot]
            assert held is not None
            pairs.append((held, _CAUSES[_SHORTER if causes is None else causes[slot]]))
        return PreemptionPlan(tuple(pairs), tuple(option[2] for option in rows))

    def _clear_row(
        self, shape: Shape, row: int, candidates: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Take candidates in order until the row fits, then put back whoever is not needed."""
        if shape.is_plain and self._capacity.open[row]:
            found = self._clear_whole(shape.gpus, row, candidates)
            if found is not None:
                return found
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

    def _whole_gpus(self, slot: int, row: int) -> int | None:
        """GPUs that a job has to itself on a row; None: it shares some, or the row is all its."""
        held = self._state.victims.held[slot]
        assert held is not None
        if held.shape.is_fraction or held.shape.exclusive:
            return None
        return sum([len(gpus) for at, gpus in held.parts if at == row])

    def _clear_whole(
        self, need: int, row: int, candidates: list[tuple[int, int]]
    ) -> list[tuple[int, int]] | None:
        """The same where whole GPUs are all that counts; None: some candidate shares a GPU."""
        free = int(self._capacity.whole[row])
        chosen: list[tuple[tuple[int, int], int]] = []
        for pair in candidates:
            if len(chosen) >= self._settings.max_victims:
                return []
            size = self._whole_gpus(pair[1], row)
            if size is None:
                return None
            free += size
            chosen.append((pair, size))
            if free >= need:
                break
        else:
            return []
        kept = [chosen[-1][0]]
        for pair, size in reversed(chosen[:-1]):
            if free - size >= need:
                free -= size
            else:
                kept.append(pair)
        return kept[::-1]

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
