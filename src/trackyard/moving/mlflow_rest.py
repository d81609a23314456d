"""Reads a running MLflow server, 2.x or 3.x, by its REST API.

Owns which calls a release knows. What REST does not tell is told by the database alone: when a run
was deleted, and the numbers of deleted versions.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.storage_uri import scheme_of
from trackyard.moving.files import Files
from trackyard.moving.mlflow_forms import (
    LOCATION_TAG,
    SPANS_TAG,
    model_status,
    trace_info,
    wire_span,
)
from trackyard.moving.records import (
    CannotRead,
    LatestValue,
    SourceEvalDataset,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceScorer,
    SourceSeries,
    SourceTrace,
)

_PAGE, _HISTORY_PAGE = 1000, 25_000
_V2, _V3 = "/api/2.0/mlflow", "/api/3.0/mlflow"
_PROXY = "/api/2.0/mlflow-artifacts/artifacts"
_MODELS, _PROMPTS = {"max_results": 100}, "tags.`mlflow.prompt.is_prompt` = 'true'"
#: Histories read at once; a stock server has four workers.
_READERS = 4
#: What a server says to a call that its release does not know.
_UNKNOWN_CALL = frozenset((404, 405, 501))


def server_api(url: str, *, timeout: float = 120.0) -> Api:
    """Return a client of an MLflow server, with the credentials that MLflow's own client uses."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    if user:
        packed = base64.b64encode(f"{user}:{password}".encode()).decode()
        return Api(url, None, timeout=timeout, authorization=f"Basic {packed}")
    return Api(url, os.environ.get("MLFLOW_TRACKING_TOKEN"), timeout=timeout)


