"""Sends everything a server holds to a running MLflow server by its REST API.

MLflow gives out ids of its own, so the old ones stay as tags, by which a later pass finds what is
there. Owns the calls; the report says what has no call in REST.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import quote

from trackyard.client.api import Api, ApiFault
from trackyard.core.storage_uri import scheme_of
from trackyard.moving.evaluation import EvaluationSender
from trackyard.moving.mlflow_rest import server_api
from trackyard.moving.mlflow_send_traces import TraceSender
from trackyard.moving.mlflow_write import DELETED_STAGE
from trackyard.moving.records import (
    CannotRead,
    RecordSource,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceSeries,
    batches,
)
from trackyard.moving.report import ImportReport
from trackyard.moving.transfer import TransferProgress

RUN_TAG = "trackyard.source.run_id"
EXPERIMENT_TAG = "trackyard.source.experiment_id"
MODEL_TAG = "trackyard.source.model_id"
_POINTS, _PAIRS = 1000, 100
_OCTETS = {"Content-Type": "application/octet-stream"}


class MlflowSender:
    """One pass from a source to a running MLflow server."""

    def __init__(
        self, source: RecordSource, url: str, report: ImportReport, progress: TransferProgress
    ) -> None:
        self._source = source
        self._api: Api = server_api(url)
        self._report = report
        self._progress = progress
        #: old id of a run or logged model -> its id there, and where its files are there
        self._ids: dict[str, tuple[str, str]] = {}
        #: active experiment's old id -> its id there
        self._experiments: dict[str, str] = {}
        self._traces = TraceSender(source, self._api, report, self._ids)
        self._has_files = True

    def run(self, *, experiments: Collection[str] = (), has_files: bool = True) -> None:
        """Send all experiments, or some without the registry."""
        self._has_files = has_files
        self._report.note(
            "runs", "all", f"MLflow gives out new ids; the tag {RUN_TAG} has the old"
        )
        for one in self._source.experiments():
            if experiments and one.name not in experiments and one.source_id not in experiments:
                continue
            self._progress.doing(f"experiment {one.name}")
            self._experiment(one)
        sender = EvaluationSender(self._source, self._api, self._report, self._experiments)
        sender.send(is_whole=not experiments)
        if experiments:
            return
        for model in self._source.models():
            self._model(model)

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        given = {key: value for key, value in arguments.items() if value is not None}
        answer: dict[str, Any] = self._api.mlflow(method, path, given)
        return answer

    # -- experiments and runs -----------------------------------------------------------------

    def _experiment(self, one: SourceExperiment) -> None:
        there, is_new = self._find_experiment(one)
        self._did("experiments", is_new=is_new)
        if one.lifecycle == "active":
            self._experiments[one.source_id] = there
        known = self._known_runs(there)
        links: list[tuple[str, SourceRun]] = []
        for run in self._source.runs(one):
            made = known.get(run.run_id)
            if made is not None and made["status"] == run.status:
                self._ids[run.run_id] = (made["run_id"], made["artifact_uri"])
                self._did("runs", is_new=False)
                continue
            links.append((self._run(there, run, made), run))
        for model in self._source.logged_models(one):
            self._logged(there, model)
        for new_id, run in links:
            self._finish(new_id, run)
        for trace in self._source.traces(one):
            was_sent = self._traces.send(there, trace)
            if was_sent is not None:
                self._did("traces", is_new=was_sent)
        if one.lifecycle == "deleted" and is_new:
            self._call("POST", "experiments/delete", experiment_id=there)

    def _find_experiment(self, one: SourceExperiment) -> tuple[str, bool]:
        """Return an experiment's id there, and whether it was made now."""
        try:
            found = self._call("GET", "experiments/get-by-name", experiment_name=one.name)
            return str(found["experiment"]["experiment_id"]), False
        except ApiFault as fault:
            if fault.status != 404:
                raise
        tags = _pairs({**one.tags, EXPERIMENT_TAG: one.source_id})
        made = self._call("POST", "experiments/create", name=one.name, tags=tags)
        return str(made["experiment_id"]), True

    def _known_runs(self, experiment: str) -> dict[str, dict[str, Any]]:
        """Return the runs that an earlier pass sent, by their old ids."""
        found: dict[str, dict[str, Any]] = {}
        token: str | None = None
        while True:
            page = self._call(
                "POST",
                "runs/search",
                experiment_ids=[experiment],
                run_view_type="ALL",
                max_results=1000,
                page_token=token,
            )
            for run in page.get("runs", []):
                tags = {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}
                if RUN_TAG in tags:
                    found[tags[RUN_TAG]] = run["info"]
            token = page.get("next_page_token")
            if not token:
                return found

    def _run(self, experiment: str, run: SourceRun, made: dict[str, Any] | None) -> str:
        """Send a run with its parameters, points and files; it stays open until `_finish`."""
        if made is None:
            answer = self._call(
                "POST",
                "runs/create",
                experiment_id=experiment,
                user_id=run.user,
                run_name=run.name or None,
                start_time=run.start_ms,
                tags=_pairs({**run.tags, RUN_TAG: run.run_id}),
            )
            made = answer["run"]["info"]
            self._did("runs", is_new=True)
        else:
            self._report.count("runs", "updated")
        new_id = str(made["run_id"])
        self._ids[run.run_id] = (new_id, made["artifact_uri"])
        for params in batches(_pairs(run.params), _PAIRS):
            self._call("POST", "runs/log-batch", run_id=new_id, params=params)
        for series in self._source.points(run, run.latest) if run.latest else ():
            for points in batches(_points(series), _POINTS):
                self._call("POST", "runs/log-batch", run_id=new_id, metrics=points)
                self._report.count("points", "created", len(points))
        if run.datasets:
            self._call("POST", "runs/log-inputs", run_id=new_id, datasets=_datasets(run))
        self._files(run.run_id, run.artifact_uri)
        return new_id

    def _finish(self, new_id: str, run: SourceRun) -> None:
        """Link the models of a run, and end or delete it as it is here."""
        outputs = [
            {"model_id": self._ids[link["model_id"]][0], "step": link.get("step") or 0}
            for link in run.models
            if link["direction"] == "output" and link["model_id"] in self._ids
        ]
        if outputs:
            self._call("POST", "runs/outputs", run_id=new_id, models=outputs)
        if run.status != "RUNNING" or run.end_ms is not None:
            self._call(
                "POST", "runs/update", run_id=new_id, status=run.status, end_time=run.end_ms
            )
        if run.lifecycle == "deleted":
            self._call("POST", "runs/delete", run_id=new_id)

    def _did(self, kind: str, *, is_new: bool) -> None:
        self._report.count(kind, "created" if is_new else "unchanged")
        self._progress.did(kind)

    # -- models -------------------------------------------------------------------------------

    def _logged(self, experiment: str, model: SourceLoggedModel) -> None:
        found = self._call(
            "POST",
            "logged-models/search",
            experiment_ids=[experiment],
            filter=f"tags.`{MODEL_TAG}` = '{model.model_id}'",
        )
        if found.get("models"):
            info = found["models"][0]["info"]
            self._ids[model.model_id] = (info["model_id"], info["artifact_uri"])
            self._did("logged models", is_new=False)
            return
        source_run = self._ids.get(model.source_run, ("", ""))[0]
        answer = self._call(
            "POST",
            "logged-models",
            experiment_id=experiment,
            name=model.name,
            model_type=model.model_type or None,
            source_run_id=source_run or None,
            params=_pairs(model.params),
            tags=_pairs({**model.tags, MODEL_TAG: model.model_id}),
        )
        info = answer["model"]["info"]
        self._ids[model.model_id] = (info["model_id"], info["artifact_uri"])
        self._did("logged models", is_new=True)
        for one in model.metrics:
            if one["run_id"] in self._ids:
                self._call("POST", "runs/log-batch", **self._model_metric(info["model_id"], one))
        self._files(model.model_id, model.artifact_uri)
        status = f"LOGGED_MODEL_{model.status}"
        self._call(
            "PATCH", f"logged-models/{info['model_id']}", model_id=info["model_id"], status=status
        )

    def _model_metric(self, model_id: str, one: dict[str, Any]) -> dict[str, Any]:
        metric = {
            "key": one["key"],
            "value": "NaN" if one["value"] is None else one["value"],
            "timestamp": one["time_ms"],
            "step": one["step"],
            "model_id": model_id,
            "dataset_name": one.get("dataset_name"),
            "dataset_digest": one.get("dataset_digest"),
        }
        kept = {key: value for key, value in metric.items() if value is not None}
        return {"run_id": self._ids[one["run_id"]][0], "metrics": [kept]}

    def _model(self, model: SourceModel) -> None:
        try:
            self._call("GET", "registered-models/get", name=model.name)
            self._did("models", is_new=False)
            return
        except ApiFault as fault:
            if fault.status != 404:
                raise
        self._call(
            "POST",
            "registered-models/create",
            name=model.name,
            description=model.description or None,
            tags=_pairs(model.tags),
        )
        self._did("models", is_new=True)
        for version in model.versions:
            try:
                self._version(model.name, version)
            except ApiFault as fault:
                number = f"{model.name}/{version['version']}"
                self._report.miss("versions", number, f"MLflow refuses it: {fault}")
        for alias, aliased in model.aliases.items():
            named = {"name": model.name, "alias": alias, "version": str(aliased)}
            self._call("POST", "registered-models/alias", **named)

    def _version(self, name: str, version: dict[str, Any]) -> None:
        """Send a version; one that was deleted is made and deleted, so that numbers stay."""
        is_deleted = version["stage"] == DELETED_STAGE
        run_id = self._ids.get(version.get("run_id") or "", ("", ""))[0]
        model_id = self._ids.get(version.get("model_id") or "", ("", ""))[0]
        source = "s3://deleted/deleted" if is_deleted else self._moved(version["source"])
        # A logged model as a source has to be named a second time.
        model_id = model_id or (source[8:] if source.startswith("models:/m-") else "")
        made = self._call(
            "POST",
            "model-versions/create",
            name=name,
            source=source,
            run_id=run_id or None,
            model_id=model_id or None,
            description=version.get("description") or None,
            tags=_pairs(version.get("tags") or {}),
        )["model_version"]
        if is_deleted:
            self._call("DELETE", "model-versions/delete", name=name, version=made["version"])
        elif version["stage"] != "None":
            self._call(
                "POST",
                "model-versions/transition-stage",
                name=name,
                version=made["version"],
                stage=version["stage"],
                archive_existing_versions=False,
            )

    def _moved(self, uri: str) -> str:
        """Return a source with the ids that runs and models have there."""
        for old, (new, place) in self._ids.items():
            if old not in uri:
                continue
            if uri.startswith("mlflow-artifacts:/"):
                return place + uri.partition(f"{old}/artifacts")[2]
            return uri.replace(old, new)
        return uri

    # -- files --------------------------------------------------------------------------------

    def _files(self, owner: str, uri: str) -> None:
        if not self._has_files or not uri:
            return
        _, place = self._ids[owner]
        if scheme_of(uri) != "mlflow-artifacts":
            self._report.note("files", owner, f"they stay at {uri[:200]}, which holds them")
            return
        if scheme_of(place) != "mlflow-artifacts":
            why = f"the MLflow server keeps files at {place[:200]}, out of reach of its REST API"
            self._report.miss("files", owner, why)
            return
        root = place.removeprefix("mlflow-artifacts:/").strip("/")
        try:
            for file in self._source.files(uri, owner):
                self._upload(f"{root}/{file.path}", file)
        except CannotRead as fault:
            self._report.miss("files", owner, str(fault))

    def _upload(self, path: str, file: SourceFile) -> None:
        with tempfile.TemporaryFile() as spool:
            size = 0
            for piece in file.read():
                size += len(piece)
                spool.write(piece)
            spool.seek(0)
            where = f"/api/2.0/mlflow-artifacts/artifacts/{quote(path)}"
            self._api.send("PUT", where, spool, headers=_OCTETS, length=size)
        self._report.copied(size)
        self._did("files", is_new=True)


def _pairs(found: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in found.items()]


def _points(series: SourceSeries) -> Iterator[dict[str, Any]]:
    columns = (series.steps.tolist(), series.times.tolist(), series.values.tolist())
    for step, time_ms, value in zip(*columns, strict=True):
        shown = value if value == value else "NaN"  # noqa: PLR0124 - NaN alone differs
        yield {"key": series.key, "value": shown, "timestamp": time_ms, "step": step}


def _datasets(run: SourceRun) -> list[dict[str, Any]]:
    return [
        {
            "dataset": {k: v for k, v in one.items() if k != "tags" and v is not None},
            "tags": _pairs(one.get("tags") or {}),
        }
        for one in run.datasets
    ]
