"""Which run a script's own calls land in: the job's, for whoever asks for a run first.

Some loggers create a run of their own and never look at MLFLOW_RUN_ID. The first run that an
attempt's script creates is therefore the job's own, unless the script has taken that one up
already or asks for a nested one. Owns `attempts.claimed`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trackyard.access.principal import Principal
from trackyard.store.database import Tx
from trackyard.tracking.names import Names
from trackyard.tracking.runs import RUN_NAME_TAG, find_active_run, write_tags

PARENT_TAG = "mlflow.parentRunId"
#: The script took its run up by id, as stock start_run does.
TAKEN_UP = "taken up"
#: The script created a run and was given the job's.
CREATED = "created"


def note_taken_up(tx: Tx, principal: Principal, run_id: str) -> None:
    """Remember that an attempt's script works on the job's run by its id."""
    scope = principal.scope
    if scope is not None and scope.run_id == run_id and scope.attempt_id:
        tx.run(
            "UPDATE attempts SET claimed = ? WHERE attempt_id = ? AND claimed = ''",
            (TAKEN_UP, scope.attempt_id),
        )


def claim_own_run(
    tx: Tx, names: Names, principal: Principal, tags: Sequence[tuple[str, str]]
) -> str | None:
    """Return the job's run if this request is the first to create one."""
    scope = principal.scope
    if scope is None or not scope.attempt_id or any(key == PARENT_TAG for key, _ in tags):
        return None
    row = tx.one("SELECT claimed FROM attempts WHERE attempt_id = ?", (scope.attempt_id,))
    if row is None or row[0] != "":
        return None
    tx.run("UPDATE attempts SET claimed = ? WHERE attempt_id = ?", (CREATED, scope.attempt_id))
    run = find_active_run(tx, principal, scope.run_id)
    write_tags(tx, names, run.id, [(key, value) for key, value in tags if key != RUN_NAME_TAG])
    return scope.run_id
