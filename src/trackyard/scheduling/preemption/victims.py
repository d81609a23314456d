"""Running jobs in columns, so that those who may be stopped are found at once.

Owns Victims: what the search for victims must know of each running job. Knows nothing of nodes
or claimants.
"""

from __future__ import annotations

from collections import Counter
from math import inf, nan
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.place.table import Floats, Ints, Mask
from trackyard.scheduling.policy import HOUR, PreemptionRules
from trackyard.scheduling.preemption.remaining_time import RemainingTimes

if TYPE_CHECKING:
    from trackyard.core.job import Job
    from trackyard.scheduling.state import HeldJob

_NO_ROWS: tuple[float, ...] = ()
_PRIORITY = attrgetter("priority")
#: of a job without array, name or command
_NONE = (0, 0, 0)


class Victims:
    """One row per running job; rows are reused."""

    def __init__(self, settings: PreemptionRules | None = None, room: int = 64) -> None:
        self._settings = settings or PreemptionRules()
        self._free: list[int] = []
        #: numbers of what jobs have in common: array, command, or one user's name for them
        self._kinds: dict[tuple[str, ...], int] = {}
        #: numbers of the teams seen, and their names by number
        self.teams: dict[str, int] = {}
        self.team_names: list[str] = []
        self.held: list[HeldJob | None] = []
        #: what was learned of each one's length, by level of run time
        self.rows: list[tuple[float, ...]] = []
        #: how many there are of each class
        self.levels: Counter[int] = Counter()
        #: how many stated their length, and how many a time limit
        self.stated_count = 0
        self.limited_count = 0
        #: rests by unit, once someone asked
        self._rests: dict[bool, RemainingTimes] = {}
        self._resize(room)

    def _resize(self, room: int) -> None:
        old = len(self.held)
        self._free.extend(range(room - 1, old - 1, -1))
        self.held.extend([None] * (room - old))
        self.rows.extend([_NO_ROWS] * (room - old))
        grown: dict[str, NDArray[Any]] = {
            name: np.zeros(room, dtype=kind) for name, kind in _COLUMNS
        }
        for name, column in grown.items():
            if old:
                column[:old] = getattr(self, name)
            setattr(self, name, column)
        for rests in self._rests.values():
            rests.restart()

    # Columns, set by _resize.
    can_stop: Mask
    started: Floats
    attained: Floats
    #: from when on it may be stopped for a job of its own class, and for any job at all
    ripe_at: Floats
    submitted: Floats
    stoppable_at: Floats
    #: the job it was last stopped for has not ended
    spared: Mask
    #: when it last saved as far as told, whether it ever did, and how often it does
    saved: Floats
    has_saved: Mask
    interval: Floats
    array: Ints
    name: Ints
    command: Ints
    #: the length of all of it, where its user states an estimate or a limit
    total: Floats
    #: when its time limit ends this attempt
    deadline: Floats
    stated: Floats
    size: Floats
    milli: Ints
    level: Ints
    team: Ints

    def add(self, held: HeldJob, durations: DurationModel) -> None:
        """Give a running job its row."""
        if not self._free:
            self._resize(2 * len(self.held))
        slot = self._free.pop()
        held.slot = slot
        self.held[slot] = held
        job = held.job
        self.levels[job.priority] += 1
        self.limited_count += job.time_limit_seconds is not None
        can_stop = job.preemptible and held.stops_at is None
        self.can_stop[slot] = can_stop
        self.started[slot] = held.started_at
        self.attained[slot] = held.attained
        for name, value in self._history(held):
            getattr(self, name)[slot] = value
        self.size[slot] = held.shape.size
        self.milli[slot] = held.shape.total_milli
        self.level[slot] = int(job.priority)
        team = self.team[slot] = self._number(job.team)
        if job.estimate_seconds is None:
            self.stated[slot] = -1.0
            self.rows[slot] = durations.rows(job)
        else:
            self.stated[slot] = job.estimate_seconds
            self.stated_count += 1
        for rests in self._rests.values():
            rests.add(slot, team, float(self.ripe_at[slot]), can_stop=can_stop)

    def _history(self, held: HeldJob) -> tuple[tuple[str, float], ...]:
        """What its past says of when it may be stopped, and what that would lose."""
        settings, stops = self._settings, held.stops
        most = settings.max_stops_per_hour
        often = stops[-most] + HOUR if len(stops) >= most else 0.0
        array, name, command = self.kinds(held.job)
        return (
            ("ripe_at", held.started_at + settings.min_run_seconds * 2 ** min(len(stops), 16)),
            ("stoppable_at", often),
            ("submitted", held.job.submitted_at),
            ("spared", bool(held.stopped_for)),
            ("saved", held.saved_at),
            ("has_saved", held.checkpoint_at is not None or held.attained > 0),
            ("interval", nan if held.save_seconds is None else held.save_seconds),
            ("array", array),
            ("name", name),
            ("command", command),
            ("total", stated_length(held.job)),
            ("deadline", held.started_at + (held.job.time_limit_seconds or inf)),
        )

    def kinds(self, job: Job) -> tuple[int, int, int]:
        """Numbers of its array, name and command; 0: it has none."""
        found = []
        keys = (
            ("array", job.array),
            ("name", job.team, job.user, job.name),
            ("command", job.command),
        )
        for key in keys:
            value = key[-1]
            found.append(self._kinds.setdefault(key, len(self._kinds) + 1) if value else 0)
        return found[0], found[1], found[2]

    def is_alike(self, job: Job) -> Mask:
        """Those of its array, of its command, of its user's name for it, or stated no longer."""
        array, name, command = self.kinds(job)
        # Whoever states no shorter a length than another is not the shorter one.
        mask: Mask = self.total <= stated_length(job)
        for column, kind in ((self.array, array), (self.name, name), (self.command, command)):
            if kind:
                mask |= column == kind
        return mask

    def lost(self, now: float) -> tuple[Floats, Mask]:
        """Run time that stopping each now would lose, and who has saved at all."""
        lost: Floats = now - self.saved
        has_saved = self.has_saved.copy()
        known = np.flatnonzero(~np.isnan(self.interval))
        if len(known):
            every = self.interval[known]
            ran = now - self.started[known]
            is_told = every == 0
            lost[known] = np.where(is_told, 0.0, ran % np.where(is_told, 1.0, every))
            has_saved[known] |= ran >= every
        return lost, has_saved

    def unspare(self, held: HeldJob) -> None:
        """The job that it was stopped for has ended."""
        held.stopped_for = ""
        self.spared[held.slot] = False

    def _number(self, team: str) -> int:
        known = self.teams.get(team)
        if known is None:
            known = self.teams[team] = len(self.teams)
            self.team_names.append(team)
        return known

    def load(self, everyone: list[HeldJob], durations: DurationModel) -> None:
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
        columns: tuple[tuple[str, list[Any]], ...] = (
            ("can_stop", [held.job.preemptible and held.stops_at is None for held in everyone]),
            ("started", [held.started_at for held in everyone]),
            ("attained", [held.attained for held in everyone]),
            ("size", [shape.size for shape in shapes]),
            ("milli", [shape.total_milli for shape in shapes]),
            ("team", [self._number(job.team) for job in jobs]),
            ("stated", [-1.0 if (e := job.estimate_seconds) is None else e for job in jobs]),
        )
        for name, values in columns:
            getattr(self, name)[:count] = values
        if everyone:
            self._load_histories(everyone)
        self.level[:count] = np.fromiter(map(_PRIORITY, jobs), np.int64, count)
        self.levels.update(self.level[:count].tolist())
        self.stated_count = int((self.stated[:count] >= 0).sum())
        self.limited_count = sum(job.time_limit_seconds is not None for job in jobs)
        self.rows[:count] = durations.rows_of(jobs)

    def _load_histories(self, everyone: list[HeldJob]) -> None:
        """What `_history` says of each, a column at a time."""
        count, jobs = len(everyone), [held.job for held in everyone]
        started = self.started[:count]
        self.ripe_at[:count] = started + self._settings.min_run_seconds
        self.stoppable_at[:count] = 0.0
        self.submitted[:count] = [job.submitted_at for job in jobs]
        self.spared[:count] = [bool(held.stopped_for) for held in everyone]
        saved: Floats = np.array([held.checkpoint_at for held in everyone], dtype=np.float64)
        self.saved[:count] = np.fmax(started, saved)
        self.has_saved[:count] = ~np.isnan(saved) | (self.attained[:count] > 0)
        every: Floats = np.array([held.save_seconds for held in everyone], dtype=np.float64)
        self.interval[:count] = every
        kinds = [
            self.kinds(job) if job.array or job.name or job.command else _NONE for job in jobs
        ]
        self.array[:count], self.name[:count], self.command[:count] = zip(*kinds, strict=True)
        limit: Floats = np.array([job.time_limit_seconds for job in jobs], dtype=np.float64)
        stated = self.stated[:count]
        self.total[:count] = np.where(stated < 0, limit, stated)
        self.deadline[:count] = started + np.where(np.isnan(limit) | (limit == 0), inf, limit)
        for slot, held in enumerate(everyone):
            if held.stops:
                for name, value in self._history(held):
                    getattr(self, name)[slot] = value

    def remove(self, held: HeldJob) -> None:
        """Free a job's row."""
        self.spare(held)
        self.levels[held.job.priority] -= 1
        if held.job.estimate_seconds is not None:
            self.stated_count -= 1
        self.limited_count -= held.job.time_limit_seconds is not None
        self.held[held.slot] = None
        self._free.append(held.slot)
        held.slot = -1

    def is_all_of(self, level: int) -> bool:
        """Say whether all that run are of this class."""
        return self.levels[level] == len(self.held) - len(self._free)

    def spare(self, held: HeldJob) -> None:
        """Never stop this one (again)."""
        self.can_stop[held.slot] = False
        for rests in self._rests.values():
            rests.drop(held.slot)

    def rests(self, *, by_size: bool) -> RemainingTimes:
        """How long each is to be taken to run on, in seconds or GPU-seconds, kept up to date."""
        known = self._rests.get(by_size)
        if known is None:
            known = self._rests[by_size] = RemainingTimes(self, by_size=by_size)
        return known


def stated_length(job: Job) -> float:
    """The length that its user states; not a number: none."""
    if job.estimate_seconds is not None:
        return job.estimate_seconds
    return nan if job.time_limit_seconds is None else job.time_limit_seconds


_COLUMNS: tuple[tuple[str, type], ...] = (
    ("can_stop", np.bool_),
    ("started", np.float64),
    ("attained", np.float64),
    ("ripe_at", np.float64),
    ("stoppable_at", np.float64),
    ("submitted", np.float64),
    ("spared", np.bool_),
    ("saved", np.float64),
    ("has_saved", np.bool_),
    ("interval", np.float64),
    ("array", np.int64),
    ("name", np.int64),
    ("command", np.int64),
    ("total", np.float64),
    ("deadline", np.float64),
    ("stated", np.float64),
    ("size", np.float64),
    ("milli", np.int64),
    ("level", np.int64),
    ("team", np.int64),
)
