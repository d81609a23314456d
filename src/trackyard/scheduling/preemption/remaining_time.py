"""How long running jobs are taken to run on, for those who may be stopped.

Owns Rests: who is ripe to be stopped, and the length of its rest where it yields to shorter
jobs. Learned lengths change in steps as a job runs on, so a moment looks only at those whose
step is due. Knows nothing of claimants, quotas or nodes.
"""

from __future__ import annotations

from math import inf, nextafter
from typing import TYPE_CHECKING

import numpy as np

from trackyard.scheduling.forecast.durations import EDGES, level_of
from trackyard.scheduling.place.table import Floats, Ints, Mask

if TYPE_CHECKING:
    from trackyard.scheduling.preemption.victims import Victims

_EDGES: Floats = np.array(EDGES)
#: by level of run time the run time at which the next begins
_NEXT_EDGES: tuple[float, ...] = (*EDGES, inf)
#: Jobs are looked at this much before their step is due: sums of seconds are not exact.
_EARLY_SECONDS = 1e-5
#: Up to so many are looked at one by one, which is faster for them than columns are.
_FEW = 12


class RemainingTimes:
    """Rests of running jobs in one unit: seconds, or GPU-seconds where `by_size`."""

    def __init__(self, victims: Victims, *, by_size: bool) -> None:
        self._victims = victims
        self._by_size = by_size
        self.restart()

    def restart(self) -> None:
        """Look at everyone anew when next asked."""
        victims = self._victims
        room = len(victims.started)
        #: may be stopped as far as its own time goes
        self.is_ripe: Mask = np.zeros(room, dtype=np.bool_)
        #: its length where it yields to shorter jobs; 0: it does not
        self.rest: Floats = np.zeros(room)
        self._due: Floats = np.where(victims.can_stop, -inf, inf)
        self._next_due = -inf
        #: the longest rest by number of the team; where it is stale, the most that it may be
        self._longest: list[float] = [0.0] * len(victims.teams)
        self._stale: set[int] = set()

    def add(self, slot: int, team: int, ripe_at: float, *, can_stop: bool) -> None:
        """Note a job that starts."""
        if team == len(self._longest):
            self._longest.append(0.0)
        if not can_stop:
            return
        due = ripe_at - _EARLY_SECONDS
        self._due[slot] = due
        self._next_due = min(self._next_due, due)

    def drop(self, slot: int) -> None:
        """Forget a job that ends, or that may not be stopped any more."""
        self._due[slot] = inf
        if self.is_ripe[slot]:
            self.is_ripe[slot] = False
            rest = self.rest[slot]
            if rest:
                self.rest[slot] = 0.0
                team = int(self._victims.team[slot])
                if rest >= self._longest[team]:
                    self._stale.add(team)

    def advance(self, now: float) -> None:
        """Bring those up to date whose time has come."""
        if now < self._next_due:
            return
        slots = (self._due <= now).nonzero()[0]
        if len(slots) <= _FEW:
            for slot in slots.tolist():
                self._look_at(slot, now)
        else:
            self._look_at_many(slots, now)
            longest = np.zeros(len(self._longest))
            np.maximum.at(longest, self._victims.team, self.rest)
            self._longest = longest.tolist()
            self._stale.clear()
        self._next_due = float(np.minimum.reduce(self._due))

    def _look_at(self, slot: int, now: float) -> None:
        """Work out one rest, and note when it is to be looked at again."""
        held = self._victims.held[slot]
        assert held is not None
        started = held.started_at
        ripe_at = float(self._victims.ripe_at[slot])
        # Whoever started at this very moment was just preferred to others.
        is_ripe = ripe_at <= now and started < now
        rest = 0.0
        if not is_ripe:
            due = max(ripe_at - _EARLY_SECONDS, nextafter(now, inf))
        else:
            ran = held.attained + (now - started)
            stated, size = held.job.estimate_seconds, held.shape.size if self._by_size else 1.0
            if stated is None:
                level = level_of(ran)
                rest = self._victims.rows[slot][level] * size
                due = started + (_NEXT_EDGES[level] - held.attained) - _EARLY_SECONDS
            else:
                rest, due = max(stated - ran, 0.0) * size, nextafter(now, inf)
        self.is_ripe[slot] = is_ripe
        self._due[slot] = due
        before, self.rest[slot] = self.rest[slot], rest
        team = self._victims.teams[held.job.team]
        if rest >= self._longest[team]:
            self._longest[team] = rest
        elif before >= self._longest[team]:
            self._stale.add(team)

    def _look_at_many(self, slots: Ints, now: float) -> None:
        """The same for many at once."""
        victims, after = self._victims, nextafter(now, inf)
        started, attained = victims.started[slots], victims.attained[slots]
        ran = attained + (now - started)
        ripe_at = victims.ripe_at[slots]
        # Whoever started at this very moment was just preferred to others.
        is_ripe = (ripe_at <= now) & (started < now)
        ripens = np.maximum(ripe_at - _EARLY_SECONDS, after)
        rest, due = np.maximum(victims.stated[slots] - ran, 0.0), np.full(len(slots), after)
        learned = (victims.stated[slots] < 0).nonzero()[0]
        if len(learned):
            levels = _EDGES.searchsorted(ran[learned], side="right")
            rows = [victims.rows[slot] for slot in slots[learned].tolist()]
            rest[learned] = [row[at] for row, at in zip(rows, levels.tolist(), strict=True)]
            due[learned] = started[learned] - _EARLY_SECONDS
            due[learned] += np.array(_NEXT_EDGES)[levels] - attained[learned]
        if self._by_size:
            rest *= victims.size[slots]
        self.is_ripe[slots] = is_ripe
        self.rest[slots] = rest * is_ripe
        self._due[slots] = np.where(is_ripe, due, ripens)

    def longest(self, team: int) -> float:
        """Return the longest rest among a team's jobs."""
        if team in self._stale:
            self._stale.discard(team)
            self._longest[team] = float(
                np.maximum.reduce(self.rest * (self._victims.team == team))
            )
        return self._longest[team]

    def longer_than(self, length: float) -> list[int]:
        """Return the numbers of the teams of which someone's rest is longer than this."""
        found = [team for team, most in enumerate(self._longest) if most > length]
        if self._stale and found:
            found = [team for team in found if self.longest(team) > length]
        return found
