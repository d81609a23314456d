"""How long jobs run: learned from those that ended.

Owns DurationModel: what a user, team, name, command or recurrence group was seen to take. From it
come the expected length, its range, and the rank of a job that already ran for a while.
Reads no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trackyard.core.job import Job

#: Run times are kept in bins whose edges grow by this factor, from one second to about a year.
_STEP = 1.5
EDGES: tuple[float, ...] = tuple(_STEP**power for power in range(43))
LEVELS = len(EDGES) + 1
#: The run time that stands for each bin.
_MIDDLES: tuple[float, ...] = (0.5, *(edge * (1 + _STEP) / 2 for edge in EDGES))
#: A key speaks once it was seen this often.
_ENOUGH = 3
#: Kinds of jobs of which it is remembered which key speaks of them.
_MOST_KINDS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class DurationEstimate:
    """A foreseen run time."""

    #: expected seconds
    seconds: float
    #: eight of ten such jobs took between these
    low_seconds: float
    high_seconds: float
    #: 0 (a guess) to 1 (stated, or seen very often)
    confidence: float
    #: where it comes from: request, limit, group, name, command, user, team, all or nothing
    source: str


UNKNOWN = DurationEstimate(
    seconds=3600.0, low_seconds=60.0, high_seconds=86400.0, confidence=0.0, source="nothing"
)


class _Seen:
    """Run times seen under one key: a histogram and their sum."""

    __slots__ = ("bins", "bounds", "count", "rows", "rows_count", "total")

    def __init__(self) -> None:
        self.bins = [0] * LEVELS
        self.count = 0
        self.total = 0.0
        self.rows: tuple[float, ...] = ()
        self.bounds: tuple[float, ...] = ()
        self.rows_count = 0

    def add(self, seconds: float) -> None:
        self.bins[bisect_right(EDGES, seconds)] += 1
        self.count += 1
        self.total += seconds

    def settle(self) -> None:
        """Bring what is derived from the histogram up to date, now and then."""
        if not self.rows or self.count > self.rows_count * 1.1:
            self.rows = _ranks(self.bins)
            self.bounds = _bounds(self.bins)
            self.rows_count = self.count

    def quantile(self, part: float) -> float:
        target, seen = part * self.count, 0
        for level, number in enumerate(self.bins):
            seen += number
            if number and seen >= target:
                return _MIDDLES[level]
        return _MIDDLES[-1]


class DurationModel:
    """Run times learned from jobs that ended; deciding only reads it."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, _Seen] = {}
        #: what speaks of jobs that are alike, until another key has something to say
        self._speaks: dict[tuple[object, ...], tuple[str, _Seen | None]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was learned yet."""
        return not self._seen

    def observe(self, job: Job, seconds: float) -> None:
        """Learn from a job that ran this long in all."""
        for _, key in _keys(job):
            seen = self._seen.get(key)
            if seen is None:
                seen = self._seen[key] = _Seen()
            seen.add(seconds)
            if seen.count == _ENOUGH:
                self._speaks.clear()

    def estimate(self, job: Job) -> DurationEstimate:
        """Foresee a whole run of this job: as stated, else as learned."""
        stated = (
            job.estimate_seconds if job.estimate_seconds is not None else job.time_limit_seconds
        )
        if stated is not None:
            source = "limit" if job.estimate_seconds is None else "request"
            low = stated if source == "request" else 0.0
            return DurationEstimate(
                seconds=stated, low_seconds=low, high_seconds=stated, confidence=1.0, source=source
            )
        source, seen = self._best(job)
        if seen is None:
            return UNKNOWN
        return DurationEstimate(
            seconds=seen.total / seen.count,
            low_seconds=seen.quantile(0.1),
            high_seconds=seen.quantile(0.9),
            confidence=seen.count / (seen.count + 10.0),
            source=source,
        )

    def expected_seconds(self, job: Job) -> float:
        """Foresee a whole run of this job, the number alone."""
        if job.estimate_seconds is not None:
            return job.estimate_seconds
        if job.time_limit_seconds is not None:
            return job.time_limit_seconds
        _, seen = self._best(job)
        return UNKNOWN.seconds if seen is None else seen.total / seen.count

    def expected_of(self, jobs: Sequence[Job]) -> list[float]:
        """Foresee whole runs of many jobs; what they have in common is looked up once."""
        if not self._seen:
            return [self.expected_seconds(job) for job in jobs]
        known: dict[tuple[object, ...], float] = {}
        found = []
        for job in jobs:
            stated = (job.estimate_seconds, job.time_limit_seconds)
            alike = (job.team, job.user, job.name, job.command, job.group, id(job.request), stated)
            seconds = known.get(alike)
            if seconds is None:
                seconds = known[alike] = self.expected_seconds(job)
            found.append(seconds)
        return found

    def knows(self, job: Job) -> bool:
        """Say whether its length is stated or was learned, and is not a mere guess."""
        if job.estimate_seconds is not None or job.time_limit_seconds is not None:
            return True
        return self._best(job)[1] is not None

    def rows(self, job: Job) -> tuple[float, ...]:
        """Return by level of run time so far how long the job should be taken to be.

        The smallest ratio, over all spans ahead, of expected run time within the span to the
        chance of ending in it (the Gittins rank). For run times like those of training jobs
        it grows as a job runs on.
        """
        _, seen = self._best(job)
        if seen is None:
            return _UNKNOWN_ROWS
        seen.settle()
        return seen.rows

    def rows_of(self, jobs: Sequence[Job]) -> list[tuple[float, ...]]:
        """Return the rows of many jobs; what they have in common is looked up once."""
        if not self._seen:
            return [_UNKNOWN_ROWS] * len(jobs)
        known: dict[tuple[object, ...], tuple[float, ...]] = {}
        found = []
        for job in jobs:
            alike = (job.team, job.user, job.name, job.command, job.group, id(job.request))
            rows = known.get(alike)
            if rows is None:
                rows = known[alike] = self.rows(job)
            found.append(rows)
        return found

    def bound_seconds(self, job: Job, attained_seconds: float = 0.0) -> float:
        """Return within what time nine of ten such jobs end that ran for so long already."""
        _, seen = self._best(job)
        if seen is None:
            return UNKNOWN.high_seconds
        seen.settle()
        return seen.bounds[bisect_right(EDGES, attained_seconds)]

    def _best(self, job: Job) -> tuple[str, _Seen | None]:
        if not self._seen:
            return "nothing", None
        size = job.request.gpu_milli_total
        alike = (job.team, job.user, job.name, job.command, job.group, size)
        known = self._speaks.get(alike)
        if known is None:
            if len(self._speaks) >= _MOST_KINDS:
                self._speaks.clear()
            known = self._speaks[alike] = self._look_up(job)
        return known

    def _look_up(self, job: Job) -> tuple[str, _Seen | None]:
        for source, key in _keys(job):
            seen = self._seen.get(key)
            if seen is not None and seen.count >= _ENOUGH:
                return source, seen
        return "nothing", None


def level_of(attained_seconds: float) -> int:
    """Return the bin that a run time falls into."""
    return bisect_right(EDGES, attained_seconds)


def _keys(job: Job) -> Iterator[tuple[str, Hashable]]:
    """Yield what this job has in common with others, the most telling first."""
    size = job.request.gpu_milli_total
    if job.group:
        yield "group", ("group", job.team, job.group, size)
        yield "group", ("group", job.team, job.group)
    if job.name:
        yield "name", ("name", job.team, job.user, job.name, size)
    if job.command:
        yield "command", ("command", job.team, job.user, job.command, size)
    if job.user:
        yield "user", ("user", job.team, job.user, size)
        yield "user", ("user", job.team, job.user)
    yield "team", ("team", job.team, size)
    yield "team", ("team", job.team)
    if job.command:
        # Nothing is known of this team: what the same command took others tells more than all do.
        yield "command", ("command", job.command, size)
    yield "all", "all"


def _ranks(bins: list[int]) -> tuple[float, ...]:
    """Compute the rank for each level of a histogram."""
    seen = np.array(bins[:-1], dtype=np.float64)
    alive = np.cumsum(np.array(bins[::-1]))[::-1] + 0.5
    ended = np.cumsum(np.where(_AHEAD, seen, 0.0), axis=1)
    survivors = alive[:, None] - ended
    # Who ends in a bin spends its middle there, the others all of it: both summed in turn.
    spent = np.empty((LEVELS, 2 * len(seen)))
    spent[:, 0::2] = np.where(_AHEAD, seen * _IN_BIN, 0.0)
    spent[:, 1::2] = np.where(_AHEAD, survivors * _WHOLE_BIN, 0.0)
    total = np.cumsum(spent, axis=1)[:, 1::2]
    ratio = np.full(ended.shape, np.inf)
    np.divide(total, ended, out=ratio, where=ended > 0)
    best = ratio.min(axis=1)
    return tuple(np.where(np.isinf(best), _BEYOND, best).tolist())


def _bounds(bins: list[int]) -> tuple[float, ...]:
    """For each level, the time within which nine of ten survivors of that level end."""
    bounds = [0.0] * LEVELS
    for level in range(LEVELS):
        start = EDGES[level - 1] if level else 0.0
        target, seen = 0.9 * sum(bins[level:]), 0
        bounds[level] = max(start, 60.0)
        for ahead in range(level, LEVELS - 1):
            seen += bins[ahead]
            if seen and seen >= target:
                bounds[level] = EDGES[ahead] - start
                break
    return tuple(bounds)


_STARTS = np.array([0.0, *EDGES])
_BINS = np.arange(LEVELS - 1)
#: for each level the bins that lie ahead of it, and what part of each
_AHEAD = np.arange(LEVELS)[:, None] <= _BINS
_LOW = np.maximum(_STARTS[:-1], _STARTS[:, None])
_LOW[:, 0] = 0.0
_IN_BIN = np.maximum(np.array(_MIDDLES[:-1]) - _LOW, 0.0)
_WHOLE_BIN = np.array(EDGES) - _LOW
#: the rank where nothing was seen ahead
_BEYOND = np.array([2 * EDGES[min(level, LEVELS - 2)] for level in range(LEVELS)])

#: Where nothing is known: an hour, or as long again as it has run.
_UNKNOWN_ROWS = tuple(max(UNKNOWN.seconds, start) for start in _STARTS.tolist())
