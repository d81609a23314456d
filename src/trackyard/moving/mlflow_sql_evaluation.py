"""Evaluation data sets and scorers as MLflow 3's database keeps them. Reads; knows no call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from trackyard.moving.records import SourceEvalDataset, SourceScorer, present

Row = dict[str, Any]
#: MLflow wraps a record's outputs, which may be no object, into one.
_WRAPPED = "mlflow_wrapped"


class RowReader(Protocol):
    """A database that answers queries with `?` for values."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a query."""
        ...


def read_eval_datasets(
    db: RowReader, where: str, values: Sequence[Any]
) -> Iterator[SourceEvalDataset]:
    """Yield the evaluation data sets that a condition picks, with their records."""
    sql = f"SELECT dataset_id, name FROM evaluation_datasets{where} ORDER BY created_time, name"
    for row in list(db.rows(sql, values)):
        key = (row["dataset_id"],)
        tags = db.rows("SELECT key, value FROM evaluation_dataset_tags WHERE dataset_id = ?", key)
        linked = db.rows(
            "SELECT destination_id FROM entity_associations WHERE source_type ="
            " 'evaluation_dataset' AND destination_type = 'experiment' AND source_id = ?",
            key,
        )
        records = db.rows(
            "SELECT * FROM evaluation_dataset_records WHERE dataset_id = ?"
            " ORDER BY created_time, dataset_record_id",
            key,
        )
        yield SourceEvalDataset(
            name=row["name"],
            experiments=[str(one["destination_id"]) for one in linked],
            tags=present((one["key"], one["value"]) for one in tags),
            records=[_record(one) for one in records],
        )


def _record(row: Row) -> dict[str, Any]:
    record = {
        name: _loaded(row.get(name)) for name in ("inputs", "expectations", "tags", "source")
    }
    outputs = _loaded(row.get("outputs"))
    if isinstance(outputs, dict):
        record["outputs"] = outputs.get(_WRAPPED, outputs)
    return {name: value for name, value in record.items() if value is not None}


def _loaded(value: Any) -> Any:
    """Return JSON as what it means; PostgreSQL's driver has read it already."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def read_scorers(db: RowReader) -> Iterator[SourceScorer]:
    """Yield the registered scorers with their versions."""
    found: dict[str, SourceScorer] = {}
    for row in db.rows(
        "SELECT s.scorer_id, s.experiment_id, s.scorer_name, v.serialized_scorer FROM scorers s"
        " JOIN scorer_versions v ON v.scorer_id = s.scorer_id"
        " ORDER BY s.experiment_id, s.scorer_name, v.scorer_version"
    ):
        one = found.setdefault(
            row["scorer_id"],
            SourceScorer(experiment=str(row["experiment_id"]), name=row["scorer_name"]),
        )
        one.versions.append(row["serialized_scorer"])
    yield from found.values()
