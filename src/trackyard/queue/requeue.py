"""A job queued again by hand: an ended one anew, a running one after it saved, with changes.

Owns what may change about a job after its submission. The life itself is `life`'s.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.core.job import JobState, PriorityClass
from trackyard.core.ports import ExitCause
from trackyard.queue.records import JobRow, load_spec
from trackyard.queue.specification import JobSpec, check_spec, parse_priority, split_gpus
from trackyard.queue.submit.queue_rules import check_rules
from trackyard.queue.transitions import ask_stop, change_job, change_request, put_back
from trackyard.store.bounds import Int64, Word
from trackyard.store.database import Tx


class Requeue(msgspec.Struct, forbid_unknown_fields=True):
    """What may change when a job is queued again; null leaves a field as it is."""

    gpus: float | None = None
    nodes: Int64 | None = None
    time_limit_seconds: float | None = None
    priority: Word | None = None
    queue: Word | None = None
    #: forget on which nodes it failed before
    anywhere: bool = False


def requeue(tx: Tx, principal: Principal, row: JobRow, wish: Requeue) -> None:
    """Queue a job again, with what changes."""
    actor = principal.name
    if not row.run_uuid:
        raise InvalidInput(
            f"job {row.job_id} only holds nodes for another: requeue the job it is part of"
        )
    columns = _changes(tx, principal, row, wish)
    state = JobState(row.state)
    if state.is_final:
        put_back(tx, row, actor=actor, **columns)
    elif state is JobState.QUEUED:
        words = ", ".join(sorted(columns)) or "nothing"
        change_request(tx, row, actor=actor, what=f"Changed: {words}.", not_before_ms=0, **columns)
    else:
        if columns:
            row = change_job(tx, row, **columns)
        ask_stop(
            tx,
            row,
            reason=ExitCause.PREEMPTED,
            grace_seconds=load_spec(tx, row.spec_id).grace_seconds,
            actor=actor,
            sentence=f"Requeued by {actor}",
        )


def _changes(tx: Tx, principal: Principal, row: JobRow, wish: Requeue) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    spec = load_spec(tx, row.spec_id)
    changed = _changed(spec, wish)
    level = PriorityClass(row.priority)
    if wish.priority is not None:
        level = parse_priority(wish.priority)
    check_rules(
        tx,
        principal,
        changed,
        level,
        queue=row.queue if wish.queue is None else wish.queue,
        team_id=row.team_id,
        now_ms=tx.now_ms,
        but_job=row.id,
    )
    if changed != spec:
        columns["spec_id"] = tx.insert(
            "INSERT INTO job_specs (spec) VALUES (?)", (msgspec.json.encode(changed).decode(),)
        )
    if wish.priority is not None:
        columns["priority"] = int(level)
    if wish.queue is not None:
        columns["queue"] = wish.queue
    if wish.anywhere:
        columns["avoid"] = "[]"
    return columns


def _changed(spec: JobSpec, wish: Requeue) -> JobSpec:
    values: dict[str, Any] = {}
    if wish.gpus is not None:
        values["gpus"], values["gpu_milli"] = split_gpus(wish.gpus)
    if wish.nodes is not None:
        values["nodes"] = wish.nodes
    if wish.time_limit_seconds is not None:
        values["time_limit_seconds"] = wish.time_limit_seconds
    changed = msgspec.structs.replace(spec, **values)
    check_spec(changed)
    return changed
