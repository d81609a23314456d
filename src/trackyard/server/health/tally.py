"""What this process has done since it started, in numbers: requests, events, waits, ends.

Owns the counting, which is cheap enough for every request. Knows no route and no output format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

from trackyard.core.events import Event

#: Upper edges of the histograms, in seconds: of answers, and of waits in the queue.
ANSWER_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
WAIT_EDGES = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0)


class Histogram:
    """How many observations lie below each of some edges, and their sum."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value


class Tally:
    """The counters of one server process."""

    def __init__(self) -> None:
        #: answers by route and status
        self.answers: Counter[tuple[str, int]] = Counter()
        #: seconds to an answer by route
        self.answer_seconds: dict[str, Histogram] = {}
        self.events: Counter[str] = Counter()
        #: ended attempts by cause
        self.attempts: Counter[str] = Counter()
        #: seconds from submission to each admission
        self.waits = Histogram(WAIT_EDGES)
        self.points = 0

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer; what found no route is given an empty one."""
        self.answers[route, status] += 1
        histogram = self.answer_seconds.get(route)
        if histogram is None:
            histogram = self.answer_seconds[route] = Histogram(ANSWER_EDGES)
        histogram.observe(seconds)

    def counting(self, tell: Callable[[int, str], None]) -> Callable[[int, str, int], None]:
        """Return what counts new points of a run and tells of the run."""

        def noted(team_id: int, run_id: str, count: int) -> None:
            self.points += count
            tell(team_id, run_id)

        return noted

    def committed(self, events: Iterable[tuple[int, int, Event]]) -> None:
        """Count events that this process has written."""
        for _, _, event in events:
            self.events[event.kind] += 1
            if event.kind == "job.admitted":
                self.waits.observe(event.data["waited_ms"] / 1000)
            elif event.kind in ("attempt.ended", "attempt.lost"):
                self.attempts[event.data["cause"]] += 1
