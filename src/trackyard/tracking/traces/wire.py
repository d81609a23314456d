"""Traces on the wire: what clients send and get, and the times in it. Pure; knows no table.

Times are written as RFC 3339 and durations as seconds, the way protocol buffers turn to JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import TRACE_ID

STATES = ("STATE_UNSPECIFIED", "OK", "ERROR", "IN_PROGRESS")
NAME_TAG = "mlflow.traceName"
LOCATION_TAG = "mlflow.artifactLocation"
SPANS_TAG = "mlflow.trace.spansLocation"
#: Says that spans are asked for by call, not downloaded as a file.
SPANS_HERE = "TRACKING_STORE"
RUN_KEY = "mlflow.sourceRun"
MAX_KEY, MAX_VALUE, MAX_PREVIEW = 250, 8000, 10_000

_DURATION = re.compile(r"(-?[0-9]{1,12})(?:\.([0-9]{1,9}))?s\Z")


@dataclass(slots=True, kw_only=True)
class TraceInfo:
    """A trace without its spans."""

    id: str
    experiment: str
    time_ms: int
    duration_ms: int | None
    state: str
    client_request_id: str = ""
    request_preview: str = ""
    response_preview: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


def check_trace_id(text: Any) -> str:
    """Return a trace's id, or refuse what is none."""
    if not isinstance(text, str) or TRACE_ID.match(text) is None:
        raise InvalidInput(
            f"Invalid trace ID {str(text)[:80]!r}: it is `tr-` and up to 60 letters or digits"
        )
    return text


def read_info(data: Any) -> TraceInfo:
    """Read what a client says of a trace."""
    if not isinstance(data, dict):
        raise _bad("trace.trace_info", data)
    place = data.get("trace_location")
    inner = place.get("mlflow_experiment") if isinstance(place, dict) else None
    experiment = inner.get("experiment_id") if isinstance(inner, dict) else None
    if not isinstance(experiment, str):
        raise InvalidInput(
            "Missing value for required parameter"
            " 'trace.trace_info.trace_location.mlflow_experiment.experiment_id'."
        )
    state = data.get("state") or STATES[0]
    if state not in STATES:
        raise _bad("state", state)
    duration = data.get("execution_duration")
    return TraceInfo(
        id=check_trace_id(data.get("trace_id")),
        experiment=experiment,
        time_ms=read_time(data.get("request_time"), "request_time"),
        duration_ms=None if duration is None else read_duration(duration),
        state=state,
        client_request_id=_text(data, "client_request_id"),
        request_preview=_text(data, "request_preview"),
        response_preview=_text(data, "response_preview"),
        metadata=read_pairs(data.get("trace_metadata"), "trace_metadata"),
        tags=read_pairs(data.get("tags"), "tags"),
    )


def read_pairs(data: Any, name: str) -> dict[str, str]:
    """Read tags or metadata; a value beyond MLflow's limit is cut, as MLflow cuts it."""
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _bad(name, data)
    found = {}
    for key, value in data.items():
        if not isinstance(value, str):
            raise _bad(f"{name}.{key[:80]}", value)
        found[check_key(key)] = value[:MAX_VALUE]
    return found


def check_key(key: str) -> str:
    """Refuse the key of a tag that MLflow refuses."""
    if not key or len(key) > MAX_KEY:
        raise InvalidInput(f"a tag's key has 1 to {MAX_KEY} characters, not {len(key)}")
    return key


def read_time(text: Any, name: str) -> int:
    """Return the milliseconds behind an RFC 3339 time."""
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.astimezone(UTC).timestamp() * 1000 + 0.5)
    except (TypeError, ValueError, OverflowError, OSError):
        raise _bad(name, text) from None


def write_time(ms: int) -> str:
    """Return a time as protocol buffers write it."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def read_duration(text: Any) -> int:
    """Return the milliseconds behind a duration in seconds."""
    found = _DURATION.match(text) if isinstance(text, str) else None
    if found is None:
        raise _bad("execution_duration", text)
    return int(found[1]) * 1000 + int(((found[2] or "") + "000")[:3])


def write_duration(ms: int) -> str:
    """Return a duration as protocol buffers write it."""
    seconds, rest = divmod(ms, 1000)
    return f"{seconds}.{rest:03}s" if rest else f"{seconds}s"


def shape(info: TraceInfo, assessments: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a trace in MLflow's form, without its spans."""
    shaped: dict[str, Any] = {
        "trace_id": info.id,
        "trace_location": {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": info.experiment},
        },
        "request_time": write_time(info.time_ms),
        "state": info.state,
    }
    if info.duration_ms is not None:
        shaped["execution_duration"] = write_duration(info.duration_ms)
    more = {
        "trace_metadata": info.metadata,
        "assessments": assessments,
        "tags": info.tags,
        "client_request_id": info.client_request_id,
        "request_preview": info.request_preview,
        "response_preview": info.response_preview,
    }
    return {**shaped, **{name: value for name, value in more.items() if value}}


def shape_v2(info: TraceInfo, _: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a trace in the form of MLflow 2.x, which knows no assessments."""
    shaped: dict[str, Any] = {
        "request_id": info.id,
        "experiment_id": info.experiment,
        "timestamp_ms": info.time_ms,
        "status": "TRACE_STATUS_UNSPECIFIED" if info.state == STATES[0] else info.state,
    }
    if info.duration_ms is not None:
        shaped["execution_time_ms"] = info.duration_ms
    for name, pairs in (("request_metadata", info.metadata), ("tags", info.tags)):
        if pairs:
            shaped[name] = [{"key": key, "value": value} for key, value in pairs.items()]
    return shaped


def read_status(value: Any) -> str:
    """Read the status of MLflow 2.x, by its name or its number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(STATES):
        return STATES[value]
    if value in (None, "", "TRACE_STATUS_UNSPECIFIED"):
        return STATES[0]
    if value not in STATES:
        raise _bad("status", value)
    return str(value)


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(name, value)
    return value[:MAX_PREVIEW]


def _bad(name: str, value: Any) -> InvalidInput:
    return InvalidInput(f"Invalid value {str(value)[:80]!r} for parameter '{name}' supplied")
