"""MLflow's forms as more than one of its stores uses them: states, spans, assessments. Pure."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from typing import Any

RUN_STATUSES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
MODEL_STATUSES = {0: "PENDING", 1: "PENDING", 2: "READY", 3: "UPLOAD_FAILED"}
LOCATION_TAG = "mlflow.artifactLocation"
SPANS_TAG = "mlflow.trace.spansLocation"
#: Keeps the id of a trace of MLflow 2, which has no `tr-` before it.
TRACE_ID_KEY = "trackyard.import.trace_id"
_TRACE_STATES = {"OK": "OK", "ERROR": "ERROR", "IN_PROGRESS": "IN_PROGRESS"}


def run_status(value: Any) -> str:
    """Return a run's status, which file stores keep as a number."""
    return RUN_STATUSES.get(value, "FINISHED") if isinstance(value, int) else str(value)


def model_status(value: Any) -> str:
    """Return a logged model's status from its number or its name on the wire."""
    if isinstance(value, int):
        return MODEL_STATUSES.get(value, "READY")
    text = str(value).removeprefix("LOGGED_MODEL_")
    return text if text in MODEL_STATUSES.values() else "READY"


def utc_text(ms: int | None) -> str:
    """Return a time as protocol buffers write it."""
    moment = datetime.fromtimestamp((ms or 0) // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{(ms or 0) % 1000:03}Z"


def trace_id_of(text: str) -> str:
    """Return a trace's id with the prefix that MLflow 3 gives to all of them."""
    return text if text.startswith("tr-") else f"tr-{text}"


def trace_info(
    trace_id: str,
    *,
    time_ms: int,
    duration_ms: int | None,
    state: str,
    tags: dict[str, str],
    metadata: dict[str, str],
    previews: tuple[str | None, str | None] = (None, None),
    client_request_id: str | None = None,
) -> dict[str, Any]:
    """Return a trace in MLflow 3's form, without its location."""
    kept = trace_id_of(trace_id)
    if kept != trace_id:
        metadata = {**metadata, TRACE_ID_KEY: trace_id}
    request, response = previews
    info: dict[str, Any] = {
        "trace_id": kept,
        "request_time": utc_text(time_ms),
        "state": _TRACE_STATES.get(state, "STATE_UNSPECIFIED"),
        "tags": tags,
        "trace_metadata": metadata,
        "request_preview": request or metadata.get("mlflow.traceInputs", ""),
        "response_preview": response or metadata.get("mlflow.traceOutputs", ""),
    }
    if duration_ms is not None:
        seconds, rest = divmod(int(duration_ms), 1000)
        info["execution_duration"] = f"{seconds}.{rest:03}s"
    if client_request_id:
        info["client_request_id"] = client_request_id
    return info


def stored_span(content: dict[str, Any]) -> dict[str, Any]:
    """Turn a span as MLflow's database keeps it into the form that clients get."""
    span_id = _hex(content.get("span_id"))
    parent = _hex(content.get("parent_span_id"))
    data: dict[str, Any] = {
        "trace_id": _base64(_hex(content.get("trace_id"))),
        "span_id": _base64(span_id),
        "name": content.get("name", ""),
        "start_time_unix_nano": int(content.get("start_time_unix_nano") or 0),
        "end_time_unix_nano": int(content.get("end_time_unix_nano") or 0),
        "status": _status(content.get("status")),
        "attributes": _pairs(content.get("attributes")),
    }
    if parent:
        data["parent_span_id"] = _base64(parent)
    if content.get("events"):
        data["events"] = [
            {
                "name": event.get("name", ""),
                "time_unix_nano": int(event.get("time_unix_nano") or event.get("timestamp") or 0),
                "attributes": _pairs(event.get("attributes")),
            }
            for event in content["events"]
        ]
    return {"span_id": span_id, "start_ns": data["start_time_unix_nano"], "data": data}


def wire_span(span: dict[str, Any]) -> dict[str, Any]:
    """Turn a span as MLflow 3's server hands it out into the form in which it is imported."""
    start = int(span.get("start_time_unix_nano") or 0)
    data = {
        **span,
        "start_time_unix_nano": start,
        "end_time_unix_nano": int(span.get("end_time_unix_nano") or 0),
    }
    return {"span_id": _hex(span.get("span_id")), "start_ns": start, "data": data}


def _pairs(attributes: Any) -> list[dict[str, Any]]:
    # MLflow keeps each value as JSON, and hands it out as what it is.
    pairs = (attributes or {}).items()
    return [{"key": key, "value": _tagged(_loaded(value))} for key, value in pairs]


def _tagged(value: Any) -> dict[str, Any]:
    """Return a value with its type, as OpenTelemetry writes it."""
    if isinstance(value, bool):
        return {"bool_value": value}
    if isinstance(value, int):
        return {"int_value": value}
    if isinstance(value, float):
        return {"double_value": value}
    if isinstance(value, list):
        return {"array_value": {"values": [_tagged(one) for one in value]}}
    if isinstance(value, dict):
        pairs = [{"key": str(key), "value": _tagged(one)} for key, one in value.items()]
        return {"kvlist_value": {"values": pairs}}
    return {"string_value": value} if isinstance(value, str) else {}


def _status(status: Any) -> dict[str, str]:
    if isinstance(status, dict):
        return {"code": str(status.get("code")), "message": str(status.get("message") or "")}
    return {"code": "STATUS_CODE_UNSET"}


def _hex(text: Any) -> str:
    """Return an id of OpenTelemetry as hex digits, from them or from base64."""
    if not isinstance(text, str) or not text:
        return ""
    plain = text.removeprefix("0x")
    if re.fullmatch(r"[0-9a-f]{16}|[0-9a-f]{32}", plain):
        return plain
    try:
        return base64.b64decode(text, validate=True).hex()
    except ValueError:
        return ""


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


def assessment_of_row(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a row of MLflow's table of assessments into its form on the wire."""
    found: dict[str, Any] = {
        "assessment_id": row["assessment_id"],
        "assessment_name": row["name"],
        "create_time": utc_text(row["created_timestamp"]),
        "last_update_time": utc_text(row["last_updated_timestamp"]),
        "source": {"source_type": row["source_type"], "source_id": row["source_id"] or "default"},
        "valid": row["valid"] in (None, 1, True),
    }
    value = _loaded(row["value"])
    if row["assessment_type"] == "expectation":
        found["expectation"] = (
            {"serialized_value": {"serialization_format": "JSON_FORMAT", "value": row["value"]}}
            if isinstance(value, dict | list)
            else {"value": value}
        )
    else:
        found["feedback"] = {"value": value}
        if row["error"]:
            found["feedback"]["error"] = _loaded(row["error"])
    for name in ("span_id", "rationale", "overrides"):
        if row[name]:
            found[name] = row[name]
    metadata = _loaded(row["assessment_metadata"]) or {}
    if row.get("run_id"):
        metadata.setdefault("mlflow.assessment.sourceRunId", row["run_id"])
    if metadata:
        found["metadata"] = {key: str(one) for key, one in metadata.items()}
    return found


def _loaded(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
