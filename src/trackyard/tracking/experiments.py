"""Experiments: create, rename, delete, restore, tag. Owns the mapping of experiment `0` to the
team's Default.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from trackyard.access.principal import Principal
from trackyard.core.errors import AlreadyExists, InvalidInput, NotFound
from trackyard.core.ids import EXPERIMENT_ID, new_experiment_id
from trackyard.core.spelling import plain
from trackyard.core.storage_uri import STORAGE_SCHEMES, is_plain, scheme_of
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.validation import (
    MAX_EXPERIMENT_TAG_V3,
    check_experiment_name,
    check_name,
    clip,
)

MAX_LOCATION = 2048
_COLUMNS = "id, name, artifact_location, lifecycle, created_ms, updated_ms"


def inner_experiment_id(principal: Principal, text: str) -> int:
    """Return the stored id behind what a client sends; `0` is the caller's own Default."""
    if EXPERIMENT_ID.match(text) is None:
        raise InvalidInput(
            f"Invalid experiment ID {text[:80]!r}: an experiment id is a number, as the list of"
            " experiments shows it"
        )
    number = int(text)
    return principal.default_experiment if number == 0 else number


def outer_experiment_id(principal: Principal, inner: int) -> str:
    """Return the id a client sees."""
    return "0" if inner == principal.default_experiment else str(inner)


def create_experiment(
    tx: Tx,
    principal: Principal,
    *,
    name: str | None,
    artifact_location: str | None,
    tags: Sequence[tuple[str, str]],
    schemes: Collection[str] = STORAGE_SCHEMES,
) -> int:
    """Create an experiment and return its inner id; its files lie where it says, if it does."""
    checked = check_experiment_name(name)
    location = check_location(artifact_location, schemes)
    taken = tx.one(
        "SELECT lifecycle FROM experiments WHERE team_id = ? AND name = ?",
        (principal.team_id, checked),
    )
    if taken is not None:
        hint = (
            " It is deleted: restore it, or purge it with `yard gc`."
            if taken[0] == "deleted"
            else ""
        )
        raise AlreadyExists(f"Experiment(name={checked}) already exists.{hint}")
    _check_no_lookalike(tx, principal, checked)
    inner = new_experiment_id()
    tx.run(
        f"INSERT INTO experiments (team_id, {_COLUMNS}) VALUES (?, ?, ?, ?, 'active', ?, ?)",
        (
            principal.team_id,
            inner,
            checked,
            location or f"mlflow-artifacts:/{inner}",
            tx.now_ms,
            tx.now_ms,
        ),
    )
    _write_tags(tx, inner, tags)
    _event(tx, "experiment.created", principal, inner, name=checked)
    return inner


def _check_no_lookalike(
    tx: Tx, principal: Principal, name: str, *, but: int | None = None
) -> None:
    """Refuse a name that people could not tell from another one of the team."""
    wanted = plain(name)
    rows = tx.all("SELECT id, name FROM experiments WHERE team_id = ?", (principal.team_id,))
    for inner, other in rows:
        if inner != but and other != name and plain(other) == wanted:
            raise AlreadyExists(
                f"the experiment name {name[:80]!r} could pass for {other[:80]!r}, which exists;"
                " use that one, or a name that differs to the eye"
            )


def check_location(location: str | None, schemes: Collection[str]) -> str | None:
    """Return where an experiment's clients keep files by themselves, or None for this server.

    The address is recorded and handed out. Nothing here ever opens it.
    """
    if location is None or location == "" or re.fullmatch(r"mlflow-artifacts:/?", location):
        return None
    shown = location[:200].encode(errors="replace").decode()
    if location.startswith("runs:"):
        raise InvalidInput(f"Artifact location cannot be a runs:/ URI. Given: '{shown}'")
    if len(location) > MAX_LOCATION:
        raise InvalidInput(
            "Invalid artifact path length. The length of the artifact path cannot be greater than"
            f" {MAX_LOCATION} characters."
        )
    if re.search(r"[#;?]", location):
        raise InvalidInput("'artifact_location' URL can't include fragments, params or a query.")
    if scheme_of(location) not in schemes:
        known = f" ({', '.join(schemes)})" if schemes else ""
        raise InvalidInput(
            f"Invalid artifact_location '{shown}': leave it out to keep artifacts in this server's"
            f" own store, or name a store that clients reach by themselves{known}. Local paths"
            " and other servers are not taken; the setting artifact_schemes says what is"
        )
    if not is_plain(location) or re.fullmatch(r"[^/]+:/*", location):
        raise InvalidInput(
            f"Invalid artifact_location '{shown}': write it in full, without steps up"
        )
    return location.rstrip("/")


