"""Traces on the wire: times and durations as protocol buffers write them in JSON."""

from typing import Any

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.tracking.traces.wire import (
    read_duration,
    read_info,
    read_time,
    write_duration,
    write_time,
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00.001Z", 1),
        ("2026-11-17T07:35:17.269Z", 1794900917269),
        ("2026-11-17T08:35:17.269+01:00", 1794900917269),
        ("2026-11-17T07:35:17Z", 1794900917000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert read_time(text, "t") == ms
    assert read_time(write_time(ms), "t") == ms


@pytest.mark.parametrize("text", ["", "yesterday", None, 5, "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput):
        read_time(text, "request_time")


@pytest.mark.parametrize(
    ("text", "ms", "written"),
    [
        ("0s", 0, "0s"),
        ("1.5s", 1500, "1.500s"),
        ("0.009s", 9, "0.009s"),
        ("3.0000009s", 3000, "3s"),
    ],
)
def test_durations(text: str, ms: int, written: str) -> None:
    assert read_duration(text) == ms
    assert write_duration(ms) == written


@pytest.mark.parametrize(
    "change",
    [
        {"trace_id": "x"}, {"trace_id": None}, {"state": "MAYBE"}, {"trace_location": None},
        {"trace_location": {"mlflow_experiment": {}}}, {"request_time": "now"},
        {"execution_duration": "5"}, {"tags": {"a": 1}}, {"tags": []}, {"tags": {"": "x"}},
        {"trace_metadata": 7}, {"request_preview": 7},
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused(change: dict[str, Any]) -> None:
    data = {
        "trace_id": f"tr-{'0' * 32}",
        "trace_location": {"mlflow_experiment": {"experiment_id": "0"}},
        "request_time": "2026-11-17T07:35:17Z",
    }
    assert read_info(data).state == "STATE_UNSPECIFIED"
    with pytest.raises(InvalidInput):
        read_info({**data, **change})
