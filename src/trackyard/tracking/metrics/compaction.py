"""Moves points from the log into blocks. Load, process outside any transaction, apply guarded:
stale work is dropped.

Blocks of a series grow by merging with neighbours of like size, so a point is rewritten a
handful of times at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trackyard.core.errors import Conflict
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.tracking.metrics.log_rows import gather
from trackyard.tracking.metrics.points import (
    BLOCK_POINTS,
    Points,
    by_step,
    decode_block,
    encode_block,
    encode_summary,
    join,
)
from trackyard.tracking.metrics.settling import MOST_ROWS

#: A block merges with newer points while it is at most this many times larger than they are.
GROWTH = 4

INSERT_BLOCK = (
    "INSERT INTO metric_blocks (run_id, name_id, attempt, rank, points, first_step, last_step,"
    " first_ms, last_ms, data, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(slots=True)
class _Work:
    log_ids: list[int] = field(default_factory=list)
    dead_blocks: list[int] = field(default_factory=list)
    blocks: list[tuple[Any, ...]] = field(default_factory=list)


def stored_points(reader: ReadConnection) -> tuple[int, int, int]:
    """Return all points, the bytes of those in blocks, and the rows of the log."""
    settled = reader.one(
        "SELECT coalesce(sum(points), 0), coalesce(sum(length(data) + length(summary)), 0)"
        " FROM metric_blocks"
    ) or (0, 0)
    logged = reader.one("SELECT coalesce(sum(points), 0), count(*) FROM metric_log") or (0, 0)
    return int(settled[0]) + int(logged[0]), int(settled[1]), int(logged[1])


def waiting(reader: ReadConnection) -> list[tuple[int, int, int]]:
    """Return runs that have rows in the log, the fullest first: (run, rows, points)."""
    rows = reader.all(
        "SELECT run_id, count(*), sum(points) FROM metric_log GROUP BY run_id"
        " ORDER BY 2 DESC LIMIT 200"
    )
    return [(row[0], row[1], int(row[2])) for row in rows]


async def settle(
    database: Database, run: int, *, final: bool = False, most: int = MOST_ROWS
) -> int:
    """Move one run's log rows into blocks; return how many rows moved."""
    work = await database.read(
        lambda reader: _prepare(reader, run, final=final, most=most), seconds=None
    )
    if not work.log_ids and not work.dead_blocks:
        return 0
    try:
        await database.write(lambda tx: _apply(tx, work), frees=True)
    except Conflict:
        return 0  # another process settled it first
    return len(work.log_ids)


def _prepare(reader: ReadConnection, run: int, *, final: bool, most: int = MOST_ROWS) -> _Work:
    work = _Work()
    rows = reader.all(
        "SELECT id, attempt, rank, data FROM metric_log WHERE run_id = ? ORDER BY id LIMIT ?",
        (run, most),
    )
    work.log_ids = [row[0] for row in rows]
    found = gather(((row[1], row[2]), row[3]) for row in rows)
    fresh = {(name_id, *place): points for (name_id, place), points in found.items()}
    keys = set(fresh)
    if final:
        keys |= {
            (row[0], row[1], row[2])
            for row in reader.all(
                "SELECT name_id, attempt, rank FROM metric_blocks WHERE run_id = ?"
                " GROUP BY name_id, attempt, rank HAVING count(*) > 1",
                (run,),
            )
        }
    for key in sorted(keys):
        _grow(reader, run, key, fresh.get(key), work, final=final)
    return work


def _grow(
    reader: ReadConnection,
    run: int,
    key: tuple[int, int, int],
    points: Points | None,
    work: _Work,
    *,
    final: bool,
) -> None:
    """Merge new points with the small blocks before them and cut the result into blocks."""
    parts = [points] if points is not None else []
    size = len(points) if points is not None else 0
    small = reader.all(
        "SELECT id, points FROM metric_blocks WHERE run_id = ? AND name_id = ? AND attempt = ?"
        " AND rank = ? AND points < ? ORDER BY id DESC",
        (run, *key, BLOCK_POINTS),
    )
    merged = []
    for block_id, count in small:
        if not final and count > GROWTH * size:
            break
        merged.append(block_id)
        size += count
    if points is None and len(merged) < 2:
        return
    for block_id in merged:
        row = reader.one("SELECT data FROM metric_blocks WHERE id = ?", (block_id,))
        if row is None:
            raise Conflict("the block was merged already")
        parts.append(decode_block(row[0]))
    work.dead_blocks += merged
    whole = by_step(join(parts))
    for start in range(0, len(whole), BLOCK_POINTS):
        work.blocks.append(block_row(run, key, whole.take(slice(start, start + BLOCK_POINTS))))


def block_row(run: int, key: tuple[int, int, int], points: Points) -> tuple[Any, ...]:
    """Return the row of a block; `key` is name id, attempt and rank."""
    return (
        run,
        *key,
        len(points),
        int(points.steps[0]),
        int(points.steps[-1]),
        int(points.times.min()),
        int(points.times.max()),
        encode_block(points),
        encode_summary(points),
    )


def _apply(tx: Tx, work: _Work) -> None:
    """Swap log rows and merged blocks for the new blocks, if all of them are still there."""
    if _count(tx, "metric_log", work.log_ids) != len(work.log_ids) or _count(
        tx, "metric_blocks", work.dead_blocks
    ) != len(work.dead_blocks):
        raise Conflict("the run was settled by someone else")
    tx.many("DELETE FROM metric_log WHERE id = ?", [(one,) for one in work.log_ids])
    tx.many("DELETE FROM metric_blocks WHERE id = ?", [(one,) for one in work.dead_blocks])
    tx.many(INSERT_BLOCK, work.blocks)


def _count(tx: Tx, table: str, ids: list[int]) -> int:
    """Count rows that still exist, locking them where several processes write."""
    if not ids:
        return 0
    found = 0
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        marks = ",".join("?" * len(part))
        rows = tx.all(f"SELECT id FROM {table} WHERE id IN ({marks}){tx.dialect.for_update}", part)
        found += len(rows)
    return found
