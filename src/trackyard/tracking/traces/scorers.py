"""Scorers: how an experiment's answers are judged, kept by name and version as their clients
write them. Owns their state changes; runs none of them.
"""

from __future__ import annotations

import uuid
from typing import Any

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import outer_experiment_id, require, require_active

MAX_NAME, MAX_SCORER = 256, 1_000_000
#: MLflow's message has no room for a larger experiment id.
_INT32 = 2**31
_COLUMNS = "scorer_id, name, version, serialized, created_ms"


def register(
    tx: Tx, principal: Principal, experiment: int, name: str, serialized: str
) -> dict[str, Any]:
    """Register the next version of a scorer and return it."""
    require_active(tx, principal, experiment)
    if len(name) > MAX_NAME or len(serialized) > MAX_SCORER:
        raise InvalidInput(
            f"a scorer's name has at most {MAX_NAME} characters, and it itself {MAX_SCORER}"
        )
    row = tx.one(
        "SELECT scorer_id, version FROM scorers WHERE experiment_id = ? AND name = ?"
        " ORDER BY version DESC LIMIT 1",
        (experiment, name),
    )
    scorer_id, version = (row[0], row[1] + 1) if row else (str(uuid.uuid4()), 1)
    tx.run(
        f"INSERT INTO scorers (experiment_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (experiment, scorer_id, name, version, serialized, tx.now_ms),
    )
    _event(tx, "scorer.registered", principal, experiment, name, version=version)
    return {
        "version": version,
        "scorer_id": scorer_id,
        "experiment_id": outer_experiment_id(principal, experiment),
        "name": name,
        "serialized_scorer": serialized,
        "creation_time": tx.now_ms,
    }


def versions(
    reader: ReadConnection, principal: Principal, experiment: int, name: str | None = None
) -> list[dict[str, Any]]:
    """Return the newest version of each scorer, or every version of one."""
    require(reader, principal, experiment)
    condition = (
        " AND version = (SELECT MAX(n.version) FROM scorers n WHERE n.experiment_id ="
        " s.experiment_id AND n.name = s.name)"
    )
    if name is not None:
        condition = " AND name = ?"
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM scorers s WHERE experiment_id = ?{condition}"
        " ORDER BY name, version",
        (experiment, *(() if name is None else (name,))),
    )
    if name is not None and not rows:
        raise _absent(name)
    return [_shape(principal, experiment, row) for row in rows]


def get(
    reader: ReadConnection, principal: Principal, experiment: int, name: str, version: int | None
) -> dict[str, Any]:
    """Return a version of a scorer, the newest by default."""
    found = versions(reader, principal, experiment, name)
    if version is None:
        return found[-1]
    for one in found:
        if one["scorer_version"] == version:
            return one
    raise _absent(name, version)


def delete(tx: Tx, principal: Principal, experiment: int, name: str, version: int | None) -> None:
    """Delete a version of a scorer, or all of them."""
    require(tx, principal, experiment)
    condition, values = "", [experiment, name]
    if version is not None:
        condition, values = " AND version = ?", [*values, version]
    gone = tx.run(f"DELETE FROM scorers WHERE experiment_id = ? AND name = ?{condition}", values)
    if not gone:
        raise _absent(name, version)
    _event(tx, "scorer.deleted", principal, experiment, name, version=version)


def _shape(principal: Principal, experiment: int, row: tuple[Any, ...]) -> dict[str, Any]:
    shaped = {
        "scorer_name": row[1],
        "scorer_version": row[2],
        "serialized_scorer": row[3],
        "creation_time": row[4],
        "scorer_id": row[0],
    }
    number = int(outer_experiment_id(principal, experiment))
    if number < _INT32:
        shaped["experiment_id"] = number
    return shaped


def _absent(name: str, version: int | None = None) -> NotFound:
    which = "" if version is None else f" and version {version}"
    return NotFound(f"Scorer with name '{name[:80]}'{which} not found in this experiment.")


def _event(
    tx: Tx, kind: str, principal: Principal, experiment: int, name: str, **data: Any
) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="scorer",
        subject_id=f"{experiment}/{name}",
        **data,
    )
