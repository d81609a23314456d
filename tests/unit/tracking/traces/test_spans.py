"""Export requests of OpenTelemetry: both encodings are read alike, and no broken one passes."""

import json
import struct
from typing import Any

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.tracking.traces.spans import MAX_DEPTH, read_export

TRACE, ROOT, CHILD = bytes(range(16)), bytes(range(8)), bytes(range(8, 16))


def number(value: int) -> bytes:
    out = b""
    while True:
        value, low = value >> 7, value & 0x7F
        if not value:
            return out + bytes([low])
        out += bytes([low | 0x80])


def part(place: int, data: bytes) -> bytes:
    return number(place << 3 | 2) + number(len(data)) + data


def whole(place: int, value: int) -> bytes:
    return number(place << 3) + number(value)


def fixed(place: int, value: int) -> bytes:
    return number(place << 3 | 1) + struct.pack("<Q", value)


def pair(key: str, value: bytes) -> bytes:
    return part(9, part(1, key.encode()) + part(2, value))


def span(span_id: bytes, name: str, *more: bytes, parent: bytes = b"") -> bytes:
    return (
        part(1, TRACE)
        + part(2, span_id)
        + (part(4, parent) if parent else b"")
        + part(5, name.encode())
        + fixed(7, 5_000_000)
        + fixed(8, 9_000_000)
        + b"".join(more)
    )


def request(*spans: bytes) -> bytes:
    return part(1, part(2, b"".join(part(2, one) for one in spans)))


INPUTS = part(6, part(1, part(1, b"x") + part(2, whole(3, 5))))


def test_protocol_buffers_are_read() -> None:
    status = part(15, whole(3, 2) + part(2, b"broken"))
    body = request(
        span(
            ROOT,
            "outer",
            pair("mlflow.spanInputs", INPUTS),
            pair("minus", whole(3, 2**64 - 2)),
            pair("half", number(4 << 3 | 1) + struct.pack("<d", 0.5)),
            pair("flag", whole(2, 1)),
            pair("list", part(5, part(1, part(1, b"a")))),
            whole(6, 3),
            status,
        ),
        span(CHILD, "inner", part(99, b"unknown"), parent=ROOT),
    )
    [trace] = read_export(body, is_json=False)
    assert trace.id == f"tr-{TRACE.hex()}"
    root, child = trace.spans
    assert root.attributes == {
        "mlflow.spanInputs": {"x": 5},
        "minus": -2,
        "half": 0.5,
        "flag": True,
        "list": ["a"],
    }
    assert (child.parent, child.name) == (ROOT.hex(), "inner")
    shown = json.loads(root.data)
    assert shown["trace_id"] == "AAECAwQFBgcICQoLDA0ODw=="
    assert shown["kind"] == "SPAN_KIND_CLIENT"
    assert shown["status"] == {"code": "STATUS_CODE_ERROR", "message": "broken"}
    info = trace.info()
    assert (info.state, info.time_ms, info.duration_ms) == ("ERROR", 5, 4)
    assert info.request_preview == '{"x":5}'
    assert info.tags["mlflow.traceName"] == "outer"


def test_json_is_read_alike() -> None:
    data = {
        "resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": TRACE.hex(), "spanId": ROOT.hex(), "name": "outer",
            "startTimeUnixNano": "5000000", "endTimeUnixNano": 9000000, "kind": 3,
            "attributes": [{"key": "mlflow.spanInputs", "value": {"kvlistValue": {"values": [
                {"key": "x", "value": {"intValue": "5"}}]}}}],
            "status": {"code": 2, "message": "broken"},
        }]}]}]
    }  # fmt: skip
    body = request(
        span(
            ROOT,
            "outer",
            pair("mlflow.spanInputs", INPUTS),
            whole(6, 3),
            part(15, whole(3, 2) + part(2, b"broken")),
        )
    )
    [one] = read_export(json.dumps(data).encode(), is_json=True)
    [other] = read_export(body, is_json=False)
    assert one.id == other.id
    assert one.info() == other.info()
    assert json.loads(one.spans[0].data) == json.loads(other.spans[0].data)


def test_a_trace_without_its_root_is_under_way() -> None:
    [trace] = read_export(request(span(CHILD, "inner", parent=ROOT)), is_json=False)
    assert (trace.info().state, trace.info().duration_ms) == ("IN_PROGRESS", None)


def test_a_client_may_name_the_trace() -> None:
    name = f"tr-{'ab' * 16}"
    body = request(span(ROOT, "a", pair("mlflow.traceRequestId", part(1, name.encode()))))
    assert read_export(body, is_json=False)[0].id == name


def test_no_nul_character_stays() -> None:
    [trace] = read_export(request(span(ROOT, "a\0b")), is_json=False)
    assert trace.spans[0].name == "ab"


def deep(levels: int) -> bytes:
    value = part(1, b"x")
    for _ in range(levels):
        value = part(5, part(1, value))
    return value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 20,
        request(),
        part(1, b"\x12"),
        request(span(ROOT, "a"))[:-1],
        request(part(1, TRACE[:5]) + part(2, ROOT)),
        request(part(1, TRACE)),
        request(part(1, TRACE) + part(2, ROOT) + whole(1, 3)),
        request(span(ROOT, "a", whole(6, 77))),
        request(span(ROOT, "a", pair("k", deep(MAX_DEPTH)))),
        request(part(1, TRACE) + part(2, ROOT) + part(5, b"\xff\xfe")),
        request(span(ROOT, "a", pair("mlflow.traceRequestId", part(1, b"tr-/x")))),
    ],
)
def test_broken_protocol_buffers_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_export(body, is_json=False)


@pytest.mark.parametrize(
    "data",
    [
        None, 7, [], {}, {"resourceSpans": 7}, {"resourceSpans": [{"scopeSpans": [{}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz", "spanId": "00"}]}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]},
    ],
)  # fmt: skip
def test_broken_json_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput):
        read_export(json.dumps(data).encode(), is_json=True)
