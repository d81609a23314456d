"""Handing a checkpoint on: a trial that begins with another one's is held until it has it.

Owns the copy of the newest complete checkpoint among the artifacts of one run into those of
another, under the names that `trackyard.checkpoint` looks for. Repeating it changes nothing. Knows
nothing of who is copied and why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.artifacts.service import Artifacts
from trackyard.core.errors import NotFound, YardError
from trackyard.queue.records import JobRow, job_by_inner
from trackyard.queue.transitions import release
from trackyard.store.database import Database, Tx
from trackyard.sweeps.records import SYSTEM, TrialRow

log = logging.getLogger(__name__)

FOLDER, POINTER, MANIFEST = "checkpoints", "latest.json", "manifest.json"


async def hand_over(
    database: Database,
    artifacts: Artifacts,
    waiting: Sequence[TrialRow],
    trials: Sequence[TrialRow],
) -> bool:
    """Copy checkpoints to held trials and let them start; tell whether any was."""
    is_any = False
    for row in waiting:
        job = await database.read(partial(job_by_inner, inner=row.job))
        if not job.held or row.parent is None:
            continue
        source = await database.read(partial(job_by_inner, inner=trials[row.parent].job))
        try:
            await copy_newest(artifacts, source, job)
        except YardError as fault:
            # It begins anew rather than never.
            log.warning("job %s begins without a checkpoint: %s", job.job_id, fault.message)
        await database.write(partial(_let_go, job=job.id))
        is_any = True
    return is_any


def _let_go(tx: Tx, job: int) -> None:
    row = job_by_inner(tx, job, lock=True)
    if row.held and row.state == "queued":
        release(tx, row, actor=SYSTEM)


async def copy_newest(artifacts: Artifacts, source: JobRow, target: JobRow) -> bool:
    """Copy the newest complete checkpoint of a job's run into another's; False: there is none."""
    try:
        pointer = await artifacts.find(source.run_uuid, f"{FOLDER}/{POINTER}")
    except NotFound:
        return False
    told = msgspec.json.decode(await artifacts.read_all(pointer))
    prefix = f"{FOLDER}/{told['name']}/"
    files = [
        one
        for one in await artifacts.files(source.run_uuid, prefix, 10_000)
        if one.path.startswith(prefix)
    ]
    # The manifest comes before the pointer and after the parts, as an upload does it.
    files.sort(key=lambda one: one.path.endswith(f"/{MANIFEST}"))
    actor = Principal(
        name=SYSTEM,
        user_id=None,
        team_id=target.team_id,
        team="",
        default_experiment=0,
        role=Role.member,
    )
    owner = await artifacts.owner(actor, target.run_uuid, to_write=True)
    for one in [*files, pointer]:
        await artifacts.put(actor, owner, one.path, artifacts.read(one), length=one.size)
    return True
