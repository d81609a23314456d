"""JSON that strangers send: depth, twins and NUL are told from honest bodies."""

import json
from typing import Any

import pytest

from trackyard.core.errors import BadRequest, InvalidInput
from trackyard.core.strict_json import MAX_DEPTH, check_json, check_text, check_twins


def checked(text: str) -> None:
    check_json(text.encode(), json.loads(text))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a": 1, "b": {"a": 2}}',
        '{"a": "x:y", "b": ["::", {"c": ":"}]}',
        '[{"a": 1}, {"a": 2}]',
        '{"a" : 1}',
        '{"time": "12:30", "\\u0061b": 1}',
    ],
)
def test_honest_bodies_pass(text: str) -> None:
    checked(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"b": [{"a": 1, "a" : 2}]}',
        '{"a": ":", "a": 2}',
        '{"run_id": 1, "run\\u005fid": 2}',
    ],
)
def test_a_name_twice_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="twice"):
        checked(text)


def test_depth_up_to_the_limit_passes_and_no_further() -> None:
    checked(json.dumps(nested(MAX_DEPTH)))
    with pytest.raises(BadRequest, match="levels"):
        checked(json.dumps(nested(MAX_DEPTH + 1)))


def test_a_body_too_deep_to_read_is_refused() -> None:
    with pytest.raises(BadRequest, match="levels"):
        check_twins(b"[" * 100_000 + b"]" * 100_000)


def test_nul_is_refused_in_names_and_values() -> None:
    for value in ({"a": "x\0y"}, {"x\0y": 1}, ["\0"]):
        with pytest.raises(InvalidInput, match="NUL"):
            check_json(json.dumps(value).encode(), value)
    with pytest.raises(InvalidInput):
        check_text("\0")
