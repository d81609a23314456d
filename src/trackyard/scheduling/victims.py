"""Running jobs in columns, so that those who may be stopped are found at once.

Owns Victims: who may be stopped for a claimant, why, and in which order. Knows nothing of nodes.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trackyard.core.job import Job
from trackyard.scheduling.durations import EDGES, LEVELS, DurationModel
from trackyard.scheduling.place.table import Floats, Ints, Mask

if TYPE_CHECKING:
    from trackyard.scheduling.state import Held

_EDGES: Floats = np.array(EDGES)


class Victims:
    """One row per running job; rows are reused."""

    def __init__(self, room: int = 64) -> None:
        self._free: list[int] = []
        #: numbers of the teams seen
        self.teams: dict[str, int] = {}
        self.held: list[Held | None] = []
        #: how often a row was freed or spared
        self.removals = 0
        #: how many there are of each class
        self.levels: Counter[int] = Counter()
        self._stated_count = 0
        #: how often someone protected came or went
        self.protections = 0
        self._resize(room)

    def _resize(self, room: int) -> None:
        old = len(self.held)
        self._free.extend(range(room - 1, old - 1, -1))
        self.held.extend([None] * (room - old))
        grown: dict[str, NDArray[Any]] = {
            name: np.zeros((room, LEVELS) if name in ("ranks", "weighted") else room, dtype=kind)
            for name, kind in _COLUMNS
        }
        for name, column in grown.items():
            if old:
                column[:old] = getattr(self, name)
            setattr(self, name, column)

    # Columns, set by _resize.
    can_stop: Mask
    protected: Floats
    started: Floats
    attained: Floats
    saved: Floats
    stated: Floats
    size: Floats
    milli: Ints
    level: Ints
    team: Ints
    ranks: Floats
    #: ranks times size
    weighted: Floats

    def add(self, held: Held, durations: DurationModel) -> None:
        """Give a running job its row."""
        if not self._free:
            self._resize(2 * len(self.held))
        slot = self._free.pop()
        held.slot = slot
        self.held[slot] = held
        job = held.job
        self.levels[job.priority] += 1
        self.can_stop[slot] = job.preemptible and held.stops_at is None
        self.protected[slot] = held.protected_until
        if held.protected_until:
            self.protections += 1
        self.started[slot] = held.started_at
        self.attained[slot] = held.attained
        self.saved[slot] = held.saved_at
        self.size[slot] = held.shape.size
        self.milli[slot] = held.shape.total_milli
        self.level[slot] = int(job.priority)
        self.team[slot] = self.teams.setdefault(job.team, len(self.teams))
        if job.estimate_seconds is None:
            self.stated[slot] = -1.0
            rows = durations.row_array(job)
            self.ranks[slot] = rows
            np.multiply(rows, held.shape.size, out=self.weighted[slot])
        else:
            self.stated[slot] = job.estimate_seconds
            self._stated_count += 1

    def load(self, everyone: list[Held], durations: DurationModel) -> None:
        """Give many their rows at once, in an empty table."""
        if len(everyone) > len(self.held):
            self._resize(len(everyone) + 64)
        count = len(everyone)
        self._free = list(range(len(self.held) - 1, count - 1, -1))
        for slot, held in enumerate(everyone):
            held.slot = slot
            self.held[slot] = held
        jobs = [held.job for held in everyone]
        shapes = [held.shape for held in everyone]
        teams = self.teams
        columns: tuple[tuple[str, list[Any]], ...] = (
            ("can_stop", [held.job.preemptible and held.stops_at is None for held in everyone]),
            ("protected", [held.protected_until for held in everyone]),
            ("started", [held.started_at for held in everyone]),
            ("attained", [held.attained for held in everyone]),
            ("saved", [held.saved_at for held in everyone]),
            ("size", [shape.size for shape in shapes]),
            ("milli", [shape.total_milli for shape in shapes]),
            ("team", [teams.setdefault(job.team, len(teams)) for job in jobs]),
            ("stated", [-1.0 if (e := job.estimate_seconds) is None else e for job in jobs]),
        )
        for name, values in columns:
            getattr(self, name)[:count] = values
        self.level[:count] = np.fromiter((job.priority for job in jobs), np.int64, count)
        self.levels.update(self.level[:count].tolist())
        self._stated_count = int((self.stated[:count] >= 0).sum())
        self._load_ranks(jobs, durations)
        np.multiply(self.ranks[:count], self.size[:count, None], out=self.weighted[:count])

    def _load_ranks(self, jobs: list[Job], durations: DurationModel) -> None:
        count = len(jobs)
        if durations.is_empty and jobs:
            self.ranks[:count] = durations.rows(jobs[0])
            return
        rows = durations.rows_of(jobs)
        kinds: dict[int, int] = {}
        # Few jobs differ in what was learned of them: copy each kind of row in one go.
        which = [kinds.setdefault(id(one), len(kinds)) for one in rows]
        if rows:
            by_id = {id(one): one for one in rows}
            self.ranks[:count] = np.array([by_id[key] for key in kinds])[which]

    def remove(self, held: Held) -> None:
        """Free a job's row."""
        self.removals += 1
        self.can_stop[held.slot] = False
        self.levels[held.job.priority] -= 1
        if held.job.estimate_seconds is not None:
            self._stated_count -= 1
        if held.protected_until:
            self.protections += 1
        self.protected[held.slot] = 0.0
        self.held[held.slot] = None
        self._free.append(held.slot)
        held.slot = -1

    def protected_milli(self, now: float) -> tuple[int, float]:
        """GPU thousandths held by those who may not be disturbed, and until when that is so."""
        still = self.protected > now
        if not still.any():
            return 0, inf
        return int(self.milli[still].sum()), float(self.protected[still].min())

    def spare(self, held: Held) -> None:
        """Never stop this one (again)."""
        self.removals += 1
        self.can_stop[held.slot] = False

    def lengths(self, now: float, slots: Ints, *, by_size: bool) -> Floats:
        """How long each of these is to be taken to be from now on, in the unit of the order."""
        ran = self.attained[slots] + (now - self.started[slots])
        levels = _EDGES.searchsorted(ran, side="right")
        learned: Floats = (self.weighted if by_size else self.ranks)[slots, levels]
        if not self._stated_count:
            return learned
        stated = self.stated[slots]
        rest = np.maximum(stated - ran, 0.0)
        return np.where(stated < 0, learned, rest * self.size[slots] if by_size else rest)


_COLUMNS: tuple[tuple[str, type], ...] = (
    ("can_stop", np.bool_),
    ("protected", np.float64),
    ("started", np.float64),
    ("attained", np.float64),
    ("saved", np.float64),
    ("stated", np.float64),
    ("size", np.float64),
    ("milli", np.int64),
    ("level", np.int64),
    ("team", np.int64),
    ("ranks", np.float64),
    ("weighted", np.float64),
)
