"""Hand-over of checkpoints: a trial that starts from another's checkpoint is held until it has it.

Owns copying the newest complete checkpoint from the artifacts of one run to those of another,
under the names that `trackyard.checkpoint` expects. Idempotent. Does not know which trials are
copied or why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.artifacts.service import Artifacts
from trackyard.core.errors import NotFound, YardError
from trackyard.core.job import JobState
from trackyard.queue.records import JobRow, job_by_inner
from trackyard.queue.transitions import release
from trackyard.store.database import Database, Tx
from trackyard.sweeps.records import SYSTEM, TrialRow, change_sweep, change_trial

log = logging.getLogger(__name__)

#: How long a copy waits for the first checkpoint of a trial that is still running: uploads lag
#: behind training.
PATIENCE_MS = 120_000
NONE_YET = "It began without a checkpoint: trial {parent} had uploaded none."
FOLDER, POINTER, MANIFEST = "checkpoints", "latest.json", "manifest.json"


async def hand_over(
    database: Database,
    artifacts: Artifacts,
    waiting: Sequence[TrialRow],
    trials: Sequence[TrialRow],
) -> bool:
    """Copy checkpoints to held trials and release them; return whether any was released."""
    is_any = False
    for row in waiting:
        job = await database.read(partial(job_by_inner, inner=row.job))
        if not job.held or row.parent is None:
            continue
        source = await database.read(partial(job_by_inner, inner=trials[row.parent].job))
        has_one = await _copied(artifacts, source, job)
        is_late = database.clock.time_ms() - row.created_ms >= PATIENCE_MS
        if not has_one and not is_late and not JobState(source.state).is_final:
            continue
        sentence = "" if has_one else NONE_YET.format(parent=row.parent)
        await database.write(partial(_let_go, row=row, sentence=sentence))
        is_any = True
    return is_any


async def _copied(artifacts: Artifacts, source: JobRow, target: JobRow) -> bool:
    try:
        return await copy_newest(artifacts, source, target)
    except YardError as fault:
        # The newest may just have made room for a newer one.
        log.warning("no checkpoint was handed to job %s: %s", target.job_id, fault.message)
        return False


def _let_go(tx: Tx, row: TrialRow, sentence: str) -> None:
    job = job_by_inner(tx, row.job, lock=True)
    if job.held and job.state == "queued":
        if sentence:
            change_trial(tx, row.sweep, row.number, sentence=sentence)
            change_sweep(tx, row.sweep)
        release(tx, job, actor=SYSTEM)


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
