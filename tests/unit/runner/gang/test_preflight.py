"""A look at a gang names the node at fault, and both where it cannot tell which is."""

from __future__ import annotations

from typing import Any

import pytest

from trackyard.runner.gang.preflight import judge


def gang(*changes: dict[str, Any]) -> dict[str, Any]:
    usual = {"python": "3.11.2", "torch": "2.8.0", "driver": "570.1", "clock": 0.0, "missed": []}
    rows = [{**usual, **change} for change in changes]
    return judge(rows, [f"n{number}" for number in range(len(rows))])


def test_a_gang_that_agrees_is_well() -> None:
    found = gang({}, {"python": "3.11.9"}, {"clock": 0.5})
    assert found["ok"]
    assert [row["node"] for row in found["nodes"]] == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "3.9.1"}, "it has Python 3.9, the others 3.11"),
        ({"torch": None}, "it has torch not at all, the others 2.8.0"),
        ({"driver": "535.2"}, "it has driver 535.2, the others 570.1"),
        ({"clock": -61.0}, "its clock is 61.0 s behind the others'"),
        ({"missed": [1, 2]}, "it and other nodes of the gang do not reach each other"),
        ({"reduce": {"error": "RuntimeError: CUDA error"}}, "a small all-reduce failed there"),
    ],
)
def test_the_one_that_differs_is_named(change: dict[str, Any], words: str) -> None:
    found = gang(change, {}, {})
    assert not found["ok"]
    assert list(found["faults"]) == ["0"]
    assert words in found["faults"]["0"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"torch": "2.9.0"}, "versions of torch differ (n0: 2.9.0, n1: 2.8.0)"),
        ({"clock": 9.0}, "the clocks of n0 and n1 are 9.0 s apart"),
        ({"missed": [1]}, "n0 does not reach n1"),
    ],
)
def test_of_two_that_differ_neither_is_blamed(change: dict[str, Any], words: str) -> None:
    found = gang(change, {})
    assert (found["faults"], found["between"]) == ({}, [words])


def test_whoever_waited_in_vain_is_not_to_blame() -> None:
    waits = {"reduce": {"error": "DistBackendError: Timed out after 120000ms"}}
    found = gang(waits, {"reduce": {"error": "RuntimeError: bad memory"}}, waits)
    assert list(found["faults"]) == ["1"]
