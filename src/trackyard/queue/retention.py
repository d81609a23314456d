"""How long jobs leave traces: their logs, and the keys of their submissions.

Owns what is removed by age. A job, its attempts and how they ended stay for ever; a log that was
removed says so when someone asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from trackyard.store.database import Database, ReadConnection, Tx

DAY_MS = 86_400_000
#: Attempts whose logs go in one transaction, so that other writes never wait for long.
_AT_ONCE = 50
_OLD = "ended_ms < ? AND settled = 1 AND log_pruned_ms IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many days things are kept; None keeps them for ever."""

    log_days: int | None = None
    key_days: int | None = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed, or would be."""

    logs: int = 0
    log_bytes: int = 0
    keys: int = 0


async def clean(
    database: Database, retention: Retention, *, dry_run: bool = False, actor: str = "system"
) -> Removed:
    """Remove what is older than it is to be kept."""
    now_ms = database.clock.time_ms()
    removed = Removed()
    if retention.log_days is not None:
        before_ms = now_ms - retention.log_days * DAY_MS
        removed = await _clean_logs(database, before_ms, dry_run=dry_run, actor=actor)
    keys = 0
    if retention.key_days is not None:
        keys = await _clean_keys(database, now_ms - retention.key_days * DAY_MS, dry_run=dry_run)
    return Removed(logs=removed.logs, log_bytes=removed.log_bytes, keys=keys)


async def _clean_logs(database: Database, before_ms: int, *, dry_run: bool, actor: str) -> Removed:
    if dry_run:
        return await database.read(lambda reader: _count_logs(reader, before_ms), seconds=None)
    logs = size = 0
    while True:
        done = await database.write(lambda tx: _remove_logs(tx, before_ms, actor), frees=True)
        logs, size = logs + done.logs, size + done.log_bytes
        if not done.logs:
            return Removed(logs=logs, log_bytes=size)


def _count_logs(reader: ReadConnection, before_ms: int) -> Removed:
    row = reader.one(
        "SELECT count(DISTINCT m.attempt), coalesce(sum(m.log_end), 0) FROM attempt_members m"
        f" JOIN attempts a ON a.id = m.attempt WHERE m.log_end > 0 AND a.{_OLD}",
        (before_ms,),
    )
    return Removed(logs=int(row[0]), log_bytes=int(row[1])) if row else Removed()


def _remove_logs(tx: Tx, before_ms: int, actor: str) -> Removed:
    rows = tx.all(
        "SELECT a.id, a.number, j.job_id, j.name, j.team_id, j.run_uuid,"
        " (SELECT coalesce(sum(m.log_end), 0) FROM attempt_members m WHERE m.attempt = a.id)"
        f" FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.{_OLD} AND EXISTS (SELECT 1 FROM"
        " attempt_members m WHERE m.attempt = a.id AND m.log_end > 0) ORDER BY a.id LIMIT ?",
        (before_ms, _AT_ONCE),
    )
    for inner, number, job_id, name, team_id, run_uuid, size in rows:
        tx.run("DELETE FROM log_chunks WHERE attempt = ?", (inner,))
        tx.run("UPDATE attempts SET log_pruned_ms = ? WHERE id = ?", (tx.now_ms, inner))
        tx.event(
            "attempt.log_removed",
            team_id=team_id,
            actor=actor,
            subject="job",
            subject_id=job_id,
            name=name,
            run_id=run_uuid,
            attempt=number,
            bytes=int(size),
            sentence=f"The log of attempt {number} was removed: it was kept long enough.",
        )
    return Removed(logs=len(rows), log_bytes=sum(int(row[-1]) for row in rows))


async def _clean_keys(database: Database, before_ms: int, *, dry_run: bool) -> int:
    if dry_run:
        row = await database.read(
            lambda reader: reader.one(
                "SELECT count(*) FROM submissions WHERE created_ms < ?", (before_ms,)
            )
        )
        return int(row[0]) if row else 0
    return await database.write(
        lambda tx: tx.run("DELETE FROM submissions WHERE created_ms < ?", (before_ms,)),
        frees=True,
    )
