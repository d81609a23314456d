"""Experiments and runs from other trackers. Owns what happens when their ids or names are taken.

Everything about an item is checked before any of it is written, so that one which is refused costs
the others of its request nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from trackyard.access.principal import Principal
from trackyard.core.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from trackyard.core.ids import EXPERIMENT_ID, MODEL_ID, RUN_ID, has_controls, new_experiment_id
from trackyard.core.storage_uri import is_plain, scheme_of
from trackyard.core.strict_json import check_text
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import (
    inner_experiment_id,
    outer_experiment_id,
    require,
)
from trackyard.tracking.importing import provenance
from trackyard.tracking.importing.provenance import ImportOutcome, KnownImport, digest_of
from trackyard.tracking.importing.records import (
    ImportedDataset,
    ImportedExperiment,
    ImportedRun,
)
from trackyard.tracking.inputs import DatasetUse, link_model, read_dataset, write_dataset
from trackyard.tracking.names import Names
from trackyard.tracking.runs import RUN_NAME_TAG, STATUSES, new_keys, write_tags
from trackyard.tracking.validation import (
    MAX_EXPERIMENT_NAME,
    MAX_EXPERIMENT_TAG_V3,
    MAX_RUN_NAME,
    check_name,
)

#: What MLflow's database has room for; its clients' limits are lower.
MAX_STORED_PARAM = 8000
#: Keeps the id of an experiment that has another one here.
SOURCE_ID_TAG = "trackyard.import.experiment_id"
_REFUSALS = (InvalidInput, NotFound, Conflict, AlreadyExists)
_INSERT_RUN = (
    "INSERT INTO runs (id, uuid, experiment_id, team_id, artifact_uri, name, user_name, status,"
    " start_ms, end_ms, lifecycle, deleted_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
Item = TypeVar("Item")


def each(
    items: Sequence[Item], name: Callable[[Item], str], put: Callable[[Item], ImportOutcome]
) -> list[ImportOutcome]:
    """Import items one by one; one that is refused is told of and holds up no other."""
    found = []
    for item in items:
        try:
            found.append(put(item))
        except _REFUSALS as fault:
            found.append(ImportOutcome(id=name(item), outcome="refused", note=fault.message))
    return found


# -- experiments ------------------------------------------------------------------------------


def put_experiment(
    tx: Tx,
    principal: Principal,
    item: ImportedExperiment,
    *,
    same_name: str,
    schemes: Collection[str],
) -> ImportOutcome:
    """Import an experiment; its id is kept unless another experiment has it."""
    _check_experiment(item)
    if item.artifact_location:
        check_left(item.artifact_location, schemes)
    key = f"{item.source_id}@{item.created_ms or item.name}"
    digest = digest_of(item)
    known = provenance.find(tx, principal, "experiment", key)
    if known is not None and _is_there(tx, principal, int(known.target)):
        inner = int(known.target)
        outcome = "unchanged" if known.digest == digest else "updated"
        note = ""
        if outcome == "updated":
            note = _update(tx, principal, inner, item)
    else:
        inner, outcome, note = _create(tx, principal, item, same_name)
    if outcome != "unchanged":
        _write_tags(tx, inner, item.tags)
        provenance.note(tx, principal, "experiment", key, KnownImport(str(inner), digest))
        _event(tx, "experiment.imported", principal, "experiment", str(inner), name=item.name)
    target = outer_experiment_id(principal, inner)
    return ImportOutcome(id=item.source_id, outcome=outcome, target=target, note=note)


def check_left(address: str, schemes: Collection[str]) -> None:
    """Refuse an address of files that no client could reach by itself."""
    scheme = scheme_of(address)
    is_file = scheme == "file" and address.startswith("file:///")
    if not is_plain(address) or not (is_file or scheme in schemes):
        raise InvalidInput(
            f"files cannot be left at {address[:200]!r}: clients reach them by themselves only"
            f" under {', '.join(schemes)} or file:///; copy them instead"
        )


def _check_experiment(item: ImportedExperiment) -> None:
    if EXPERIMENT_ID.match(item.source_id) is None:
        raise InvalidInput(f"an experiment's id is a number, not {item.source_id[:80]!r}")
    if not item.name or len(item.name) > MAX_EXPERIMENT_NAME or has_controls(item.name):
        raise InvalidInput(
            f"an experiment's name has 1 to {MAX_EXPERIMENT_NAME} characters, none of them a"
            " control character"
        )
    for tag, value in item.tags.items():
        check_name(tag, "tags.key")
        _check_length(value, MAX_EXPERIMENT_TAG_V3, f"the experiment's tag {tag!r}")


def _check_length(value: str, limit: int, what: str) -> None:
    check_text(value)
    if len(value) > limit:
        raise InvalidInput(f"{what} has {len(value)} characters; at most {limit} are kept")


def _is_there(tx: Tx, principal: Principal, inner: int) -> bool:
    return (
        tx.one(
            "SELECT 1 FROM experiments WHERE id = ? AND team_id = ?", (inner, principal.team_id)
        )
        is not None
    )


def _create(
    tx: Tx, principal: Principal, item: ImportedExperiment, same_name: str
) -> tuple[int, str, str]:
    if int(item.source_id) == 0:
        return principal.default_experiment, "merged", "into the team's own default experiment"
    name, notes = item.name, []
    taken = tx.one(
        "SELECT id FROM experiments WHERE team_id = ? AND name = ?", (principal.team_id, name)
    )
    if taken is not None:
        if same_name == "merge":
            return int(taken[0]), "merged", f"into the experiment {name!r} that was here"
        name = _free_name(tx, principal, name)
        notes.append(f"the team has an experiment {item.name!r} already; this one is {name!r}")
    inner = int(item.source_id)
    if tx.one("SELECT 1 FROM experiments WHERE id = ?", (inner,)) is not None:
        inner = new_experiment_id()
        item.tags[SOURCE_ID_TAG] = item.source_id
        notes.append(
            f"the id {item.source_id} is taken on this server; it is {inner} here, and the tag"
            f" {SOURCE_ID_TAG} keeps the old one"
        )
    tx.run(
        "INSERT INTO experiments (team_id, id, name, artifact_location, lifecycle, created_ms,"
        " updated_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            principal.team_id,
            inner,
            name,
            item.artifact_location or f"mlflow-artifacts:/{inner}",
            item.lifecycle,
            item.created_ms or tx.now_ms,
            item.updated_ms or item.created_ms or tx.now_ms,
        ),
    )
    return inner, "created", "; ".join(notes)


def _free_name(tx: Tx, principal: Principal, name: str) -> str:
    number = 1
    while True:
        more = " (imported)" if number == 1 else f" (imported {number})"
        wanted = name[: MAX_EXPERIMENT_NAME - len(more)] + more
        taken = tx.one(
            "SELECT 1 FROM experiments WHERE team_id = ? AND name = ?",
            (principal.team_id, wanted),
        )
        if taken is None:
            return wanted
        number += 1


def _update(tx: Tx, principal: Principal, inner: int, item: ImportedExperiment) -> str:
    """Bring what changed at the source; the default experiment keeps its name and state."""
    if inner == principal.default_experiment:
        return ""
    taken = tx.one(
        "SELECT id FROM experiments WHERE team_id = ? AND name = ?",
        (principal.team_id, item.name),
    )
    is_free = taken is None or taken[0] == inner
    tx.run(
        "UPDATE experiments SET lifecycle = ?, updated_ms = ? WHERE id = ?",
        (item.lifecycle, item.updated_ms or tx.now_ms, inner),
    )
    if not is_free:
        return f"its name stays: the team has another experiment {item.name!r}"
    tx.run("UPDATE experiments SET name = ? WHERE id = ?", (item.name, inner))
    return ""


def _write_tags(tx: Tx, inner: int, tags: dict[str, str]) -> None:
    tx.many(
        "INSERT INTO experiment_tags (experiment_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (experiment_id, key) DO UPDATE SET value = excluded.value",
        [(inner, key, value) for key, value in tags.items()],
    )


# -- runs -------------------------------------------------------------------------------------


def put_run(
    tx: Tx, names: Names, principal: Principal, item: ImportedRun, schemes: Collection[str]
) -> ImportOutcome:
    """Import a run under its own id, with its times, its user and its state."""
    datasets = _check_run(item, schemes)
    experiment = inner_experiment_id(principal, item.experiment_id)
    location = require(tx, principal, experiment)[2]
    row = tx.one("SELECT id, team_id FROM runs WHERE uuid = ?", (item.run_id,))
    if row is not None and row[1] != principal.team_id:
        raise Conflict("its id belongs to a run of another team on this server")
    digest = digest_of(item)
    known = provenance.find(tx, principal, "run", item.run_id)
    if row is not None and known is not None and known.digest == digest:
        return ImportOutcome(id=item.run_id, outcome="unchanged")
    name = item.name or item.tags.get(RUN_NAME_TAG) or item.run_id[:8]
    tags = {**item.tags, RUN_NAME_TAG: name}
    if row is None:
        inner = new_keys(tx, 1)[0]
        uri = item.artifact_uri or f"{location}/{item.run_id}/artifacts"
        known_as = (inner, item.run_id, experiment, principal.team_id, uri, name)
        tx.run(_INSERT_RUN, (*known_as, *_facts(tx, principal, item)))
    else:
        inner = row[0]
        tx.run(
            "UPDATE runs SET name = ?, user_name = ?, status = ?, start_ms = ?, end_ms = ?,"
            " lifecycle = ?, deleted_ms = ? WHERE id = ?",
            (name, *_facts(tx, principal, item), inner),
        )
    write_tags(tx, names, inner, list(tags.items()))
    tx.many(
        "INSERT INTO params (run_id, name_id, value) VALUES (?, ?, ?)"
        " ON CONFLICT (run_id, name_id) DO NOTHING",
        [(inner, names.id(tx, key), value) for key, value in item.params.items()],
    )
    for used in datasets:
        write_dataset(tx, experiment, inner, used)
    for link in item.models:
        link_model(tx, inner, {"model_id": link.model_id, "step": link.step}, link.direction)
    provenance.note(tx, principal, "run", item.run_id, KnownImport(item.run_id, digest))
    _event(tx, "run.imported", principal, "run", item.run_id, experiment_id=str(experiment))
    return ImportOutcome(id=item.run_id, outcome="created" if row is None else "updated")


def deletion_times(reader: ReadConnection, principal: Principal) -> dict[str, int]:
    """Return when the deleted runs of the caller's team were deleted."""
    rows = reader.all(
        "SELECT uuid, deleted_ms FROM runs WHERE team_id = ? AND deleted_ms IS NOT NULL",
        (principal.team_id,),
    )
    return {row[0]: row[1] for row in rows}


