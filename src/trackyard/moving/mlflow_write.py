"""Writes MLflow's file store, the folder `mlruns`, as MLflow 3 reads it. Knows no server.

Names of tags, parameters and metrics become paths, as MLflow makes them; one that would lead out
of its folder is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from trackyard.core.errors import SetupError
from trackyard.core.span_file import file_span
from trackyard.moving.mlflow_forms import (
    LOCATION_TAG,
    MODEL_STATUSES,
    RUN_STATUSES,
    SPANS_TAG,
)
from trackyard.moving.records import (
    CannotRead,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceSeries,
    SourceTrace,
)

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_STATUS_NUMBERS = {name: number for number, name in RUN_STATUSES.items()}
_MODEL_NUMBERS = {name: number for number, name in MODEL_STATUSES.items() if number}
_LOCAL = 4
DELETED_STAGE = "Deleted_Internal"


class MlflowFolderWriter:
    """A file store of MLflow that is being written."""

    def __init__(self, root: Path) -> None:
        try:
            root.mkdir(parents=True, exist_ok=True)
            is_used = any(root.iterdir())
        except OSError as fault:
            raise SetupError(f"cannot write to {root}: {fault.strerror}") from fault
        if is_used:
            raise SetupError(f"{root} is not empty", hint="name a new folder")
        self._root = root.resolve()
        (self._root / ".trash").mkdir()
        (self._root / "models").mkdir()
        self._places: dict[str, Path] = {}

    def experiment(self, one: SourceExperiment) -> None:
        """Write an experiment."""
        parent = self._root if one.lifecycle == "active" else self._root / ".trash"
        folder = parent / one.source_id
        self._places[one.source_id] = folder
        _write_meta(
            folder,
            {
                "artifact_location": folder.as_uri(),
                "creation_time": one.created_ms,
                "experiment_id": one.source_id,
                "last_update_time": one.updated_ms,
                "lifecycle_stage": one.lifecycle,
                "name": one.name,
            },
        )
        _write_texts(folder / "tags", one.tags)

    def run(self, experiment: SourceExperiment, run: SourceRun) -> None:
        """Write a run without its points and files."""
        folder = self._places[experiment.source_id] / run.run_id
        self._places[run.run_id] = folder
        _write_meta(
            folder,
            {
                "artifact_uri": (folder / "artifacts").as_uri(),
                "deleted_time": run.deleted_ms,
                "end_time": run.end_ms,
                "entry_point_name": "",
                "experiment_id": experiment.source_id,
                "lifecycle_stage": run.lifecycle,
                "run_id": run.run_id,
                "run_name": run.name,
                "run_uuid": run.run_id,
                "source_name": "",
                "source_type": _LOCAL,
                "source_version": "",
                "start_time": run.start_ms,
                "status": _STATUS_NUMBERS[run.status],
                "tags": [],
                "user_id": run.user,
            },
        )
        for name in ("metrics", "params", "tags", "artifacts"):
            (folder / name).mkdir(exist_ok=True)
        _write_texts(folder / "params", run.params)
        _write_texts(folder / "tags", run.tags)
        for dataset in run.datasets:
            self._dataset(folder, dataset)
        for link in run.models:
            self._link(folder, link)

    def _dataset(self, folder: Path, dataset: dict[str, Any]) -> None:
        facts = {key: value for key, value in dataset.items() if key != "tags"}
        known = _digest(f"{dataset['name']}:{dataset['digest']}")
        _write_meta(folder.parent / "datasets" / known, facts)
        _write_meta(
            folder / "inputs" / _digest(f"{folder.name}:{known}"),
            {
                "destination_id": known,
                "destination_type": "RUN",
                "source_id": known,
                "source_type": "DATASET",
                "tags": dataset.get("tags") or {},
            },
        )

    def _link(self, folder: Path, link: dict[str, Any]) -> None:
        model, is_input = link["model_id"], link["direction"] == "input"
        meta: dict[str, Any] = {
            "destination_id": model,
            "destination_type": "RUN" if is_input else "MODEL_OUTPUT",
            "source_id": model,
            "source_type": "MODEL" if is_input else "RUN_OUTPUT",
            "tags": {},
        }
        if not is_input:
            meta["step"] = link.get("step") or 0
        kind = "inputs" if is_input else "outputs"
        _write_meta(
            folder / kind / (_digest(f"{folder.name}:{model}") if is_input else model), meta
        )

    def points(self, run: SourceRun, series: SourceSeries) -> None:
        """Append points to a metric of a run."""
        lines = (
            f"{time_ms} {value!r} {step}\n"
            for step, time_ms, value in zip(
                series.steps.tolist(), series.times.tolist(), series.values.tolist(), strict=True
            )
        )
        path = _inside(self._places[run.run_id] / "metrics", series.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(lines)

    # -- models -----------------------------------------------------------------------------

    def logged_model(self, experiment: SourceExperiment, model: SourceLoggedModel) -> None:
        """Write a logged model without its files."""
        folder = self._places[experiment.source_id] / "models" / model.model_id
        self._places[model.model_id] = folder
        _write_meta(
            folder,
            {
                "artifact_location": (folder / "artifacts").as_uri(),
                "creation_timestamp": model.created_ms,
                "experiment_id": experiment.source_id,
                "last_updated_timestamp": model.updated_ms,
                "lifecycle_stage": model.lifecycle,
                "model_id": model.model_id,
                "model_type": model.model_type or None,
                "name": model.name,
                "source_run_id": model.source_run or None,
                "status": _MODEL_NUMBERS[model.status],
                "status_message": model.status_message or None,
            },
        )
        for name in ("metrics", "params", "tags", "artifacts"):
            (folder / name).mkdir(exist_ok=True)
        _write_texts(folder / "params", model.params)
        _write_texts(folder / "tags", model.tags)
        for one in model.metrics:
            path = _inside(folder / "metrics", one["key"])
            path.parent.mkdir(parents=True, exist_ok=True)
            value = math.nan if one["value"] is None else one["value"]
            words = [one["time_ms"], repr(value), one["step"], one["run_id"]]
            if one.get("dataset_name"):
                words += [one["dataset_name"], one.get("dataset_digest")]
            with path.open("a") as file:
                file.write(" ".join(map(str, words)) + "\n")

    def model(self, model: SourceModel) -> None:
        """Write a registered model or prompt with its versions."""
        folder = _inside(self._root / "models", model.name)
        _write_meta(
            folder,
            {
                "aliases": {key: str(value) for key, value in model.aliases.items()},
                "creation_timestamp": model.created_ms,
                "description": model.description or None,
                "last_updated_timestamp": model.updated_ms,
                "name": model.name,
            },
        )
        _write_texts(folder / "tags", model.tags)
        _write_texts(folder / "aliases", {key: str(one) for key, one in model.aliases.items()})
        for version in model.versions:
            place = folder / f"version-{version['version']}"
            _write_meta(place, self._version(model.name, version))
            _write_texts(place / "tags", version.get("tags") or {})

    def _version(self, name: str, version: dict[str, Any]) -> dict[str, Any]:
        source = self.moved(version.get("source", ""))
        return {
            "creation_timestamp": version["created_ms"],
            "current_stage": version["stage"],
            "description": version.get("description") or None,
            "last_updated_timestamp": version["updated_ms"],
            "model_id": version.get("model_id") or None,
            "name": name,
            "run_id": version.get("run_id") or None,
            "run_link": version.get("run_link") or None,
            "source": source,
            "status": version.get("status") or "READY",
            "status_message": version.get("status_message") or None,
            "storage_location": source,
            "user_id": version.get("user") or None,
            "version": version["version"],
        }

    def moved(self, uri: str) -> str:
        """Return an address of the server's store as the place of its files in this folder."""
        if not uri.startswith("mlflow-artifacts:/"):
            return uri
        pieces = uri.removeprefix("mlflow-artifacts:/").strip("/").split("/")
        rest = pieces[2:] if pieces[1:2] == ["models"] else pieces[1:]
        if rest and rest[0] in self._places:
            return str(self._places[rest[0]].joinpath(*rest[1:]))
        return uri

    # -- traces and files ---------------------------------------------------------------------

    def trace(self, experiment: SourceExperiment, trace: SourceTrace) -> None:
        """Write a trace; its spans, where the source has them as rows, become its file."""
        info = dict(trace.info)
        trace_id = info["trace_id"]
        folder = self._places[experiment.source_id] / "traces" / trace_id
        self._places[trace_id] = folder
        tags = {key: value for key, value in info.pop("tags").items() if key != SPANS_TAG}
        metadata = info.pop("trace_metadata")
        if "execution_duration" in info:
            seconds = float(info.pop("execution_duration").removesuffix("s"))
            info["execution_duration_ms"] = round(seconds * 1000)
        info["trace_location"] = {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": experiment.source_id},
        }
        _write_yaml(folder / "trace_info.yaml", info)
        _write_texts(folder / "tags", {**tags, LOCATION_TAG: (folder / "artifacts").as_uri()})
        _write_texts(folder / "request_metadata", metadata)
        for one in trace.assessments:
            name = f"{one['assessment_id']}.yaml"
            _write_yaml(_inside(folder / "assessments", name), one)
        if trace.spans:
            spans = [file_span(one["data"]) for one in trace.spans]
            (folder / "artifacts").mkdir()
            (folder / "artifacts" / "traces.json").write_text(json.dumps({"spans": spans}))

    def file(self, owner: str, file: SourceFile) -> tuple[int, str]:
        """Write a file of a run, logged model or trace; return its size and SHA-256."""
        path = _inside(self._places[owner] / "artifacts", file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        sha256, size = hashlib.sha256(), 0
        with path.open("wb") as out:
            for piece in file.read():
                sha256.update(piece)
                size += len(piece)
                out.write(piece)
        return size, sha256.hexdigest()


def _digest(text: str) -> str:
    """Return an id for what has none; the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a name below a folder, or refuse one that leads out of it."""
    path = Path(os.path.normpath(folder / name))
    if not path.is_relative_to(folder) or path == folder or "\0" in name:
        raise CannotRead(f"the name {name[:80]!r} cannot be that of a file")
    return path


def _write_meta(folder: Path, data: dict[str, Any]) -> None:
    _write_yaml(folder / "meta.yaml", data)


def _write_yaml(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.dump(data, Dumper=_Dumper, default_flow_style=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")


def _write_texts(folder: Path, pairs: dict[str, str]) -> None:
    for key, value in pairs.items():
        path = _inside(folder, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Newlines stay as they are on every system.
        path.write_bytes(value.encode())


def tombstones(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Return deleted versions, which keep their numbers from being given out again."""
    return [
        {"version": number, "created_ms": 0, "updated_ms": 0, "stage": DELETED_STAGE}
        for number in numbers
    ]