def get_experiment(reader: ReadConnection, principal: Principal, inner: int) -> dict[str, Any]:
    """Return an experiment in MLflow's form."""
    found = load_experiments(reader, principal, [inner])
    if not found:
        raise _unknown(principal, inner)
    return found[0]


def get_experiment_by_name(
    reader: ReadConnection, principal: Principal, name: str
) -> dict[str, Any]:
    """Return an experiment by its name, deleted ones too."""
    row = reader.one(
        "SELECT id FROM experiments WHERE team_id = ? AND name = ?", (principal.team_id, name)
    )
    if row is None:
        raise NotFound(f"Could not find experiment with name '{name}'")
    return get_experiment(reader, principal, row[0])


def summarize_experiments(
    reader: ReadConnection, team_id: int, *, deleted: bool
) -> list[tuple[Any, ...]]:
    """Return a team's experiments as rows, the latest used first.

    Each has id, name, lifecycle, creation and last change, active runs, running ones and the last
    start.
    """
    return reader.all(
        "SELECT e.id, e.name, e.lifecycle, e.created_ms, e.updated_ms, count(r.id),"
        " sum(CASE WHEN r.status = 'RUNNING' THEN 1 ELSE 0 END), max(r.start_ms)"
        " FROM experiments e LEFT JOIN runs r ON r.experiment_id = e.id"
        " AND r.lifecycle = 'active' WHERE e.team_id = ? AND e.lifecycle = ?"
        " GROUP BY e.id, e.name, e.lifecycle, e.created_ms, e.updated_ms"
        " ORDER BY max(coalesce(r.start_ms, e.created_ms)) DESC",
        (team_id, "deleted" if deleted else "active"),
    )


def experiment_name(reader: ReadConnection, run: int) -> str:
    """Return the name of a run's experiment, by the run's inner id."""
    row = reader.one(
        "SELECT e.name FROM experiments e JOIN runs r ON r.experiment_id = e.id WHERE r.id = ?",
        (run,),
    )
    return str(row[0]) if row else ""


def find_experiment(
    reader: ReadConnection | Tx, team_id: int, *, name: str | None = None, inner: int | None = None
) -> int | None:
    """Return the inner id of a team's experiment by its name or id; None if it has none such."""
    row = reader.one(
        "SELECT id FROM experiments WHERE team_id = ? AND (name = ? OR id = ?)",
        (team_id, name, inner),
    )
    return None if row is None else int(row[0])


def load_experiments(
    reader: ReadConnection, principal: Principal, ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Return experiments of the caller's team in the order of their ids."""
    if not ids:
        return []
    marks = ",".join("?" * len(ids))
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM experiments WHERE team_id = ? AND id IN ({marks})",
        (principal.team_id, *ids),
    )
    tags: dict[int, list[dict[str, str]]] = {}
    for inner, key, value in reader.all(
        f"SELECT experiment_id, key, value FROM experiment_tags WHERE experiment_id IN ({marks})"
        " ORDER BY key",
        ids,
    ):
        tags.setdefault(inner, []).append({"key": key, "value": value})
    shaped = {row[0]: _shape(principal, row, tags.get(row[0], [])) for row in rows}
    return [shaped[inner] for inner in ids if inner in shaped]


def rename_experiment(tx: Tx, principal: Principal, inner: int, name: str | None) -> None:
    """Give an active experiment another name."""
    checked = check_experiment_name(name)
    row = require(tx, principal, inner)
    if row[1] != "active":
        raise InvalidInput("Cannot rename a non-active experiment.")
    taken = tx.one(
        "SELECT id FROM experiments WHERE team_id = ? AND name = ?", (principal.team_id, checked)
    )
    if taken is not None and taken[0] != inner:
        raise AlreadyExists(f"Experiment(name={checked}) already exists.")
    _check_no_lookalike(tx, principal, checked, but=inner)
    tx.run(
        "UPDATE experiments SET name = ?, updated_ms = ? WHERE id = ?",
        (checked, tx.now_ms, inner),
    )
    _event(tx, "experiment.updated", principal, inner, name=checked)


