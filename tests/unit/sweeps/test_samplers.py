"""Samplers, Optuna's among them: the same trials give the same next point."""

import math
import random

import pytest

from trackyard.sweeps.importance import importance
from trackyard.sweeps.samplers import PastTrial, propose
from trackyard.sweeps.space import Point, parse_space

SPACE = parse_space(
    {
        "lr": {"log": [1e-5, 1e-1]},
        "n": {"int": [1, 8]},
        "opt": ["adam", "sgd"],
        "momentum": {"range": [0.5, 0.99], "when": {"opt": "sgd"}},
    }
)


def loss(point: Point) -> float:
    return (math.log10(float(point["lr"])) + 3) ** 2 + (float(point["n"]) - 4) ** 2 / 10


def searched(sampler: str, count: int, *, seed: int = 1) -> list[PastTrial]:
    trials: list[PastTrial] = []
    for number in range(count):
        found = propose(sampler, SPACE, trials, seed=seed, number=number)
        assert found is not None
        trials.append(
            PastTrial(
                number=number,
                point=found.point,
                state="running" if number % 5 == 4 else "complete",
                loss=None if number % 5 == 4 else loss(found.point),
                attributes=found.attributes,
            )
        )
    return trials


@pytest.mark.parametrize("sampler", ["random", "tpe", "cmaes"])
def test_points_are_valid_and_the_same_again(sampler: str) -> None:
    trials = searched(sampler, 16)
    for trial in trials:
        assert ("momentum" in trial.point) == (trial.point["opt"] == "sgd")
        assert 1e-5 <= float(trial.point["lr"]) <= 0.1
    # As after a restart: nothing is known but the trials.
    again = propose(sampler, SPACE, trials[:15], seed=1, number=15)
    assert again is not None
    assert again.point == trials[15].point


def test_a_model_finds_more_than_chance_does() -> None:
    best = {
        sampler: min(loss(trial.point) for trial in searched(sampler, 50))
        for sampler in ("random", "tpe")
    }
    assert best["tpe"] < best["random"]


def test_trials_that_tell_nothing_do_not_disturb() -> None:
    past = [
        PastTrial(number=0, point={"lr": 0.1, "n": 1, "opt": "adam"}, state="failed"),
        PastTrial(
            number=1, point={"lr": 0.1, "n": 1, "opt": "adam"}, state="pruned", loss=math.nan
        ),
        PastTrial(
            number=2,
            point={"lr": 0.01, "n": 2, "opt": "adam"},
            state="pruned",
            loss=2.0,
            curve=[(1, 3.0), (3, 2.0)],
        ),
    ]
    assert propose("tpe", SPACE, past, seed=0, number=3) is not None


def test_a_grid_ends() -> None:
    space = parse_space({"a": [1, 2]})
    found = [propose("grid", space, [], seed=0, number=number) for number in range(3)]
    assert [one and one.point for one in found] == [{"a": 1}, {"a": 2}, None]


def test_importance_names_what_matters() -> None:
    source = random.Random(0)
    points = [SPACE.draw(source) for _ in range(120)]
    found = importance(points, [loss(point) for point in points], SPACE.names())
    assert list(found)[:2] == ["lr", "n"]
    assert found["lr"] > 0.4
    assert found["opt"] < 0.1
    assert importance(points[:3], [1.0, 2.0, 3.0], SPACE.names()) == {}