class MlflowServer:
    """A source of records: a running MLflow server."""

    def __init__(self, url: str, connect: Callable[[], Api] | None = None) -> None:
        self._connect = connect or partial(server_api, url)
        self._local = threading.local()
        self._files = Files(proxy=self)

    @property
    def _api(self) -> Api:
        """This thread's connection."""
        found: Api | None = getattr(self._local, "api", None)
        if found is None:
            found = self._local.api = self._connect()
        return found

    def _pages(
        self, name: str, method: str, path: str, arguments: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        token: str | None = None
        while True:
            asked = {**arguments, **({"page_token": token} if token else {})}
            how = self._api.get if method == "GET" else self._api.post
            page = how(path, asked)
            yield from page.get(name, [])
            token = page.get("next_page_token")
            if not token:
                return

    # -- experiments and runs -----------------------------------------------------------------

    def experiments(self) -> Iterator[SourceExperiment]:
        """Yield all experiments, deleted ones too."""
        asked = {"view_type": "ALL", "max_results": _PAGE}
        for one in self._pages("experiments", "POST", f"{_V2}/experiments/search", asked):
            yield SourceExperiment(
                source_id=one["experiment_id"],
                name=one["name"],
                created_ms=int(one.get("creation_time") or 0),
                updated_ms=int(one.get("last_update_time") or 0),
                lifecycle=one.get("lifecycle_stage", "active"),
                artifact_location=one.get("artifact_location", ""),
                tags=_pairs(one.get("tags")),
            )

    def runs(self, experiment: SourceExperiment) -> Iterator[SourceRun]:
        """Yield the runs of an experiment, deleted ones too."""
        asked = {
            "experiment_ids": [experiment.source_id],
            "run_view_type": "ALL",
            "max_results": _PAGE,
        }
        for one in self._pages("runs", "POST", f"{_V2}/runs/search", asked):
            yield _run(one)

    def points(self, run: SourceRun, keys: Collection[str]) -> Iterator[SourceSeries]:
        """Yield the points of some metrics of a run, several of them read at once."""
        with ThreadPoolExecutor(_READERS) as pool:
            yield from pool.map(partial(self._history, run.run_id), sorted(keys))

    def _history(self, run_id: str, key: str) -> SourceSeries:
        asked = {"run_id": run_id, "metric_key": key, "max_results": _HISTORY_PAGE}
        found = list(self._pages("metrics", "GET", f"{_V2}/metrics/get-history", asked))
        return SourceSeries(
            key,
            np.array([int(one.get("step") or 0) for one in found], np.int64),
            np.array([int(one["timestamp"]) for one in found], np.int64),
            np.array([float(one["value"]) for one in found], np.float64),
        )

    # -- models -----------------------------------------------------------------------------

    def logged_models(self, experiment: SourceExperiment) -> Iterator[SourceLoggedModel]:
        """Yield the logged models of an experiment; a 2.x server has none."""
        asked = {"experiment_ids": [experiment.source_id], "max_results": 50}
        try:
            for one in self._pages("models", "POST", f"{_V2}/logged-models/search", asked):
                yield _logged(one)
        except ApiFault as fault:
            if fault.status not in _UNKNOWN_CALL:
                raise

    def models(self) -> Iterator[SourceModel]:
        """Yield registered models and prompts."""
        for one in self._registered():
            created = int(one.get("creation_timestamp") or 0)
            # A search by name leaves no version out, the model's own answer all but the latest.
            quoted = one["name"].replace("'", "\\'")
            tags = _pairs(one.get("tags"))
            is_prompt = tags.get("mlflow.prompt.is_prompt") == "true"
            chosen = f"name='{quoted}'" + (f" AND {_PROMPTS}" if is_prompt else "")
            versions = self._pages(
                "model_versions",
                "GET",
                f"{_V2}/model-versions/search",
                {"filter": chosen, "max_results": _PAGE},
            )
            yield SourceModel(
                name=one["name"],
                description=one.get("description", ""),
                created_ms=created,
                updated_ms=int(one.get("last_updated_timestamp") or created),
                tags=tags,
                aliases={
                    alias["alias"]: int(alias["version"]) for alias in one.get("aliases", [])
                },
                versions=sorted(map(_version, versions), key=lambda found: int(found["version"])),
            )

    def _registered(self) -> Iterator[dict[str, Any]]:
        """Yield models and then prompts, which some servers leave out unless asked for."""
        path, seen = f"{_V2}/registered-models/search", set[str]()
        for wanted in ({}, {"filter": _PROMPTS}):
            try:
                for one in self._pages("registered_models", "GET", path, {**wanted, **_MODELS}):
                    if one["name"] not in seen:
                        seen.add(one["name"])
                        yield one
            except ApiFault:
                if not wanted:
                    raise

    # -- traces -----------------------------------------------------------------------------

    def traces(self, experiment: SourceExperiment) -> Iterator[SourceTrace]:
        """Yield the traces of an experiment."""
        place = {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": experiment.source_id},
        }
        asked: dict[str, Any] = {"locations": [place], "max_results": 500}
        try:
            for one in self._pages("traces", "POST", f"{_V3}/traces/search", asked):
                yield self._trace(one)
        except ApiFault as fault:
            if fault.status not in _UNKNOWN_CALL:
                raise
            yield from self._old_traces(experiment)

    def _trace(self, info: dict[str, Any]) -> SourceTrace:
        tags = info.get("tags") or {}
        kept = {
            key: value
            for key, value in info.items()
            if key not in ("trace_location", "assessments", "request", "response")
        }
        kept.setdefault("tags", {})
        kept.setdefault("trace_metadata", {})
        spans: list[dict[str, Any]] = []
        if SPANS_TAG in tags:
            whole = self._api.get(f"{_V3}/traces/get", {"trace_id": info["trace_id"]})
            spans = [wire_span(span) for span in whole["trace"].get("spans", [])]
        return SourceTrace(
            info=kept,
            spans=spans,
            assessments=info.get("assessments") or [],
            artifact_uri="" if spans else tags.get(LOCATION_TAG, ""),
        )

    def _old_traces(self, experiment: SourceExperiment) -> Iterator[SourceTrace]:
        asked = {"experiment_ids": experiment.source_id, "max_results": 500}
        try:
            for one in self._pages("traces", "GET", f"{_V2}/traces", asked):
                tags = _pairs(one.get("tags"))
                yield SourceTrace(
                    info=trace_info(
                        one["request_id"],
                        time_ms=int(one["timestamp_ms"]),
                        duration_ms=int(one.get("execution_time_ms") or 0),
                        state=one.get("status", ""),
                        tags=tags,
                        metadata=_pairs(one.get("request_metadata")),
                    ),
                    artifact_uri=tags.get(LOCATION_TAG, ""),
                )
        except ApiFault as fault:
            # 2.x with a file store fails on the traces of a deleted experiment.
            if fault.status not in _UNKNOWN_CALL and experiment.lifecycle == "active":
                raise CannotRead(f"the old server does not list them: {fault}") from fault

    # -- what is evaluated ------------------------------------------------------------------

    def eval_datasets(self) -> Iterator[SourceEvalDataset]:
        """Yield the evaluation data sets; a server that knows none has none."""
        path = f"{_V3}/datasets"
        try:
            found = list(self._pages("datasets", "POST", f"{path}/search", {"max_results": 1000}))
        except ApiFault as fault:
            if fault.status not in _UNKNOWN_CALL:
                raise
            return
        for one in found:
            own = f"{path}/{quote(one['dataset_id'])}"
            yield SourceEvalDataset(
                name=one["name"],
                experiments=self._api.get(f"{own}/experiment-ids").get("experiment_ids", []),
                tags=json.loads(one.get("tags") or "{}"),
                records=list(self._records(f"{own}/records")),
            )

    def _records(self, path: str) -> Iterator[dict[str, Any]]:
        query: dict[str, Any] = {"max_results": 1000}
        while True:
            page = self._api.get(path, query)
            yield from json.loads(page.get("records") or "[]")
            if not page.get("next_page_token"):
                return
            query["page_token"] = page["next_page_token"]

    def scorers(self) -> Iterator[SourceScorer]:
        """Yield the scorers of active experiments."""
        for experiment in self.experiments():
            if experiment.lifecycle != "active":
                continue
            asked = {"experiment_id": experiment.source_id}
            try:
                found = self._api.get(f"{_V3}/scorers/list", asked).get("scorers", [])
            except ApiFault as fault:
                if fault.status not in _UNKNOWN_CALL:
                    raise
                return
            for one in found:
                name = one["scorer_name"]
                several = self._api.get(f"{_V3}/scorers/versions", {**asked, "name": name})
                versions = sorted(several["scorers"], key=itemgetter("scorer_version"))
                yield SourceScorer(
                    experiment=experiment.source_id,
                    name=name,
                    versions=[version["serialized_scorer"] for version in versions],
                )

    # -- files ------------------------------------------------------------------------------

    def files(self, uri: str, owner: str) -> Iterator[SourceFile]:
        """Yield files as the server hands them out, wherever it keeps them."""
        if scheme_of(uri) == "mlflow-artifacts" or owner.startswith("m-"):
            return self._files.below(uri)
        if owner.startswith("tr-"):
            return self._trace_file(owner)
        return self._listed(owner, "")

    def _listed(self, run_id: str, folder: str) -> Iterator[SourceFile]:
        asked = {"run_id": run_id, **({"path": folder} if folder else {})}
        for one in self._pages("files", "GET", f"{_V2}/artifacts/list", asked):
            if one.get("is_dir"):
                yield from self._listed(run_id, one["path"])
                continue
            query = urlencode({"path": one["path"], "run_uuid": run_id})
            yield SourceFile(
                path=one["path"],
                size=int(one.get("file_size") or 0),
                changed_ms=None,
                read=partial(self._download, f"/get-artifact?{query}"),
            )

    def _trace_file(self, trace_id: str) -> Iterator[SourceFile]:
        """Yield the file of a trace; MLflow 2 knows it without the prefix of its id."""
        query = urlencode({"request_id": trace_id})
        plain = urlencode({"request_id": trace_id.removeprefix("tr-")})
        base = "/ajax-api/2.0/mlflow/get-trace-artifact?"
        yield SourceFile(
            path="traces.json",
            size=None,
            changed_ms=None,
            read=partial(self._download, base + query, base + plain),
        )

    def proxied(self, path: str) -> Iterator[SourceFile]:
        """Yield the files below a path of the server's artifact store."""
        yield from self._proxied(path, "")

    def _proxied(self, root: str, folder: str) -> Iterator[SourceFile]:
        at = f"{root}/{folder}".rstrip("/")
        try:
            found = self._api.get(_PROXY, {"path": at}).get("files", [])
        except ApiFault as fault:
            raise CannotRead(f"the old server does not list {at}: {fault}") from fault
        for one in found:
            path = f"{folder}/{one['path']}".lstrip("/")
            if one.get("is_dir"):
                yield from self._proxied(root, path)
                continue
            yield SourceFile(
                path=path,
                size=int(one.get("file_size") or 0),
                changed_ms=None,
                read=partial(self._download, f"{_PROXY}/{quote(f'{root}/{path}')}"),
            )

    def _download(self, *paths: str) -> Iterator[bytes]:
        """Yield the bytes at the first of some paths that has any."""
        for at, path in enumerate(paths):
            try:
                yield from self._api.download(path)
            except ApiFault as fault:
                if at == len(paths) - 1:
                    raise CannotRead(f"the old server does not give it out: {fault}") from fault
            except Unreachable as fault:
                raise CannotRead(str(fault)) from fault
            else:
                return

    def left_out(self) -> Iterable[tuple[str, int, str]]:
        """Yield nothing: what else a server holds, its REST API does not count."""
        return ()


def _pairs(found: list[dict[str, Any]] | None) -> dict[str, str]:
    return {one["key"]: one.get("value", "") for one in found or []}


def _run(found: dict[str, Any]) -> SourceRun:
    info, data = found["info"], found.get("data", {})
    inputs, outputs = found.get("inputs") or {}, found.get("outputs") or {}
    end = info.get("end_time")
    return SourceRun(
        run_id=info.get("run_id") or info["run_uuid"],
        name=info.get("run_name", ""),
        user=info.get("user_id", ""),
        status=info.get("status", "FINISHED"),
        start_ms=int(info["start_time"]) if info.get("start_time") is not None else None,
        end_ms=int(end) if end is not None else None,
        lifecycle=info.get("lifecycle_stage", "active"),
        artifact_uri=info.get("artifact_uri", ""),
        params=_pairs(data.get("params")),
        tags=_pairs(data.get("tags")),
        datasets=[
            {**one["dataset"], "tags": _pairs(one.get("tags"))}
            for one in inputs.get("dataset_inputs", [])
        ],
        models=[
            {
                "model_id": one["model_id"],
                "direction": direction,
                "step": int(one.get("step") or 0),
            }
            for direction, several in (
                ("input", inputs.get("model_inputs", [])),
                ("output", outputs.get("model_outputs", [])),
            )
            for one in several
        ],
        latest={
            one["key"]: LatestValue(
                int(one.get("step") or 0), int(one["timestamp"]), _number(one["value"])
            )
            for one in data.get("metrics", [])
        },
    )


def _number(value: Any) -> float | None:
    number = float(value)
    return None if number != number else number  # noqa: PLR0124 - NaN alone differs from itself


def _logged(found: dict[str, Any]) -> SourceLoggedModel:
    info, data = found["info"], found.get("data", {})
    return SourceLoggedModel(
        model_id=info["model_id"],
        name=info.get("name", ""),
        model_type=info.get("model_type", ""),
        source_run=info.get("source_run_id", ""),
        status=model_status(info.get("status", "READY")),
        status_message=info.get("status_message", ""),
        created_ms=int(info.get("creation_timestamp_ms") or 0),
        updated_ms=int(info.get("last_updated_timestamp_ms") or 0),
        artifact_uri=info.get("artifact_uri", ""),
        tags=_pairs(info.get("tags")),
        params=_pairs(data.get("params")),
        metrics=[
            {
                "key": one["key"],
                "value": _number(one["value"]),
                "time_ms": int(one["timestamp"]),
                "step": int(one.get("step") or 0),
                "run_id": one.get("run_id", ""),
                "dataset_name": one.get("dataset_name"),
                "dataset_digest": one.get("dataset_digest"),
            }
            for one in data.get("metrics", [])
        ],
    )


def _version(found: dict[str, Any]) -> dict[str, Any]:
    created = int(found.get("creation_timestamp") or 0)
    return {
        "version": int(found["version"]),
        "created_ms": created,
        "updated_ms": int(found.get("last_updated_timestamp") or created),
        "description": found.get("description", ""),
        "user": found.get("user_id", ""),
        "stage": found.get("current_stage") or "None",
        "source": found.get("source", ""),
        "run_id": found.get("run_id", ""),
        "run_link": found.get("run_link", ""),
        "model_id": found.get("model_id", ""),
        "status": found.get("status", "READY"),
        "status_message": found.get("status_message", ""),
        "storage_location": "",
        "tags": _pairs(found.get("tags")),
    }