def delete_experiment(tx: Tx, principal: Principal, inner: int) -> None:
    """Delete an experiment and its runs; both can be restored."""
    row = require(tx, principal, inner)
    if row[1] != "active":
        raise _unknown(principal, inner)
    tx.run(
        "UPDATE experiments SET lifecycle = 'deleted', updated_ms = ? WHERE id = ?",
        (tx.now_ms, inner),
    )
    tx.run(
        "UPDATE runs SET lifecycle = 'deleted', deleted_ms = ? WHERE experiment_id = ?"
        " AND lifecycle = 'active'",
        (tx.now_ms, inner),
    )
    _event(tx, "experiment.deleted", principal, inner, name=row[0])


def restore_experiment(tx: Tx, principal: Principal, inner: int) -> None:
    """Bring an experiment back with all its runs."""
    row = require(tx, principal, inner)
    if row[1] != "deleted":
        raise _unknown(principal, inner)
    tx.run(
        "UPDATE experiments SET lifecycle = 'active', updated_ms = ? WHERE id = ?",
        (tx.now_ms, inner),
    )
    tx.run(
        "UPDATE runs SET lifecycle = 'active', deleted_ms = NULL WHERE experiment_id = ?",
        (inner,),
    )
    _event(tx, "experiment.restored", principal, inner, name=row[0])


def set_experiment_tag(tx: Tx, principal: Principal, inner: int, key: str, value: str) -> None:
    """Set a tag of an active experiment."""
    require_active(tx, principal, inner)
    _write_tags(tx, inner, [(key, value)])
    tx.run("UPDATE experiments SET updated_ms = ? WHERE id = ?", (tx.now_ms, inner))
    _event(tx, "experiment.tagged", principal, inner, key=key)


def delete_experiment_tag(tx: Tx, principal: Principal, inner: int, key: str) -> None:
    """Remove a tag of an experiment."""
    require_active(tx, principal, inner)
    gone = tx.run("DELETE FROM experiment_tags WHERE experiment_id = ? AND key = ?", (inner, key))
    if not gone:
        raise NotFound(
            f"No tag with name: {key} in experiment with id"
            f" {outer_experiment_id(principal, inner)}"
        )
    _event(tx, "experiment.tagged", principal, inner, key=key, removed=True)


def require(tx: Tx | ReadConnection, principal: Principal, inner: int) -> tuple[str, str, str]:
    """Return name, lifecycle and artifact location of an experiment of the caller's team."""
    row = tx.one(
        "SELECT name, lifecycle, artifact_location FROM experiments WHERE id = ? AND team_id = ?",
        (inner, principal.team_id),
    )
    if row is None:
        raise _unknown(principal, inner)
    return row[0], row[1], row[2]


def is_active(tx: Tx, principal: Principal, inner: int) -> bool:
    """Tell whether the caller's team has this experiment and has not deleted it."""
    row = tx.one(
        "SELECT 1 FROM experiments WHERE id = ? AND team_id = ? AND lifecycle = 'active'",
        (inner, principal.team_id),
    )
    return row is not None


def require_active(tx: Tx, principal: Principal, inner: int) -> tuple[str, str, str]:
    """Return an experiment that takes new data, or refuse."""
    row = require(tx, principal, inner)
    if row[1] != "active":
        raise InvalidInput(
            f"The experiment {outer_experiment_id(principal, inner)} must be in the 'active'"
            f" state."
            " Current state is deleted."
        )
    return row


def _unknown(principal: Principal, inner: int) -> NotFound:
    return NotFound(f"No Experiment with id={outer_experiment_id(principal, inner)} exists")


def _write_tags(tx: Tx, inner: int, tags: Sequence[tuple[str, str]]) -> None:
    for position, (key, _) in enumerate(tags):
        check_name(key, f"tags[{position}].key")
    tx.many(
        "INSERT INTO experiment_tags (experiment_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (experiment_id, key) DO UPDATE SET value = excluded.value",
        [(inner, key, clip(value, MAX_EXPERIMENT_TAG_V3)) for key, value in tags],
    )


def _shape(
    principal: Principal, row: tuple[Any, ...], tags: list[dict[str, str]]
) -> dict[str, Any]:
    inner, name, location, lifecycle, created, updated = row
    shaped: dict[str, Any] = {
        "experiment_id": outer_experiment_id(principal, inner),
        "name": name,
        "artifact_location": location,
        "lifecycle_stage": lifecycle,
        "last_update_time": updated,
        "creation_time": created,
    }
    if tags:
        shaped["tags"] = tags
    return shaped


def _event(tx: Tx, kind: str, principal: Principal, inner: int, **data: Any) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="experiment",
        subject_id=str(inner),
        **data,
    )
