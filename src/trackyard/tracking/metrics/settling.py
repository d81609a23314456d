"""Which runs' points are settled now: soon where the server is at leisure, little by little
where it is busy, at once where a run's log has grown long or someone draws it. Pure: counts in,
run ids out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trackyard.tracking.metrics.points import BLOCK_POINTS

#: Rows or points of one run that make it worth settling while the server is at leisure.
ENOUGH_ROWS = 128
ENOUGH_POINTS = BLOCK_POINTS
#: The same while it is busy: reading this much from the log still takes a fraction of a chart's
#: time, and settling more at once rewrites each point less often.
MANY_ROWS = 2048
MANY_POINTS = 16 * BLOCK_POINTS
#: Rows of one run taken at once, and while the server is busy.
MOST_ROWS = 1024
FEW_ROWS = 128
#: Looks a quiet run is given before its rest is settled.
QUIET_LOOKS = 3
#: Share of one core that the server's other work takes from which on it counts as busy.
BUSY_SHARE = 0.4
#: Seconds between looks at the log, and those after which a look counts as late.
SETTLE_EVERY = 1.0
LATE_SECONDS = 2.0
#: Writes of others during one piece from which on the rest of a look's pieces wait.
CALLERS = 20

#: A run with rows in the log: its id, rows, points.
Waiting = tuple[int, int, int]
#: A run to settle, and how many of its rows.
Piece = tuple[int, int]


def share_of(spent: float, elapsed: float) -> float:
    """Return the share of a core that went to other work since the last look.

    Who wakes late was halted or crowded out, and callers have queued up meanwhile: that is busy.
    """
    return 1.0 if elapsed > LATE_SECONDS else spent / elapsed


@dataclass(slots=True)
class QuietRuns:
    """Remembers how long each run has been quiet, from one look at the log to the next."""

    _quiet: dict[int, tuple[int, int]] = field(default_factory=dict)
    _watched: set[int] = field(default_factory=set)

    def look_at(self, run: int) -> None:
        """Note that someone draws this run, so that it is settled before others."""
        self._watched.add(run)

    def due(self, waiting: list[Waiting], share: float) -> list[Piece]:
        """Choose what to settle now, given the share of a core that others use."""
        busy = share >= BUSY_SHARE
        watched, self._watched = self._watched, set()
        seen: dict[int, tuple[int, int]] = {}
        chosen, ripe = [], []
        for run, rows, points in waiting:
            before, looks = self._quiet.get(run, (-1, 0))
            looks = looks + 1 if rows == before else 0
            if rows >= MANY_ROWS or points >= MANY_POINTS:
                chosen.append(run)
            elif rows >= ENOUGH_ROWS or points >= ENOUGH_POINTS or looks >= QUIET_LOOKS:
                if run in watched:
                    chosen.append(run)
                else:
                    ripe.append((looks, run))
            seen[run] = (rows, looks)
        if busy:
            # A little of one run a look, whichever waits longest, so that all have their turn.
            ripe = sorted(ripe, key=lambda one: -one[0])[: 0 if chosen else 1]
        pieces = [(run, MOST_ROWS) for run in chosen]
        pieces += [(run, FEW_ROWS if busy else MOST_ROWS) for _, run in ripe]
        for run, _ in pieces:
            del seen[run]
        self._quiet = seen
        return pieces
