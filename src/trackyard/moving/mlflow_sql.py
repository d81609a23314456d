"""Reads MLflow's database, of 2.x or 3.x, in SQLite or PostgreSQL. Never writes to it.

Owns MLflow's tables and how they differ between releases: what a release lacks is looked up, not
guessed from its number. The old server may go on writing meanwhile.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from trackyard.core.errors import SetupError
from trackyard.moving.files import Files
from trackyard.moving.mlflow_forms import (
    LOCATION_TAG,
    SPANS_TAG,
    assessment_of_row,
    model_status,
    run_status,
    stored_span,
    trace_info,
)
from trackyard.moving.mlflow_sql_evaluation import read_eval_datasets, read_scorers
from trackyard.moving.records import (
    SourceEvalDataset,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceScorer,
    SourceSeries,
    SourceTrace,
    batches,
    present,
)

_PAGE = 500
_POINTS = 200_000
#: Tables that are not brought, with what to do about them.
_LEFT_OUT = {
    "webhooks": "webhooks hold secrets of the old server; set them up again",
    "endpoints": "gateway endpoints have no counterpart here",
    "jobs": "MLflow's own background jobs have no counterpart here",
    "review_queues": "review queues have no counterpart here",
    "label_schemas": "label schemas have no counterpart here",
    "issues": "issues have no counterpart here",
}
Row = dict[str, Any]


class _Connection:
    """Queries on either database, with `?` for values."""

    def __init__(self, url: str) -> None:
        self.folder: Path | None = None
        self._is_sqlite = url.startswith("sqlite:")
        if self._is_sqlite:
            path = Path(url.removeprefix("sqlite:///"))
            if not path.is_file():
                raise SetupError(f"there is no database {path}", hint="sqlite:///relative.db")
            self.folder = path.resolve().parent
            self._conn: Any = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        else:
            self._conn = _postgres(url)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield rows by the names of their columns."""
        cursor = self._cursor(sql, values)
        names = [one[0] for one in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))

    def pages(self, sql: str, values: Sequence[Any]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows as they are, many at a time."""
        cursor = self._cursor(sql, values)
        while page := cursor.fetchmany(_POINTS):
            yield page

    def _cursor(self, sql: str, values: Sequence[Any]) -> Any:
        if self._is_sqlite:
            return self._conn.execute(sql, values)
        cursor = self._conn.cursor()
        cursor.execute(sql.replace("?", "%s"), values)
        return cursor

    def columns(self) -> dict[str, set[str]]:
        """Return the columns of every table."""
        if self._is_sqlite:
            sql = (
                "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_xinfo(m.name) p"
                " WHERE m.type = 'table'"
            )
        else:
            sql = (
                "SELECT table_name, column_name FROM information_schema.columns"
                " WHERE table_schema = ANY (current_schemas(false))"
            )
        found: dict[str, set[str]] = {}
        for table, column in self._cursor(sql, ()):
            found.setdefault(table, set()).add(column)
        return found


def _postgres(url: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise SetupError(
            "reading a PostgreSQL database needs psycopg",
            hint="pip install 'trackyard[postgres]'",
        ) from None
    plain = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)
    try:
        conn = psycopg.connect(plain, autocommit=True)
    except psycopg.OperationalError as fault:
        raise SetupError(f"cannot open the database: {str(fault).strip()[:300]}") from fault
    conn.execute("SET default_transaction_read_only = on")
    return conn


class MlflowDatabase:
    """A source of records: the database behind an MLflow server."""

    def __init__(
        self, url: str, *, artifacts_root: str | None = None, workspace: str | None = None
    ) -> None:
        self._db = _Connection(url)
        self._columns = self._db.columns()
        if not {"experiments", "runs", "metrics"} <= set(self._columns):
            raise SetupError("this is no database of MLflow: it has no table of runs")
        root = artifacts_root
        beside = self._db.folder / "mlartifacts" if self._db.folder is not None else None
        if root is None and beside is not None and beside.is_dir():
            root = str(beside)
        self._files = Files(base=self._db.folder, root=root)
        self._workspace = self._choose(workspace)

    def _choose(self, wanted: str | None) -> str | None:
        """Return the workspace to read; None where the release knows none."""
        if "workspace" not in self._columns["experiments"]:
            return None
        sql = "SELECT workspace FROM experiments UNION SELECT workspace FROM registered_models"
        names = sorted(row["workspace"] for row in self._db.rows(sql))
        if wanted is None and len(names) > 1:
            raise SetupError(
                f"the database holds the workspaces {', '.join(names)}",
                hint="import them one by one, into a team each: --workspace NAME",
            )
        if wanted is not None and wanted not in names:
            raise SetupError(f"there is no workspace {wanted!r}; there are {', '.join(names)}")
        return wanted or (names[0] if names else "default")

    def _of_workspace(self, glue: str = "WHERE") -> tuple[str, list[Any]]:
        if self._workspace is None:
            return "", []
        return f" {glue} workspace = ?", [self._workspace]

    def experiments(self) -> Iterator[SourceExperiment]:
        """Yield all experiments, deleted ones too."""
        tags: dict[int, dict[str, str]] = {}
        for row in self._db.rows("SELECT experiment_id, key, value FROM experiment_tags"):
            tags.setdefault(row["experiment_id"], {})[row["key"]] = row["value"] or ""
        where, values = self._of_workspace()
        sql = f"SELECT * FROM experiments{where} ORDER BY experiment_id"
        for row in self._db.rows(sql, values):
            yield SourceExperiment(
                source_id=str(row["experiment_id"]),
                name=row["name"],
                created_ms=row.get("creation_time") or 0,
                updated_ms=row.get("last_update_time") or 0,
                lifecycle=row["lifecycle_stage"] or "active",
                artifact_location=row["artifact_location"] or "",
                tags=tags.get(row["experiment_id"], {}),
            )

    # -- runs -------------------------------------------------------------------------------

    def runs(self, experiment: SourceExperiment) -> Iterator[SourceRun]:
        """Yield the runs of an experiment, deleted ones too."""
        after = ""
        while True:
            page = list(
                self._db.rows(
                    "SELECT * FROM runs WHERE experiment_id = ? AND run_uuid > ?"
                    f" ORDER BY run_uuid LIMIT {_PAGE}",
                    (int(experiment.source_id), after),
                )
            )
            if not page:
                return
            yield from self._whole([_run(row) for row in page])
            after = page[-1]["run_uuid"]

    def _whole(self, runs: list[SourceRun]) -> list[SourceRun]:
        """Add to runs what other tables hold of them."""
        by_id = {run.run_id: run for run in runs}
        marks, ids = ",".join("?" * len(by_id)), list(by_id)
        for table in ("params", "tags"):
            sql = f"SELECT run_uuid, key, value FROM {table} WHERE run_uuid IN ({marks})"
            for row in self._db.rows(sql, ids):
                getattr(by_id[row["run_uuid"]], table)[row["key"]] = row["value"] or ""
        for run in runs:
            run.counts = {}
        sql = (
            f"SELECT run_uuid, key, 1 AS n FROM latest_metrics WHERE run_uuid IN ({marks})"
            " UNION ALL SELECT run_uuid, key, count(*) AS n FROM metrics"
            f" WHERE run_uuid IN ({marks}) GROUP BY run_uuid, key"
        )
        for row in self._db.rows(sql, [*ids, *ids]):
            counts = by_id[row["run_uuid"]].counts
            assert counts is not None
            counts[row["key"]] = max(row["n"], counts.get(row["key"], 0))
        if "inputs" in self._columns:
            self._add_inputs(by_id)
        return runs

    def _add_inputs(self, by_id: dict[str, SourceRun]) -> None:
        marks, ids = ",".join("?" * len(by_id)), list(by_id)
        tags: dict[str, dict[str, str]] = {}
        sql = (
            "SELECT t.input_uuid, t.name, t.value FROM input_tags t JOIN inputs i"
            f" ON i.input_uuid = t.input_uuid WHERE i.destination_id IN ({marks})"
        )
        for row in self._db.rows(sql, ids):
            tags.setdefault(row["input_uuid"], {})[row["name"]] = row["value"]
        sql = (
            "SELECT i.input_uuid, i.destination_id, d.* FROM inputs i JOIN datasets d"
            " ON d.dataset_uuid = i.source_id WHERE i.source_type = 'DATASET'"
            f" AND i.destination_type = 'RUN' AND i.destination_id IN ({marks})"
            " ORDER BY i.input_uuid"
        )
        for row in self._db.rows(sql, ids):
            by_id[row["destination_id"]].datasets.append(
                {
                    "name": row["name"],
                    "digest": row["digest"],
                    "source_type": row["dataset_source_type"] or "",
                    "source": row["dataset_source"] or "",
                    "schema": row["dataset_schema"],
                    "profile": row["dataset_profile"],
                    "tags": tags.get(row["input_uuid"], {}),
                }
            )
        if "step" not in self._columns["inputs"]:
            return
        sql = (
            "SELECT source_type, source_id, destination_id, step FROM inputs WHERE source_type"
            f" IN ('RUN_INPUT', 'RUN_OUTPUT') AND source_id IN ({marks}) ORDER BY destination_id"
        )
        for row in self._db.rows(sql, ids):
            direction = "input" if row["source_type"] == "RUN_INPUT" else "output"
            by_id[row["source_id"]].models.append(
                {
                    "model_id": row["destination_id"],
                    "direction": direction,
                    "step": row["step"] or 0,
                }
            )

    def points(self, run: SourceRun, keys: Collection[str]) -> Iterator[SourceSeries]:
        """Yield points of some metrics of a run; the latest alone where the history was pruned."""
        wanted, seen = set(keys), set[str]()
        pages = self._db.pages(
            "SELECT key, step, timestamp, value, is_nan FROM metrics WHERE run_uuid = ?"
            " ORDER BY key",
            (run.run_id,),
        )
        for page in pages:
            for series in _split(page):
                seen.add(series.key)
                if series.key in wanted:
                    yield series
        if wanted <= seen:
            return
        pages = self._db.pages(
            "SELECT key, step, timestamp, value, is_nan FROM latest_metrics WHERE run_uuid = ?"
            " ORDER BY key",
            (run.run_id,),
        )
        for page in pages:
            yield from (one for one in _split(page) if one.key in wanted - seen)

    # -- models -----------------------------------------------------------------------------

    def logged_models(self, experiment: SourceExperiment) -> Iterator[SourceLoggedModel]:
        """Yield the logged models of an experiment."""
        if "logged_models" not in self._columns:
            return
        sql = "SELECT * FROM logged_models WHERE experiment_id = ? ORDER BY model_id"
        for page in batches(self._db.rows(sql, (int(experiment.source_id),)), _PAGE):
            found = {row["model_id"]: _logged(row) for row in page}
            self._add_to_logged(found)
            yield from found.values()

    def _add_to_logged(self, found: dict[str, SourceLoggedModel]) -> None:
        marks, ids = ",".join("?" * len(found)), list(found)
        for table, word in (("tags", "tag"), ("params", "param")):
            sql = f"SELECT * FROM logged_model_{table} WHERE model_id IN ({marks})"
            for row in self._db.rows(sql, ids):
                pairs = getattr(found[row["model_id"]], table)
                pairs[row[f"{word}_key"]] = row[f"{word}_value"] or ""
        # What is read twice must come in one order, or it would count as changed.
        sql = (
            f"SELECT * FROM logged_model_metrics WHERE model_id IN ({marks})"
            " ORDER BY metric_name, metric_timestamp_ms, metric_step, run_id"
        )
        for row in self._db.rows(sql, ids):
            found[row["model_id"]].metrics.append(
                {
                    "key": row["metric_name"],
                    "value": row["metric_value"],
                    "time_ms": row["metric_timestamp_ms"],
                    "step": row["metric_step"],
                    "run_id": row["run_id"] or "",
                    "dataset_name": row["dataset_name"],
                    "dataset_digest": row["dataset_digest"],
                }
            )

    def models(self) -> Iterator[SourceModel]:
        """Yield registered models and prompts; tombstones of versions keep their numbers."""
        where, values = self._of_workspace()
        found = {
            row["name"]: SourceModel(
                name=row["name"],
                description=row["description"] or "",
                created_ms=row["creation_time"] or 0,
                updated_ms=row["last_updated_time"] or row["creation_time"] or 0,
            )
            for row in self._db.rows(f"SELECT * FROM registered_models{where}", values)
        }
        for row in self._db.rows(f"SELECT * FROM registered_model_tags{where}", values):
            found[row["name"]].tags[row["key"]] = row["value"] or ""
        if "registered_model_aliases" in self._columns:
            for row in self._db.rows(f"SELECT * FROM registered_model_aliases{where}", values):
                found[row["name"]].aliases[row["alias"]] = row["version"]
        tags: dict[tuple[str, int], dict[str, str]] = {}
        for row in self._db.rows(f"SELECT * FROM model_version_tags{where}", values):
            pairs = tags.setdefault((row["name"], row["version"]), {})
            pairs[row["key"]] = row["value"] or ""
        sql = f"SELECT * FROM model_versions{where} ORDER BY name, version"
        for row in self._db.rows(sql, values):
            version = _version(row)
            version["tags"] = tags.get((row["name"], row["version"]), {})
            found[row["name"]].versions.append(version)
        yield from found.values()

    # -- traces -----------------------------------------------------------------------------

    def traces(self, experiment: SourceExperiment) -> Iterator[SourceTrace]:
        """Yield the traces of an experiment."""
        if "trace_info" not in self._columns:
            return
        sql = "SELECT * FROM trace_info WHERE experiment_id = ? ORDER BY request_id"
        for page in batches(self._db.rows(sql, (int(experiment.source_id),)), _PAGE):
            yield from self._whole_traces(page)

    def _whole_traces(self, page: Iterable[Row]) -> Iterator[SourceTrace]:
        rows = {row["request_id"]: row for row in page}
        tags = self._trace_pairs("trace_tags", list(rows))
        metadata = self._trace_pairs("trace_request_metadata", list(rows))
        for trace_id, row in rows.items():
            own = tags.get(trace_id, {})
            if row.get("trace_name") and "mlflow.traceName" not in own:
                own["mlflow.traceName"] = row["trace_name"]
            spans = self._spans(trace_id)
            yield SourceTrace(
                info=trace_info(
                    trace_id,
                    time_ms=row["timestamp_ms"],
                    duration_ms=row["execution_time_ms"],
                    state=row["status"],
                    tags=own,
                    metadata=metadata.get(trace_id, {}),
                    previews=(row.get("request_preview"), row.get("response_preview")),
                    client_request_id=row.get("client_request_id"),
                ),
                spans=spans,
                assessments=self._assessments(trace_id),
                runs=self._runs_of(trace_id),
                artifact_uri="" if SPANS_TAG in own else own.get(LOCATION_TAG, ""),
            )

    def _trace_pairs(self, table: str, ids: list[str]) -> dict[str, dict[str, str]]:
        marks, found = ",".join("?" * len(ids)), dict[str, dict[str, str]]()
        sql = f"SELECT request_id, key, value FROM {table} WHERE request_id IN ({marks})"
        for row in self._db.rows(sql, ids):
            found.setdefault(row["request_id"], {})[row["key"]] = row["value"] or ""
        return found

    def _spans(self, trace_id: str) -> list[dict[str, Any]]:
        if "spans" not in self._columns:
            return []
        sql = "SELECT content FROM spans WHERE trace_id = ? ORDER BY start_time_unix_nano, span_id"
        rows = self._db.rows(sql, (trace_id,))
        return [stored_span(json.loads(row["content"])) for row in rows if row["content"]]

    def _assessments(self, trace_id: str) -> list[dict[str, Any]]:
        if "assessments" not in self._columns:
            return []
        sql = (
            "SELECT * FROM assessments WHERE trace_id = ?"
            " ORDER BY created_timestamp, assessment_id"
        )
        return [assessment_of_row(row) for row in self._db.rows(sql, (trace_id,))]

    def _runs_of(self, trace_id: str) -> list[str]:
        if "entity_associations" not in self._columns:
            return []
        sql = (
            "SELECT destination_id FROM entity_associations WHERE source_type = 'trace'"
            " AND source_id = ? AND destination_type = 'run' ORDER BY destination_id"
        )
        return [row["destination_id"] for row in self._db.rows(sql, (trace_id,))]

    # -- the rest ---------------------------------------------------------------------------

    def eval_datasets(self) -> Iterator[SourceEvalDataset]:
        """Yield the evaluation data sets."""
        columns = self._columns.get("evaluation_datasets", set())
        if columns:
            where, values = self._of_workspace() if "workspace" in columns else ("", [])
            yield from read_eval_datasets(self._db, where, values)

    def scorers(self) -> Iterator[SourceScorer]:
        """Yield the scorers; those of other workspaces belong to experiments that do not come."""
        if "scorer_versions" in self._columns:
            yield from read_scorers(self._db)

    def files(self, uri: str, owner: str) -> Iterator[SourceFile]:  # noqa: ARG002
        """Yield the files below an address."""
        return self._files.below(uri)

    def left_out(self) -> Iterator[tuple[str, int, str]]:
        """Yield what the database holds and an import does not bring."""
        for table, why in _LEFT_OUT.items():
            if table in self._columns:
                row = next(self._db.rows(f"SELECT count(*) AS n FROM {table}"))
                if row["n"]:
                    yield table.replace("_", " "), row["n"], why


def _run(row: Row) -> SourceRun:
    return SourceRun(
        run_id=row["run_uuid"],
        name=row.get("name") or "",
        user=row["user_id"] or "",
        status=run_status(row["status"] or "FINISHED"),
        start_ms=row["start_time"],
        end_ms=row["end_time"],
        lifecycle=row["lifecycle_stage"] or "active",
        deleted_ms=row.get("deleted_time"),
        artifact_uri=row["artifact_uri"] or "",
    )


def _logged(row: Row) -> SourceLoggedModel:
    return SourceLoggedModel(
        model_id=row["model_id"],
        name=row["name"] or "",
        model_type=row["model_type"] or "",
        source_run=row["source_run_id"] or "",
        status=model_status(row["status"]),
        status_message=row["status_message"] or "",
        lifecycle=row["lifecycle_stage"] or "active",
        created_ms=row["creation_timestamp_ms"] or 0,
        updated_ms=row["last_updated_timestamp_ms"] or 0,
        artifact_uri=row["artifact_location"] or "",
    )


def _version(row: Row) -> dict[str, Any]:
    texts = present(
        (name, row.get(column))
        for name, column in (
            ("description", "description"),
            ("user", "user_id"),
            ("stage", "current_stage"),
            ("source", "source"),
            ("run_id", "run_id"),
            ("run_link", "run_link"),
            ("status", "status"),
            ("status_message", "status_message"),
            ("storage_location", "storage_location"),
        )
    )
    created = row["creation_time"] or 0
    times = {"created_ms": created, "updated_ms": row["last_updated_time"] or created}
    return {**texts, **times, "version": row["version"]}


def _split(page: list[tuple[Any, ...]]) -> Iterator[SourceSeries]:
    """Cut rows that are sorted by key into series."""
    keys, steps, times, values, nans = zip(*page, strict=True)
    cuts = [0, *(at for at in range(1, len(keys)) if keys[at] != keys[at - 1]), len(keys)]
    all_steps, all_times = np.array(steps, np.int64), np.array(times, np.int64)
    all_values = np.array(values, np.float64)
    all_values[np.array(nans, bool)] = np.nan
    for start, end in pairwise(cuts):
        part = slice(start, end)
        yield SourceSeries(keys[start], all_steps[part], all_times[part], all_values[part])
