"""Changes of jobs by people: one job, or each job of an array.

Owns who may change whose jobs, and that a large array is changed part by part. What is changed is
the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from trackyard.access.principal import Principal, Role
from trackyard.core.errors import Denied
from trackyard.queue.records import FEW_JOBS, JobRow, find_jobs, is_large_array, job_by_inner
from trackyard.store.database import Database, ReadConnection, Tx

Step = Callable[[Tx, JobRow], None]


async def act(
    database: Database, principal: Principal, text: str, verb: str, step: Step
) -> list[JobRow]:
    """Change what a word names; return the rows as they were.

    Of a large array each part has a transaction of its own, so that others can write in between:
    each job's change stands by itself, and one that fails leaves those before it changed.
    """
    if not await database.peek(lambda reader: is_large_array(reader, principal, text)):

        def change(tx: Tx) -> list[JobRow]:
            rows = _own(tx, principal, text, verb)
            _change_each(tx, [row.id for row in rows], step)
            return rows

        return await database.write(change)
    rows = await database.read(lambda reader: _own(reader, principal, text, verb))
    ids = [row.id for row in rows]
    for at in range(0, len(ids), FEW_JOBS):
        part = partial(_change_each, ids=ids[at : at + FEW_JOBS], step=step)
        await database.write(part, is_long=True)
    return rows


def _change_each(tx: Tx, ids: Sequence[int], step: Step) -> None:
    for row in [job_by_inner(tx, inner, lock=True) for inner in ids]:
        step(tx, row)


def _own(reader: ReadConnection | Tx, principal: Principal, text: str, verb: str) -> list[JobRow]:
    rows = find_jobs(reader, principal, text)
    for row in rows:
        if row.user_id != principal.user_id and not principal.may(Role.maintainer):
            raise Denied(
                f"job {row.job_id} is {row.user_name}'s: to {verb} it needs the role"
                f" maintainer in team {principal.team}"
            )
    return rows