def _check_run(item: ImportedRun, schemes: Collection[str]) -> list[DatasetUse]:
    if RUN_ID.match(item.run_id) is None:
        raise InvalidInput(f"a run's id is 32 hex digits, not {item.run_id[:80]!r}")
    if item.status not in STATUSES:
        raise InvalidInput(f"its status {item.status[:80]!r} is none of {', '.join(STATUSES)}")
    if len(item.name) > MAX_RUN_NAME:
        raise InvalidInput(f"its name has more than {MAX_RUN_NAME} characters")
    check_text(item.name + item.user)
    if item.artifact_uri:
        check_left(item.artifact_uri, schemes)
    for key, value in item.params.items():
        check_name(key, "params.key")
        _check_length(value, MAX_STORED_PARAM, f"the parameter {key!r}")
    for key, value in item.tags.items():
        check_name(key, "tags.key")
        check_text(value)
    for link in item.models:
        if MODEL_ID.match(link.model_id) is None:
            raise InvalidInput(f"a logged model's id is not like {link.model_id[:80]!r}")
    return [_dataset(used, at) for at, used in enumerate(item.datasets)]


def _dataset(used: ImportedDataset, at: int) -> DatasetUse:
    facts = {
        "name": used.name,
        "digest": used.digest,
        "source_type": used.source_type,
        "source": used.source,
        "schema": used.schema,
        "profile": used.profile,
    }
    tags = [{"key": key, "value": value} for key, value in used.tags.items()]
    return read_dataset({"dataset": facts, "tags": tags}, f"datasets[{at}]")


def _facts(tx: Tx, principal: Principal, item: ImportedRun) -> tuple[Any, ...]:
    gone = (item.deleted_ms or tx.now_ms) if item.lifecycle == "deleted" else None
    user = item.user or principal.name
    return user, item.status, item.start_ms, item.end_ms, item.lifecycle, gone


def _event(
    tx: Tx, kind: str, principal: Principal, subject: str, subject_id: str, **data: Any
) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject=subject,
        subject_id=subject_id,
        **data,
    )
