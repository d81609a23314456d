"""Spans as OpenTelemetry sends them (OTLP over HTTP), turned into what MLflow's clients read.

Owns reading the two encodings of an export request, protocol buffers and JSON, within bounds,
and what a trace is called, began and came to by its spans. Pure; knows no table.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isinf, isnan
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.tracking.traces.wire import MAX_PREVIEW, NAME_TAG, TraceInfo, check_trace_id

#: Spans in one request, and how deep a value of an attribute may be.
MAX_SPANS, MAX_DEPTH = 10_000, 32
_STATUS = ("STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR")
_INPUTS, _OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
_REQUEST_ID = "mlflow.traceRequestId"


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """One span, as it is stored."""

    id: str
    start_ns: int
    end_ns: int
    name: str
    #: empty for the root of a trace
    parent: str
    status: str
    attributes: dict[str, Any]
    #: the span as clients get it; JSON
    data: str


@dataclass(slots=True)
class SpanTrace:
    """The spans of one trace that came together."""

    id: str
    spans: list[StoredSpan] = field(default_factory=list)

    @property
    def has_root(self) -> bool:
        """Tell whether the span is here that tells what became of the trace."""
        return any(not span.parent for span in self.spans)

    def info(self) -> TraceInfo:
        """Return what the spans tell of their trace."""
        root = next((span for span in self.spans if not span.parent), None)
        start = min(span.start_ns for span in self.spans)
        info = TraceInfo(
            id=self.id,
            experiment="",
            time_ms=start // 1_000_000,
            duration_ms=None,
            state="IN_PROGRESS",
            metadata={"mlflow.trace_schema.version": "3"},
        )
        if root is not None:
            info.tags[NAME_TAG] = root.name
            info.state = "ERROR" if root.status == _STATUS[2] else "OK"
            info.duration_ms = max(root.end_ns - root.start_ns, 0) // 1_000_000
            info.request_preview = _preview(root.attributes.get(_INPUTS))
            info.response_preview = _preview(root.attributes.get(_OUTPUTS))
        return info


def read_export(body: bytes, *, is_json: bool) -> list[SpanTrace]:
    """Return the traces of an export request, or refuse it whole."""
    try:
        found = [_read_span(data) for data in (_json_spans if is_json else _proto_spans)(body)]
    except (
        msgspec.DecodeError,
        binascii.Error,
        struct.error,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        AssertionError,
        IndexError,
        RecursionError,
    ):
        raise InvalidInput("Invalid OpenTelemetry format") from None
    if not found:
        raise InvalidInput("Invalid OpenTelemetry format - no spans found")
    if len(found) > MAX_SPANS:
        raise InvalidInput(f"at most {MAX_SPANS} spans are taken at once, not {len(found)}")
    traces: dict[str, SpanTrace] = {}
    for trace_id, span in found:
        traces.setdefault(trace_id, SpanTrace(trace_id)).spans.append(span)
    return list(traces.values())


def _read_span(data: dict[str, Any]) -> tuple[str, StoredSpan]:
    raw_trace, raw_span = data["trace_id"], data["span_id"]
    parent = data.get("parent_span_id", b"")
    if len(raw_trace) != 16 or len(raw_span) != 8 or len(parent) not in (0, 8):
        raise InvalidInput("Invalid OpenTelemetry format: an id of a span has another length")
    attributes = {
        pair["key"]: _plain(pair.get("value") or {}) for pair in data.get("attributes", [])
    }
    named = attributes.get(_REQUEST_ID)
    trace_id = named if isinstance(named, str) and named.startswith("tr-") else ""
    shown: dict[str, Any] = {
        **data,
        "trace_id": base64.b64encode(raw_trace).decode(),
        "span_id": base64.b64encode(raw_span).decode(),
    }
    shown.pop("parent_span_id", None)
    if parent:
        shown["parent_span_id"] = base64.b64encode(parent).decode()
    span = StoredSpan(
        id=raw_span.hex(),
        start_ns=data.get("start_time_unix_nano", 0),
        end_ns=data.get("end_time_unix_nano", 0),
        name=data.get("name", ""),
        parent=parent.hex(),
        status=(data.get("status") or {}).get("code", _STATUS[0]),
        attributes=attributes,
        data=msgspec.json.encode(shown).decode(),
    )
    return check_trace_id(trace_id or f"tr-{raw_trace.hex()}"), span


def _plain(value: dict[str, Any]) -> Any:
    """Return the plain value behind OpenTelemetry's tagged one."""
    for kind in ("string_value", "bool_value", "int_value", "double_value", "bytes_value"):
        if kind in value:
            return value[kind]
    if "array_value" in value:
        return [_plain(one) for one in value["array_value"].get("values", [])]
    if "kvlist_value" in value:
        pairs = value["kvlist_value"].get("values", [])
        return {pair["key"]: _plain(pair.get("value") or {}) for pair in pairs}
    return None


def _preview(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:MAX_PREVIEW]


# -- protocol buffers -------------------------------------------------------------------------

