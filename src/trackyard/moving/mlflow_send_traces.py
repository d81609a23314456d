"""Sends traces to a running MLflow server of 3.x, which lets them keep their ids.

MLflow's REST API takes what is known of a trace; its spans go beside it as the file `traces.json`,
from which clients and pages read them. Owns the calls; `mlflow_send` says which traces.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from trackyard.client.api import Api, ApiFault
from trackyard.core.span_file import file_span
from trackyard.core.storage_uri import scheme_of
from trackyard.moving.mlflow_forms import LOCATION_TAG, SPANS_TAG
from trackyard.moving.records import CannotRead, RecordSource, SourceTrace
from trackyard.moving.report import ImportReport

_V3 = "/api/3.0/mlflow/traces"
_JSON = {"Content-Type": "application/json"}
_OCTETS = {"Content-Type": "application/octet-stream"}
#: Metadata that names a run or a logged model.
_NAMES_AN_ID = ("mlflow.sourceRun", "mlflow.modelId")


class TraceSender:
    """Sends the traces of a source to one server."""

    def __init__(
        self,
        source: RecordSource,
        api: Api,
        report: ImportReport,
        ids: Mapping[str, tuple[str, str]],
    ) -> None:
        self._source = source
        self._api = api
        self._report = report
        #: old id of a run or logged model -> its id there, and where its files are there
        self._ids = ids

    def send(self, experiment: str, trace: SourceTrace) -> bool | None:
        """Send a trace that is not there; return whether it was sent, None if it cannot be."""
        trace_id = trace.info["trace_id"]
        try:
            known = self._there(trace_id)
            made = known or self._start(experiment, trace)
            self._spans(trace_id, made, trace, is_new=known is None)
            for run in trace.runs:
                if known is None and run in self._ids:
                    body = {"trace_ids": [trace_id], "run_id": self._ids[run][0]}
                    self._post("/api/2.0/mlflow/traces/link-to-run", body)
        except (ApiFault, CannotRead) as fault:
            self._report.miss("traces", trace_id, f"MLflow does not take it: {fault}")
            return None
        return known is None

    def _there(self, trace_id: str) -> dict[str, Any] | None:
        """Return what the server knows of a trace, or None."""
        try:
            found = self._api.get(f"{_V3}/{quote(trace_id)}")
        except ApiFault as fault:
            if fault.status != 404:
                raise
            return None
        info: dict[str, Any] = found["trace"]["trace_info"]
        return info

    def _start(self, experiment: str, trace: SourceTrace) -> dict[str, Any]:
        metadata = {
            key: self._ids[value][0] if key in _NAMES_AN_ID and value in self._ids else value
            for key, value in trace.info["trace_metadata"].items()
        }
        tags = trace.info["tags"].items()
        info = {
            **trace.info,
            "trace_location": {
                "type": "MLFLOW_EXPERIMENT",
                "mlflow_experiment": {"experiment_id": experiment},
            },
            "trace_metadata": metadata,
            "tags": {key: value for key, value in tags if key not in (SPANS_TAG, LOCATION_TAG)},
            "assessments": trace.assessments,
        }
        made: dict[str, Any] = self._post(_V3, {"trace": {"trace_info": info}})
        return dict(made["trace"]["trace_info"])

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._api.send("POST", path, json.dumps(body).encode(), headers=_JSON)

    def _spans(
        self, trace_id: str, there: dict[str, Any], trace: SourceTrace, *, is_new: bool
    ) -> None:
        """Upload the file of spans; a pass that ended before it is made good by the next."""
        place = there["tags"].get(LOCATION_TAG, "")
        if scheme_of(place) != "mlflow-artifacts":
            if is_new:
                why = (
                    f"the MLflow server keeps them at {place[:200]}, out of reach of its REST API"
                )
                self._report.miss("spans", trace_id, why)
            return
        root = place.partition("mlflow-artifacts:/")[2].strip("/")
        base = "/api/2.0/mlflow-artifacts/artifacts"
        if not is_new and self._api.get(base, {"path": root}).get("files"):
            return
        if trace.spans:
            text = json.dumps({"spans": [file_span(one["data"]) for one in trace.spans]})
            self._upload(f"{base}/{quote(root)}/traces.json", text.encode())
        elif trace.artifact_uri:
            for file in self._source.files(trace.artifact_uri, trace_id):
                self._upload(f"{base}/{quote(root)}/{quote(file.path)}", b"".join(file.read()))

    def _upload(self, path: str, data: bytes) -> None:
        self._api.send("PUT", path, io.BytesIO(data), headers=_OCTETS, length=len(data))
        self._report.copied(len(data))
