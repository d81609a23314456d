"""The jobs of a submission as rows, and large arrays that are written part by part.

Owns `arriving_arrays`. An array is accepted whole by the commit that writes its first jobs; the
rest follows in commits of their own, so that others' writes come in between. A part is written by
whoever gets to it: the submission itself, its repetition, whoever wants to change the array, or
after a crash the server that leads. Knows nothing of what a submission looks up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.queue.records import load_spec
from trackyard.queue.specification import JobSpec, parse_array, parse_priority
from trackyard.queue.submit.data_inputs import note_submitted
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.tracking.runs import RunDraft, create_runs

if TYPE_CHECKING:
    from trackyard.tracking.names import Names

#: Jobs that one commit writes.
PART = 250
#: Milliseconds after which an array that nobody goes on with was left by a process that died.
LEFT_MS = 5000
_DIFF_TAG_CHARACTERS = 4000
_encode = msgspec.json.Encoder().encode
_INSERT_JOBS = (
    "INSERT INTO jobs (job_id, team_id, user_id, user_name, spec_id, name, queue, priority, held,"
    " not_before_ms, submitted_ms, array_id, array_cap, array_index, run_uuid, state, attempt,"
    " epoch, failures, interruptions, attained_ms, avoid, engine_note, version) VALUES (?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', 0, 0, 0, 0, 0, '[]', '', 1)"
)


class SubmissionPlan(msgspec.Struct, kw_only=True):
    """What the jobs of one submission have in common."""

    #: id of the job, or of the array
    base: str
    name: str
    team_id: int
    user_id: int | None
    user_name: str
    spec_id: int
    queue: str
    priority: str
    held: bool
    not_before_ms: int
    submitted_ms: int
    #: `FIRST-LAST%CAP`; empty for a single job
    array: str
    experiment_id: int
    #: where files of the experiment's runs lie
    location: str
    #: tags of each run
    tags: dict[str, str]


class ArrayWriter:
    """Writes what is left of large arrays."""

    def __init__(self, database: Database, names: Names) -> None:
        self._db = database
        self._names = names

    async def complete(self, *words: str) -> None:
        """Write what is left of arrays by their ids or names; as a rule there is nothing."""
        for word in words:
            for array in await self._db.peek(partial(_left, word=word)):
                await self._complete(array)

    async def take_over(self) -> None:
        """Write what is left of arrays that nobody has gone on with for a while."""
        before = self._db.clock.time_ms() - LEFT_MS
        for array in await self._db.peek(lambda reader: _abandoned(reader, before)):
            await self._complete(array)

    async def _complete(self, array: str) -> None:
        while await self._db.write(partial(self._next, array=array), is_long=True):
            pass

    def _next(self, tx: Tx, array: str) -> bool:
        """Write the next part of an array; tell whether more is left."""
        row = tx.one(
            f"SELECT plan, done FROM arriving_arrays WHERE array_id = ?{tx.dialect.for_update}",
            (array,),
        )
        if row is None:
            return False
        plan = msgspec.json.decode(row[0], type=SubmissionPlan)
        indices = parse_array(plan.array).indices
        part, done = indices[row[1] : row[1] + PART], min(row[1] + PART, len(indices))
        spec = load_spec(tx, plan.spec_id)
        make(tx, self._names, _owner(tx, plan), plan, spec=spec, indices=part)
        if done == len(indices):
            tx.run("DELETE FROM arriving_arrays WHERE array_id = ?", (array,))
            return False
        tx.run(
            "UPDATE arriving_arrays SET done = ?, written_ms = ? WHERE array_id = ?",
            (done, tx.now_ms, array),
        )
        return True


def begin(tx: Tx, names: Names, principal: Principal, plan: SubmissionPlan, spec: JobSpec) -> None:
    """Write a job, or the first jobs of an array and what it takes to write the rest."""
    if not plan.array:
        make(tx, names, principal, plan, spec=spec, indices=[None])
        return
    indices = parse_array(plan.array).indices
    make(tx, names, principal, plan, spec=spec, indices=indices[:PART])
    if len(indices) > PART:
        tx.run(
            "INSERT INTO arriving_arrays (array_id, name, team_id, plan, done, written_ms)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                plan.base,
                plan.name,
                plan.team_id,
                msgspec.json.encode(plan).decode(),
                PART,
                tx.now_ms,
            ),
        )


def make(
    tx: Tx,
    names: Names,
    principal: Principal,
    plan: SubmissionPlan,
    *,
    spec: JobSpec,
    indices: Sequence[int | None],
) -> None:
    """Write jobs with their runs, by a few statements for all."""
    ids = [plan.base if index is None else f"{plan.base}-{index}" for index in indices]
    runs = create_runs(
        tx,
        names,
        principal,
        [
            RunDraft(
                plan.name if index is None else f"{plan.name}-{index}", _tags(plan, spec, job_id)
            )
            for index, job_id in zip(indices, ids, strict=True)
        ],
        experiment_id=plan.experiment_id,
        status="SCHEDULED",
        location=plan.location,
    )
    owner = (plan.team_id, plan.user_id, plan.user_name, plan.spec_id, plan.name, plan.queue)
    priority = int(parse_priority(plan.priority))
    waits = (priority, int(plan.held), plan.not_before_ms, plan.submitted_ms)
    place = (plan.base, parse_array(plan.array).cap) if plan.array else ("", 0)
    tx.many(
        _INSERT_JOBS,
        [
            (job_id, *owner, *waits, *place, index, run_id)
            for job_id, index, run_id in zip(ids, indices, runs, strict=True)
        ],
    )
    made = list(zip(ids, runs, strict=True))
    note_submitted(tx, plan.team_id, spec, experiment=plan.experiment_id, jobs=made)
    for job_id, run_id in made:
        tx.event(
            "job.submitted",
            team_id=plan.team_id,
            actor=plan.user_name,
            subject="job",
            subject_id=job_id,
            name=plan.name,
            run_id=run_id,
            queue=plan.queue,
            priority=plan.priority,
            gpus=spec.request.total_gpus,
            nodes=spec.nodes,
            **({"alerts": len(spec.alerts)} if spec.alerts else {}),
        )


def _left(reader: ReadConnection, word: str) -> list[str]:
    """Return the arrays that a word may mean and that are not written to their end."""
    rows = reader.all(
        "SELECT array_id FROM arriving_arrays WHERE array_id = ? OR name = ?", (word, word)
    )
    return [row[0] for row in rows]


def _abandoned(reader: ReadConnection, before_ms: int) -> list[str]:
    sql = "SELECT array_id FROM arriving_arrays WHERE written_ms < ?"
    return [row[0] for row in reader.all(sql, (before_ms,))]


def _owner(tx: Tx, plan: SubmissionPlan) -> Principal:
    """Return who submitted an array, as far as its jobs and runs tell of them."""
    row = tx.one("SELECT name, default_experiment_id FROM teams WHERE id = ?", (plan.team_id,))
    assert row is not None
    return Principal(
        name=plan.user_name,
        user_id=plan.user_id,
        team_id=plan.team_id,
        team=row[0],
        default_experiment=row[1],
        role=Role.member,
    )


def _tags(plan: SubmissionPlan, spec: JobSpec, job_id: str) -> list[tuple[str, str]]:
    tags = dict(plan.tags)
    tags["mlflow.source.name"] = spec.line[:_DIFF_TAG_CHARACTERS]
    tags["mlflow.source.type"] = "JOB"
    tags["yard.job"] = job_id
    source = spec.source
    if source is not None and source.commit:
        tags["mlflow.source.git.commit"] = source.commit
        tags["mlflow.source.git.dirty"] = str(source.dirty).lower()
        if source.branch:
            tags["mlflow.source.git.branch"] = source.branch
        if source.remote:
            tags["mlflow.source.git.repoURL"] = source.remote
        if source.diff:
            tags["yard.git.diff"] = source.diff[:_DIFF_TAG_CHARACTERS]
    return list(tags.items())
