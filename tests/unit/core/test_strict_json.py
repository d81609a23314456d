"""JSON that strangers send: depth, twins and NUL are told from honest bodies."""

import json
import time
from typing import Any

import pytest

from trackyard.core.errors import BadRequest, InvalidInput, TooLarge
from trackyard.core.strict_json import (
    MAX_DEPTH,
    MAX_VALUES,
    check_json,
    check_text,
    check_twins,
    count_values,
)


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
        check_twins(b"[" * 20_000 + b"]" * 20_000)


def test_nul_is_refused_in_names_and_values() -> None:
    for value in ({"a": "x\0y"}, {"x\0y": 1}, ["\0"]):
        with pytest.raises(InvalidInput, match="NUL"):
            check_json(json.dumps(value).encode(), value)
    with pytest.raises(InvalidInput):
        check_text("\0")


def _seconds(names: int) -> float:
    """The least time a refusal of one doubled name among many takes, of a few tries."""
    pairs = ",".join(f'"n{number}":0' for number in range(names))
    raw = f'{{{pairs},"n{names - 1}":1}}'.encode()
    tries = []
    for _ in range(3):
        began = time.process_time()
        with pytest.raises(BadRequest, match=f"'n{names - 1}' twice"):
            check_twins(raw)
        tries.append(time.process_time() - began)
    return min(tries)


def test_finding_the_doubled_name_takes_time_in_proportion() -> None:
    """Sixteen times the names take about sixteen times as long; the square would be 256."""
    assert _seconds(32_000) < 80 * _seconds(2000)


@pytest.mark.parametrize("value", ["0", "[]", "{}", '"a"', '{"a":0}', '{"a":"b","c":"\\"}'])
def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(value: str) -> None:
    raw = f"[{','.join([value] * (MAX_VALUES + 1))}]".encode()
    for look in (count_values, check_twins):
        with pytest.raises(TooLarge, match="values"):
            look(raw)


def test_commas_and_brackets_inside_texts_are_no_values() -> None:
    text = json.dumps({"diff": ',[{"\\' * MAX_VALUES, "b": "\\"})
    assert count_values(text.encode()) < 10
    checked(text)
    with pytest.raises(BadRequest, match="twice"):
        checked(f'{{"a": {json.dumps(":" * 100)}, "a": "\\\\"}}')