#: Messages by their fields: number -> (name, kind, is repeated); a message's kind is its name.
_MESSAGES: dict[str, dict[int, tuple[str, str, bool]]] = {
    "request": {1: ("resource_spans", "resource_spans", True)},
    "resource_spans": {2: ("scope_spans", "scope_spans", True)},
    "scope_spans": {2: ("spans", "span", True)},
    "span": {
        1: ("trace_id", "bytes", False),
        2: ("span_id", "bytes", False),
        3: ("trace_state", "text", False),
        4: ("parent_span_id", "bytes", False),
        5: ("name", "text", False),
        6: ("kind", "kind", False),
        7: ("start_time_unix_nano", "fixed", False),
        8: ("end_time_unix_nano", "fixed", False),
        9: ("attributes", "pair", True),
        11: ("events", "event", True),
        13: ("links", "link", True),
        15: ("status", "status", False),
    },
    "event": {
        1: ("time_unix_nano", "fixed", False),
        2: ("name", "text", False),
        3: ("attributes", "pair", True),
    },
    "link": {
        1: ("trace_id", "base64", False),
        2: ("span_id", "base64", False),
        4: ("attributes", "pair", True),
    },
    "status": {2: ("message", "text", False), 3: ("code", "status_code", False)},
    "pair": {1: ("key", "text", False), 2: ("value", "value", False)},
    "value": {
        1: ("string_value", "text", False),
        2: ("bool_value", "bool", False),
        3: ("int_value", "int", False),
        4: ("double_value", "double", False),
        5: ("array_value", "array", False),
        6: ("kvlist_value", "kvlist", False),
        7: ("bytes_value", "base64", False),
    },
    "array": {1: ("values", "value", True)},
    "kvlist": {1: ("values", "pair", True)},
}
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")


def _proto_spans(body: bytes) -> Iterator[dict[str, Any]]:
    for resource in _message(body, "request", 0).get("resource_spans", []):
        for scope in resource.get("scope_spans", []):
            yield from scope.get("spans", [])


def _message(data: bytes, name: str, depth: int) -> dict[str, Any]:
    """Decode a message; fields it does not know are passed over."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"a value of a span is more than {MAX_DEPTH} levels deep")
    fields, found, at = _MESSAGES[name], dict[str, Any](), 0
    while at < len(data):
        tag, at = _varint(data, at)
        raw: int | bytes
        if tag & 7 == 0:
            raw, at = _varint(data, at)
        elif tag & 7 in (1, 5):
            size = 8 if tag & 7 == 1 else 4
            raw, at = data[at : at + size], at + size
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            raw, at = data[at : at + size], at + size
        else:
            raise ValueError(tag)
        if at > len(data):
            raise ValueError(at)
        known = fields.get(tag >> 3)
        if known is not None:
            field_name, kind, is_repeated = known
            value = _value(raw, kind, depth)
            if is_repeated:
                found.setdefault(field_name, []).append(value)
            else:
                found[field_name] = value
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value & (2**64 - 1), at
        if shift > 63:
            raise ValueError(at)


def _value(raw: int | bytes, kind: str, depth: int) -> Any:
    if kind in _MESSAGES:
        assert isinstance(raw, bytes)
        return _message(raw, kind, depth + 1)
    return _NUMBERS[kind](raw) if isinstance(raw, int) else _BYTES[kind](raw)


#: How scalars are read that come as numbers, and as bytes.
_NUMBERS: dict[str, Callable[[int], Any]] = {
    "bool": bool,
    "status_code": lambda raw: _STATUS[raw],
    "kind": lambda raw: f"SPAN_KIND_{_KINDS[raw]}",
    "int": lambda raw: raw - 2**64 if raw >= 2**63 else raw,
}
_BYTES: dict[str, Callable[[bytes], Any]] = {
    # Without a character that no database column takes.
    "text": lambda raw: raw.decode().replace("\0", ""),
    "bytes": bytes,
    "base64": lambda raw: base64.b64encode(raw).decode(),
    "fixed": lambda raw: min(struct.unpack("<Q", raw)[0], 2**63 - 1),
    "double": lambda raw: _finite(struct.unpack("<d", raw)[0]),
}


def _finite(number: float) -> float | str:
    """Return a number as protocol buffers write it in JSON."""
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


# -- JSON -------------------------------------------------------------------------------------


def _json_spans(body: bytes) -> Iterator[dict[str, Any]]:
    for resource in msgspec.json.decode(body).get("resourceSpans", []):
        for scope in resource.get("scopeSpans", []):
            for span in scope.get("spans", []):
                found = _snake(span, "span", 0)
                for name in ("trace_id", "span_id", "parent_span_id"):
                    if found.get(name):
                        found[name] = bytes.fromhex(found[name])
                    else:
                        found.pop(name, None)
                yield found


def _snake(data: dict[str, Any], name: str, depth: int) -> dict[str, Any]:
    """Read a message whose JSON has camel case, numbers as text, and ids in hex."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"a value of a span is more than {MAX_DEPTH} levels deep")
    found: dict[str, Any] = {}
    for field_name, kind, is_repeated in _MESSAGES[name].values():
        head, *rest = field_name.split("_")
        value = data.get(head + "".join(part.title() for part in rest))
        if value is None:
            continue
        if is_repeated:
            found[field_name] = [_snake(one, kind, depth + 1) for one in value]
        elif kind in _MESSAGES:
            found[field_name] = _snake(value, kind, depth + 1)
        else:
            found[field_name] = _json_value(value, kind)
    return found


def _json_value(value: Any, kind: str) -> Any:
    if kind == "fixed":
        return min(max(int(value), 0), 2**63 - 1)
    if kind == "int":
        return min(max(int(value), -(2**63)), 2**63 - 1)
    if kind == "bool":
        return bool(value)
    if kind == "double":
        return _finite(float(value))
    if kind == "status_code":
        return _STATUS[value] if isinstance(value, int) else _STATUS[_STATUS.index(value)]
    if kind == "kind":
        return f"SPAN_KIND_{_KINDS[value]}" if isinstance(value, int) else str(value)[:40]
    if not isinstance(value, str):
        raise TypeError(kind)
    return value.replace("\0", "")
