"""The space of a sweep: reading, drawing, listing and narrowing it."""

import random

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.sweeps.space import parse_space

FULL = {
    "lr": {"log": ["1e-5", 1e-1]},
    "layers": {"int": [1, 4]},
    "dropout": {"range": [0, 0.5], "step": 0.1},
    "opt": ["adam", "sgd"],
    "momentum": {"range": [0.5, 0.9], "when": {"opt": "sgd"}},
}


def test_points_lie_in_their_ranges_and_conditions_hold() -> None:
    space = parse_space(FULL)
    for seed in range(200):
        point = space.draw(random.Random(seed))
        assert 1e-5 <= point["lr"] <= 0.1
        assert point["layers"] in (1, 2, 3, 4)
        assert round(float(point["dropout"]) * 10) / 10 == point["dropout"]
        assert ("momentum" in point) == (point["opt"] == "sgd")


def test_every_whole_number_of_a_range_is_drawn() -> None:
    space = parse_space({"n": {"int": [1, 3]}, "k": {"int": [1, 64], "log": True}})
    drawn = [space.draw(random.Random(seed)) for seed in range(300)]
    assert {point["n"] for point in drawn} == {1, 2, 3}
    assert max(point["k"] for point in drawn) <= 64


def test_a_grid_leaves_out_what_does_not_apply() -> None:
    space = parse_space(
        {
            "opt": ["adam", "sgd"],
            "momentum": {"choice": [0.5, 0.9], "when": {"opt": ["sgd"]}},
            "lr": {"log": [0.001, 0.1], "points": 3},
        }
    )
    grid = space.grid()
    assert len(grid) == 9
    assert grid[0] == {"opt": "adam", "lr": 0.001}
    assert [point["lr"] for point in grid[:3]] == [0.001, 0.01, 0.1]


def test_a_space_written_out_is_read_back() -> None:
    space = parse_space(FULL)
    assert parse_space(space.document()) == space


def test_around_keeps_what_good_points_share() -> None:
    space = parse_space(FULL).around(
        [{"lr": 1e-3, "layers": 2, "opt": "adam"}, {"lr": 2e-3, "layers": 2, "opt": "adam"}]
    )
    found = {parameter.name: parameter for parameter in space.parameters}
    assert 1e-4 < found["lr"].low < 1e-3
    assert 2e-3 < found["lr"].high < 0.1
    assert found["opt"].choices == ("adam",)
    assert "momentum" not in found


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({}, "name at least one parameter"),
        ({"lr": {"logg": [1, 2]}}, "did you mean `log`"),
        ({"lr": {"log": [0, 1]}}, "must start above 0"),
        ({"lr": {"range": [2, 1]}}, "2 is not below 1"),
        ({"lr": {"range": [1]}}, "two numbers"),
        ({"lr": {"range": [0, 1], "log": [1, 2]}}, "exactly one of"),
        ({"n": {"int": [1.5, 2]}}, "whole numbers"),
        ({"n": {"choice": []}}, "1 to 1000 values"),
        ({"n": None}, "write a list of values"),
        ({"2x": [1]}, "not first a digit"),
        ({"a": {"choice": [1], "when": {"bb": 1}}, "b": [1]}, "did you mean `b`"),
        ({"a": {"choice": [1], "when": {"a": 1}}}, "depend on each other"),
    ],
)
def test_a_wrong_space_is_refused_with_its_sentence(told: dict, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        parse_space(told)


def test_a_grid_of_a_range_needs_its_values() -> None:
    with pytest.raises(InvalidInput, match="points: 5"):
        parse_space({"lr": {"range": [0, 1]}}).grid()
    with pytest.raises(InvalidInput, match="over 10000 points"):
        parse_space({name: {"int": [1, 30]} for name in "abcd"}).grid()
