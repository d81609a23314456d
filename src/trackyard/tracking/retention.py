"""Removing for good what was deleted long ago. Owns the purge of runs and experiments; artifacts
are told by the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from trackyard.store.database import Database, ReadConnection, Tx

#: Runs removed in one transaction, so that a purge never holds up other writes for long.
_AT_ONCE = 50


def deleted_runs(
    reader: ReadConnection, before_ms: int, limit: int = _AT_ONCE
) -> list[tuple[int, str]]:
    """Return runs deleted before a time: (inner id, run id)."""
    rows = reader.all(
        "SELECT id, uuid FROM runs WHERE lifecycle = 'deleted' AND deleted_ms < ?"
        " ORDER BY id LIMIT ?",
        (before_ms, limit),
    )
    return [(row[0], row[1]) for row in rows]


def count_deleted(reader: ReadConnection, before_ms: int) -> int:
    """Count the runs a purge would remove."""
    row = reader.one(
        "SELECT count(*) FROM runs WHERE lifecycle = 'deleted' AND deleted_ms < ?", (before_ms,)
    )
    return int(row[0]) if row else 0


async def purge_runs(
    database: Database, before_ms: int, *, actor: str, forget: Callable[[Tx, str], object]
) -> int:
    """Remove runs deleted before a time, with their points; return how many."""
    purged = 0
    while True:
        batch = await database.read(lambda reader: deleted_runs(reader, before_ms), seconds=None)
        if not batch:
            return purged

        def change(tx: Tx, batch: list[tuple[int, str]] = batch) -> None:
            for inner, run_id in batch:
                _purge(tx, inner, run_id, actor=actor)
                forget(tx, run_id)

        await database.write(change, frees=True)
        purged += len(batch)


def _purge(tx: Tx, inner: int, run_id: str, *, actor: str) -> None:
    row = tx.one("SELECT team_id, name FROM runs WHERE id = ?", (inner,))
    if row is None:
        return
    for table in ("metric_log", "metric_blocks"):
        tx.run(f"DELETE FROM {table} WHERE run_id = ?", (inner,))
    tx.run("DELETE FROM runs WHERE id = ?", (inner,))
    tx.event(
        "run.purged",
        team_id=row[0],
        actor=actor,
        subject="run",
        subject_id=run_id,
        name=row[1],
    )
