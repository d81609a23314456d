"""What a run read and made: data sets, model inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.core.ids import MODEL_ID
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import outer_experiment_id
from trackyard.tracking.runs import find_active_run

MAX_DATASET_NAME = 500
MAX_DATASET_DIGEST = 36
MAX_SOURCE = 65_535
MAX_SCHEMA = 1_048_576
MAX_PROFILE = 16_777_215


def log_inputs(
    tx: Tx,
    principal: Principal,
    run_id: str,
    *,
    datasets: Sequence[dict[str, Any]],
    models: Sequence[dict[str, Any]],
) -> None:
    """Record the data sets and models a run read."""
    run = find_active_run(tx, principal, run_id)
    for position, item in enumerate(datasets):
        used = read_dataset(item, f"datasets[{position}]")
        write_dataset(tx, run.experiment_id, run.id, used)
    for item in models:
        link_model(tx, run.id, item, "input")
    _event(tx, principal, run_id, datasets=len(datasets), models=len(models))


def log_outputs(
    tx: Tx, principal: Principal, run_id: str, models: Sequence[dict[str, Any]]
) -> None:
    """Record the models a run made."""
    run = find_active_run(tx, principal, run_id)
    for item in models:
        link_model(tx, run.id, item, "output")
    _event(tx, principal, run_id, outputs=len(models))


def search_datasets(
    reader: ReadConnection, principal: Principal, experiments: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the distinct data sets runs of these experiments used."""
    if not experiments:
        return []
    marks = ",".join("?" * len(experiments))
    rows = reader.all(
        "SELECT DISTINCT d.experiment_id, d.name, d.digest, l.tags FROM datasets d"
        " JOIN run_datasets l ON l.dataset_id = d.id JOIN runs r ON r.id = l.run_id"
        f" WHERE d.experiment_id IN ({marks}) AND r.team_id = ? AND r.lifecycle = 'active'"
        " ORDER BY d.name, d.digest LIMIT 1000",
        (*experiments, principal.team_id),
    )
    found, seen = [], set()
    for inner, name, digest, tags in rows:
        context = next(
            (tag["value"] for tag in msgspec.json.decode(tags) if tag["key"] == CONTEXT_TAG), None
        )
        key = (inner, name, digest, context)
        if key not in seen:
            seen.add(key)
            shaped = {
                "experiment_id": outer_experiment_id(principal, inner),
                "name": name,
                "digest": digest,
            }
            if context is not None:
                shaped["context"] = context
            found.append(shaped)
    return found


CONTEXT_TAG = "mlflow.data.context"


class DatasetUse(NamedTuple):
    """A data set that a run read, checked."""

    name: str
    digest: str
    #: source type, source, schema, profile
    facts: tuple[str, str, str | None, str | None]
    #: JSON list of {key, value}
    tags: str


def read_dataset(item: dict[str, Any], path: str) -> DatasetUse:
    """Check what a client says of a data set that a run read."""
    dataset = item.get("dataset")
    if not isinstance(dataset, dict):
        raise InvalidInput(f"Missing value for required parameter '{path}.dataset'.")
    name = _bounded(dataset, "name", MAX_DATASET_NAME, path, required=True)
    digest = _bounded(dataset, "digest", MAX_DATASET_DIGEST, path, required=True)
    facts = (
        _bounded(dataset, "source_type", MAX_DATASET_NAME, path) or "",
        _bounded(dataset, "source", MAX_SOURCE, path) or "",
        _bounded(dataset, "schema", MAX_SCHEMA, path),
        _bounded(dataset, "profile", MAX_PROFILE, path),
    )
    assert name is not None
    assert digest is not None
    tags = msgspec.json.encode(_tags(item, path)).decode()
    return DatasetUse(name, digest, facts, tags)


def write_dataset(tx: Tx, experiment: int, run: int, used: DatasetUse) -> None:
    """Record that a run read a data set; the first use of it in a run counts."""
    name, digest = used.name, used.digest
    tx.run(
        "INSERT INTO datasets (experiment_id, name, digest, source_type, source, schema, profile)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (experiment_id, name, digest) DO NOTHING",
        (experiment, name, digest, *used.facts),
    )
    row = tx.one(
        "SELECT id FROM datasets WHERE experiment_id = ? AND name = ? AND digest = ?",
        (experiment, name, digest),
    )
    assert row is not None
    tx.run(
        "INSERT INTO run_datasets (run_id, dataset_id, tags) VALUES (?, ?, ?)"
        " ON CONFLICT (run_id, dataset_id) DO NOTHING",
        (run, row[0], used.tags),
    )


def _tags(item: dict[str, Any], path: str) -> list[dict[str, str]]:
    tags = []
    for tag in item.get("tags") or []:
        if not isinstance(tag, dict) or not isinstance(tag.get("key"), str):
            raise InvalidInput(f"Invalid value for parameter '{path}.tags' supplied.")
        value = tag.get("value") or ""
        if len(tag["key"]) > 255 or len(str(value)) > 500:
            raise InvalidInput(
                f"'{path}.tags' exceeds its limit: keys take 255 characters, values 500"
            )
        tags.append({"key": tag["key"], "value": str(value)})
    return tags


def link_model(tx: Tx, run: int, item: dict[str, Any], direction: str) -> None:
    """Record that a run read or made a logged model."""
    model_id = item.get("model_id")
    if not isinstance(model_id, str) or MODEL_ID.match(model_id) is None:
        raise InvalidInput(
            f"Invalid value {str(model_id)[:80]!r} for parameter 'model_id' supplied"
        )
    step = item.get("step") or 0
    tx.run(
        "INSERT INTO run_models (run_id, model_id, direction, step) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (run_id, direction, model_id) DO NOTHING",
        (run, model_id, direction, int(step)),
    )


def _bounded(
    dataset: dict[str, Any], field: str, limit: int, path: str, *, required: bool = False
) -> str | None:
    value = dataset.get(field)
    if value is None or value == "":
        if required:
            raise InvalidInput(f"Missing value for required parameter '{path}.dataset.{field}'.")
        return None
    if not isinstance(value, str) or len(value) > limit:
        raise InvalidInput(
            f"'{path}.dataset.{field}' exceeds the maximum length of {limit} characters"
        )
    return value


def _event(tx: Tx, principal: Principal, run_id: str, **data: Any) -> None:
    tx.event(
        "run.inputs",
        team_id=principal.team_id,
        actor=principal.name,
        subject="run",
        subject_id=run_id,
        **data,
    )
