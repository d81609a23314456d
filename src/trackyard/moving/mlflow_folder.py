"""Reads MLflow's file store, the folder `mlruns`, as 2.x and 3.x write it. Never writes to it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trackyard.core.errors import SetupError
from trackyard.moving.files import Files, local_files
from trackyard.moving.mlflow_forms import (
    LOCATION_TAG,
    model_status,
    run_status,
    trace_info,
)
from trackyard.moving.records import (
    CannotRead,
    SourceEvalDataset,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceScorer,
    SourceSeries,
    SourceTrace,
    present,
)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_META = "meta.yaml"
#: Folders of an experiment that are no runs.
_NO_RUNS = frozenset(("tags", "datasets", "traces", "models", "assessments", "scorers"))


class MlflowFolder:
    """A source of records: a file store of MLflow."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise SetupError(f"there is no folder {root}", hint="name the folder `mlruns`")
        self._root = root
        self._files = Files(base=root.parent)
        self._places: dict[str, Path] = {}
        self._broken: list[str] = []
        if not any((one / _META).is_file() for one in root.iterdir()):
            raise SetupError(f"{root} is no file store of MLflow: no experiment has a {_META}")

    def experiments(self) -> Iterator[SourceExperiment]:
        """Yield all experiments, deleted ones too."""
        for folder in [*_folders(self._root), *_folders(self._root / ".trash")]:
            meta = self._meta(folder)
            if meta is None or "experiment_id" not in meta:
                continue
            self._places[str(meta["experiment_id"])] = folder
            yield SourceExperiment(
                source_id=str(meta["experiment_id"]),
                name=str(meta["name"]),
                created_ms=meta.get("creation_time") or 0,
                updated_ms=meta.get("last_update_time") or 0,
                lifecycle=meta.get("lifecycle_stage") or "active",
                artifact_location=meta.get("artifact_location") or "",
                tags=_texts(folder / "tags"),
            )

    def runs(self, experiment: SourceExperiment) -> Iterator[SourceRun]:
        """Yield the runs of an experiment, deleted ones too."""
        for folder in _folders(self._places[experiment.source_id]):
            if folder.name in _NO_RUNS:
                continue
            meta = self._meta(folder)
            if meta is None or not (meta.get("run_id") or meta.get("run_uuid")):
                continue
            run_id = str(meta.get("run_id") or meta["run_uuid"])
            self._places[run_id] = folder
            datasets, models = self._inputs(folder)
            yield SourceRun(
                run_id=run_id,
                name=str(meta.get("run_name") or meta.get("name") or ""),
                user=str(meta.get("user_id") or ""),
                status=run_status(meta.get("status", 3)),
                start_ms=meta.get("start_time"),
                end_ms=meta.get("end_time"),
                lifecycle=meta.get("lifecycle_stage") or "active",
                deleted_ms=meta.get("deleted_time"),
                artifact_uri=meta.get("artifact_uri") or "",
                params=_texts(folder / "params"),
                tags=_texts(folder / "tags"),
                datasets=datasets,
                models=models,
                counts={
                    key: path.read_bytes().count(b"\n") for key, path in _named(folder / "metrics")
                },
            )

    def _inputs(self, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        datasets: list[dict[str, Any]] = []
        models: list[dict[str, Any]] = []
        for direction in ("input", "output"):
            for place in _folders(folder / f"{direction}s"):
                meta = self._meta(place)
                if meta is None:
                    continue
                if str(meta.get("source_type")) == "DATASET":
                    used = self._meta(folder.parent / "datasets" / str(meta["source_id"]))
                    if used is not None:
                        datasets.append({**_dataset(used), "tags": meta.get("tags") or {}})
                else:
                    models.append(
                        {
                            "model_id": str(meta["destination_id"]),
                            "direction": direction,
                            "step": meta.get("step") or 0,
                        }
                    )
        return datasets, models

    def points(self, run: SourceRun, keys: Collection[str]) -> Iterator[SourceSeries]:
        """Yield the points of some metrics of a run."""
        wanted = set(keys)
        for key, path in _named(self._places[run.run_id] / "metrics"):
            if key in wanted:
                series = read_points(key, path.read_bytes())
                if len(series.steps):
                    yield series

    # -- models -----------------------------------------------------------------------------

    def logged_models(self, experiment: SourceExperiment) -> Iterator[SourceLoggedModel]:
        """Yield the logged models of an experiment."""
        for folder in _folders(self._places[experiment.source_id] / "models"):
            meta = self._meta(folder)
            if meta is None:
                continue
            self._places[str(meta["model_id"])] = folder
            yield SourceLoggedModel(
                model_id=str(meta["model_id"]),
                name=str(meta.get("name") or ""),
                model_type=str(meta.get("model_type") or ""),
                source_run=str(meta.get("source_run_id") or ""),
                status=model_status(meta.get("status", 2)),
                status_message=str(meta.get("status_message") or ""),
                lifecycle=meta.get("lifecycle_stage") or "active",
                created_ms=meta.get("creation_timestamp") or 0,
                updated_ms=meta.get("last_updated_timestamp") or 0,
                artifact_uri=meta.get("artifact_location") or "",
                tags=_texts(folder / "tags"),
                params=_texts(folder / "params"),
                metrics=[
                    metric
                    for key, path in _named(folder / "metrics")
                    for metric in _model_metrics(key, path)
                ],
            )

    def models(self) -> Iterator[SourceModel]:
        """Yield registered models and prompts."""
        for folder in _folders(self._root / "models"):
            meta = self._meta(folder)
            if meta is None:
                continue
            created = meta.get("creation_timestamp") or 0
            yield SourceModel(
                name=str(meta["name"]),
                description=str(meta.get("description") or ""),
                created_ms=created,
                updated_ms=meta.get("last_updated_timestamp") or created,
                tags=_texts(folder / "tags"),
                aliases={key: int(value) for key, value in _texts(folder / "aliases").items()},
                versions=sorted(self._versions(folder), key=lambda one: int(one["version"])),
            )

    def _versions(self, folder: Path) -> Iterator[dict[str, Any]]:
        for place in _folders(folder):
            meta = self._meta(place) if place.name.startswith("version-") else None
            if meta is None:
                continue
            created = meta.get("creation_timestamp") or 0
            texts = present(
                (name, meta.get(key))
                for name, key in (
                    ("description", "description"),
                    ("user", "user_id"),
                    ("source", "source"),
                    ("run_id", "run_id"),
                    ("run_link", "run_link"),
                    ("model_id", "model_id"),
                    ("status", "status"),
                    ("status_message", "status_message"),
                    ("storage_location", "storage_location"),
                )
            )
            yield {
                **texts,
                "version": int(meta["version"]),
                "stage": str(meta.get("current_stage") or "None"),
                "created_ms": created,
                "updated_ms": meta.get("last_updated_timestamp") or created,
                "tags": _texts(place / "tags"),
            }

    # -- traces -----------------------------------------------------------------------------

    def traces(self, experiment: SourceExperiment) -> Iterator[SourceTrace]:
        """Yield the traces of an experiment."""
        for folder in _folders(self._places[experiment.source_id] / "traces"):
            meta = self._read(folder / "trace_info.yaml")
            if meta is None:
                continue
            tags = _texts(folder / "tags")
            metadata = _texts(folder / "request_metadata") | _texts(folder / "trace_metadata")
            info = _trace_info(meta, tags, metadata)
            self._places[info["trace_id"]] = folder
            yield SourceTrace(
                info=info,
                assessments=[
                    judged
                    for path in sorted((folder / "assessments").glob("*.yaml"))
                    if (judged := self._read(path)) is not None
                ],
                artifact_uri=tags.get(LOCATION_TAG) or str(folder / "artifacts"),
            )

    # -- the rest ---------------------------------------------------------------------------

    def files(self, uri: str, owner: str) -> Iterator[SourceFile]:
        """Yield files: those beside the records, wherever that folder is now, or by address."""
        beside = self._places[owner] / "artifacts"
        return local_files(beside) if beside.is_dir() else self._files.below(uri)

    def eval_datasets(self) -> Iterable[SourceEvalDataset]:
        """Yield nothing: a file store has none."""
        return ()

    def scorers(self) -> Iterable[SourceScorer]:
        """Yield nothing: a file store has none."""
        return ()

    def left_out(self) -> Iterable[tuple[str, int, str]]:
        """Yield what could not be read."""
        for path in self._broken:
            yield f"record {path}", 1, "its file is empty or damaged"

    def _meta(self, folder: Path) -> dict[str, Any] | None:
        return self._read(folder / _META)

    def _read(self, path: Path) -> dict[str, Any] | None:
        """Read a record; one that is damaged is told of and holds up no other."""
        try:
            found = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a safe loader
        except FileNotFoundError:
            return None
        except (yaml.YAMLError, OSError):
            found = None
        if not isinstance(found, dict):
            self._broken.append(str(path.relative_to(self._root)))
            return None
        return found


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(one for one in parent.iterdir() if one.is_dir() and one.name != ".trash")


def _named(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield files with their names, which hold slashes where metrics do."""
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _texts(folder: Path) -> dict[str, str]:
    return {key: path.read_text(errors="replace") for key, path in _named(folder)}


def _dataset(meta: dict[str, Any]) -> dict[str, Any]:
    texts = present((key, meta.get(key)) for key in ("name", "digest", "source_type", "source"))
    return {**texts, "schema": meta.get("schema"), "profile": meta.get("profile")}


def read_points(key: str, data: bytes) -> SourceSeries:
    """Read a metric's file: a line for each point, `time value step` and perhaps more."""
    words = data.split()
    lines = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
    if len(words) != 3 * lines:
        rows = [line.split() for line in data.splitlines() if line.strip()]
        words = [word for row in rows for word in (row[0], row[1], row[2] if row[2:] else b"0")]
    try:
        columns = np.array(words, dtype="S32").reshape(-1, 3) if words else np.empty((0, 3), "S32")
        return SourceSeries(
            key,
            columns[:, 2].astype(np.int64),
            columns[:, 0].astype(np.int64),
            columns[:, 1].astype(np.float64),
        )
    except ValueError as fault:
        raise CannotRead(f"the metric {key!r} cannot be read: {fault}") from fault


def _model_metrics(key: str, path: Path) -> Iterator[dict[str, Any]]:
    """Read a metric of a logged model: `time value step run`, perhaps with a data set."""
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        value = float(words[1])
        yield {
            "key": key,
            "time_ms": int(words[0]),
            "value": None if math.isnan(value) else value,
            "step": int(words[2]),
            "run_id": words[3],
            "dataset_name": words[4] if len(words) > 5 else None,
            "dataset_digest": words[5] if len(words) > 5 else None,
        }


def _trace_info(
    meta: dict[str, Any], tags: dict[str, str], metadata: dict[str, str]
) -> dict[str, Any]:
    if "trace_id" in meta:
        # MLflow 3 writes its own form, with a length of time in two spellings.
        info = {key: value for key, value in meta.items() if key != "trace_location"}
        length = info.pop("execution_duration_ms", None)
        if length is not None and "execution_duration" not in info:
            info["execution_duration"] = f"{length // 1000}.{length % 1000:03}s"
        return {**info, "tags": tags, "trace_metadata": metadata}
    return trace_info(
        str(meta["request_id"]),
        time_ms=meta["timestamp_ms"],
        duration_ms=meta.get("execution_time_ms"),
        state=str(meta.get("status", "")),
        tags=tags,
        metadata=metadata,
    )
