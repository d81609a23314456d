"""Spans in the two forms that MLflow gives them: as OpenTelemetry writes them on the wire, and as
they stand in a trace's file, `traces.json`. Pure.
"""

from __future__ import annotations

import json
from typing import Any


def file_span(data: dict[str, Any]) -> dict[str, Any]:
    """Turn a span from the form of the wire into the form of the file."""
    return {
        "trace_id": data.get("trace_id"),
        "span_id": data.get("span_id"),
        "parent_span_id": data.get("parent_span_id"),
        "name": data.get("name", ""),
        "start_time_unix_nano": data.get("start_time_unix_nano", 0),
        "end_time_unix_nano": data.get("end_time_unix_nano", 0),
        "events": [
            {
                "name": event.get("name", ""),
                "time_unix_nano": event.get("time_unix_nano", 0),
                "attributes": _dict(event.get("attributes")),
            }
            for event in data.get("events") or []
        ],
        "status": {
            "code": (data.get("status") or {}).get("code", "STATUS_CODE_UNSET"),
            "message": (data.get("status") or {}).get("message", ""),
        },
        "attributes": {
            key: json.dumps(value, ensure_ascii=False)
            for key, value in _dict(data.get("attributes")).items()
        },
        "links": data.get("links") or [],
    }


def _dict(pairs: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {pair["key"]: _untagged(pair.get("value") or {}) for pair in pairs or []}


def _untagged(value: dict[str, Any]) -> Any:
    if "array_value" in value:
        return [_untagged(one) for one in value["array_value"].get("values", [])]
    if "kvlist_value" in value:
        return _dict(value["kvlist_value"].get("values", []))
    if "int_value" in value:
        return int(value["int_value"])
    return next(iter(value.values()), None)
