"""Reading metric points back: whole histories, samples and charts. Merges settled blocks with
the log's tail.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from trackyard.store.database import ReadConnection
from trackyard.tracking.metrics.log_rows import gather
from trackyard.tracking.metrics.points import (
    EMPTY,
    Buckets,
    Points,
    by_step,
    by_time,
    decode_block,
    decode_summary,
    join,
    merge,
    roll_up,
    shift_for,
)

#: series -> (attempt, points) of what is still in the log
Tails = dict[int, list[tuple[int, Points]]]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which points of earlier attempts were rolled back: attempt -> last surviving step."""

    cuts: tuple[tuple[int, int], ...] = ()

    def limit(self, attempt: int) -> int | None:
        """Return the last step of an attempt that still counts, or None for all of them."""
        later = [step for began, step in self.cuts if began > attempt]
        return min(later) if later else None


def lineage(reader: ReadConnection, run: int) -> Lineage:
    """Load the roll-backs of a run."""
    rows = reader.all("SELECT attempt, step FROM rollbacks WHERE run_id = ?", (run,))
    return Lineage(tuple((row[0], row[1]) for row in rows))


def load(
    reader: ReadConnection,
    run: int,
    name_id: int,
    *,
    span: tuple[int, int] | None = None,
    orphans: bool = False,
) -> Points:
    """Return a series' points, unsorted; of rolled-back ones only with `orphans`, then nothing
    else.
    """
    cuts = lineage(reader, run)
    parts = []
    for attempt, points in _blocks(reader, run, name_id, span):
        parts.append(_surviving(points, cuts.limit(attempt), orphans))
    for attempt, points in tails(reader, run, (name_id,))[name_id]:
        parts.append(_surviving(points, cuts.limit(attempt), orphans))
    points = join([part for part in parts if len(part)])
    if span is not None and len(points):
        points = points.take((points.steps >= span[0]) & (points.steps <= span[1]))
    return points


def _blocks(
    reader: ReadConnection, run: int, name_id: int, span: tuple[int, int] | None
) -> list[tuple[int, Points]]:
    where, params = "run_id = ? AND name_id = ?", [run, name_id]
    if span is not None:
        where += " AND last_step >= ? AND first_step <= ?"
        params += [span[0], span[1]]
    rows = reader.all(
        f"SELECT attempt, data FROM metric_blocks WHERE {where} ORDER BY first_ms", params
    )
    return [(row[0], decode_block(row[1])) for row in rows]


def tails(reader: ReadConnection, run: int, name_ids: Collection[int]) -> Tails:
    """Return what is still in the log of each of these series, joined per attempt."""
    rows = reader.all("SELECT attempt, data FROM metric_log WHERE run_id = ? ORDER BY id", (run,))
    found: Tails = {name_id: [] for name_id in name_ids}
    logged = gather(((int(attempt), data) for attempt, data in rows), name_ids)
    for (name_id, attempt), points in logged.items():
        found[name_id].append((attempt, points))
    return found


def _surviving(points: Points, limit: int | None, orphans: bool) -> Points:
    if limit is None:
        return EMPTY if orphans else points
    chosen = points.steps > limit if orphans else points.steps <= limit
    return points.take(chosen)


def history(reader: ReadConnection, run: int, name_id: int) -> Points:
    """Return a series in MLflow's order: time, step, value."""
    return by_time(load(reader, run, name_id))


def sample(points: Points, count: int) -> Points:
    """Thin points out as MLflow does: the first of each of `count` even groups, and the last.

    Where the groups cannot be even, the earlier ones hold one more.
    """
    if len(points) <= count:
        return points
    size, larger = divmod(len(points), count)
    group = np.arange(count, dtype=np.int64)
    places = group * size + np.minimum(group, larger)
    places[-1] = len(points) - 1
    return points.take(places)


def chart(
    reader: ReadConnection,
    run: int,
    name_id: int,
    fresh: list[tuple[int, Points]],
    *,
    buckets: int,
    span: tuple[int, int] | None = None,
    orphans: bool = False,
) -> Buckets | None:
    """Return a series as at most `buckets` roll-ups, from block summaries wherever those
    suffice, and from its `fresh` points, which `tails` reads for all series of a run at once.
    """
    cuts = lineage(reader, run)
    where, params = "run_id = ? AND name_id = ?", [run, name_id]
    if span is not None:
        where += " AND last_step >= ? AND first_step <= ?"
        params += [span[0], span[1]]
    heads = reader.all(
        "SELECT id, attempt, first_step, last_step, summary FROM metric_blocks"
        f" WHERE {where} ORDER BY first_ms",
        params,
    )
    tail = [
        _clip(_surviving(points, cuts.limit(attempt), orphans), span) for attempt, points in fresh
    ]
    tail = [points for points in tail if len(points)]
    bounds = [(head[2], head[3]) for head in heads]
    bounds += [(int(points.steps.min()), int(points.steps.max())) for points in tail]
    if not bounds:
        return None
    first, last = min(b[0] for b in bounds), max(b[1] for b in bounds)
    if span is not None:
        first, last = max(first, span[0]), min(last, span[1])
    shift = shift_for(first, max(first, last), buckets)
    parts, exact = [], list(tail)
    for block_id, attempt, low, high, summary in heads:
        whole = (
            cuts.limit(attempt) is None
            and not orphans
            and (span is None or (span[0] <= low and high <= span[1]))
        )
        if whole and summary and summary[0] <= shift:
            parts.append(decode_summary(summary))
        else:
            row = reader.one("SELECT data FROM metric_blocks WHERE id = ?", (block_id,))
            if row is not None:
                points = _surviving(decode_block(row[0]), cuts.limit(attempt), orphans)
                exact.append(_clip(points, span))
    raw = by_step(join([points for points in exact if len(points)]))
    if len(raw):
        parts.append(roll_up(raw, shift))
    return merge(parts, shift) if parts else None


def _clip(points: Points, span: tuple[int, int] | None) -> Points:
    if span is None or not len(points):
        return points
    return points.take((points.steps >= span[0]) & (points.steps <= span[1]))
