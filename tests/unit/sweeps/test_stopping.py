"""Early stopping and population-based training, by hand-made curves."""

import math

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.sweeps.population import explore, replacement
from trackyard.sweeps.space import parse_space
from trackyard.sweeps.stopping import (
    ObservedTrial,
    StopRule,
    bracket_for,
    brackets_of,
    cutoff,
    judge,
    parse_rule,
    rungs_of,
)

ASHA = StopRule(method="asha", min=1, max=27, eta=3)


def curve(*losses: float) -> list[tuple[int, float]]:
    return list(enumerate(losses, start=1))


def test_rungs_grow_by_eta_and_end_before_the_end() -> None:
    assert rungs_of(ASHA) == [1, 3, 9]
    assert rungs_of(StopRule(method="hyperband", min=1, max=27), 2) == [9]
    assert rungs_of(StopRule()) == []


def test_the_first_trials_go_on_and_a_worse_one_is_stopped() -> None:
    first, second = ObservedTrial(0, curve(1.0)), ObservedTrial(1, curve(5.0))
    found = judge(ASHA, first, [first, second])
    assert found.rungs == {1: 1.0}
    assert not found.stop
    first.rungs.update(found.rungs)
    assert "2 of 2" in judge(ASHA, second, [first, second]).stop
    better = ObservedTrial(2, curve(0.5))
    assert not judge(ASHA, better, [first, second, better]).stop


def test_a_rung_is_judged_once_and_by_what_was_reported_there() -> None:
    known = ObservedTrial(0, rungs={1: 1.0, 3: 1.0})
    late = ObservedTrial(1, [(1, 0.5), (4, 9.0)], rungs={1: 0.5})
    found = judge(ASHA, late, [known, late])
    assert found.rungs == {3: 9.0}
    assert found.stop
    late.rungs.update(found.rungs)
    assert judge(ASHA, late, [known, late]).rungs == {}


def test_what_is_not_a_number_is_stopped() -> None:
    trial = ObservedTrial(0, [(1, math.nan)])
    assert judge(ASHA, trial, [trial]).stop


def test_the_cutoff_is_the_quantile_of_those_before() -> None:
    assert cutoff([], 3) is None
    assert cutoff([4.0], 3) == 4.0
    assert cutoff([1.0, 2.0, 3.0, 4.0], 3) == 2.0


def test_brackets_of_hyperband_get_trials_by_their_cost() -> None:
    rule = StopRule(method="hyperband", min=1, max=27, eta=3)
    assert brackets_of(rule) == 4
    dealt = [bracket_for(rule, number) for number in range(60)]
    counts = [dealt.count(bracket) for bracket in range(4)]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) > 0


def test_the_median_rule_waits_and_then_stops_the_worse_half() -> None:
    rule = StopRule(method="median", startup=3, warmup=2)
    done = [
        ObservedTrial(n, curve(3.0, 2.0, 1.0), is_complete=True, is_live=False) for n in range(3)
    ]
    bad = ObservedTrial(9, curve(4.0, 4.0))
    assert judge(rule, bad, [*done, bad]).stop
    assert not judge(rule, bad, [*done[:2], bad]).stop
    assert not judge(rule, ObservedTrial(9, curve(4.0)), [*done, bad]).stop
    good = ObservedTrial(9, curve(4.0, 1.5))
    assert not judge(rule, good, [*done, good]).stop


def test_a_script_that_runs_on_is_stopped_at_the_end() -> None:
    rule = StopRule(method="asha", max=2, stop_at_max=True)
    trial = ObservedTrial(0, curve(1.0, 1.0))
    found = judge(rule, trial, [trial])
    assert found.stop
    assert found.is_end


def test_the_bottom_of_a_population_is_replaced_by_the_top() -> None:
    rule = StopRule(method="pbt", interval=2)
    population = [ObservedTrial(n, rungs={2: float(n)}) for n in range(4)]
    assert replacement(rule, population[3], population, "seed") == 0
    assert replacement(rule, population[1], population, "seed") is None
    assert replacement(rule, population[0], population[:1], "seed") is None


def test_a_copy_has_values_beside_its_parents() -> None:
    space = parse_space({"lr": {"log": [1e-4, 1e-1]}, "n": {"int": [1, 9]}, "opt": ["a", "b"]})
    rule = StopRule(method="pbt", resample=0.0)
    point = explore(rule, space, {"lr": 0.01, "n": 5, "opt": "a"}, "seed")
    assert point["lr"] in (0.008, 0.012)
    assert point["n"] in (4, 6)
    assert point["opt"] in ("a", "b")


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"method": "ahsa"}, "did you mean `asha`"),
        ({"method": "asha", "etaa": 3}, "did you mean `eta`"),
        ({"method": "asha", "eta": 1}, "between 2 and 100"),
        ({"method": "asha", "min": 9, "max": 3}, "max 3 is below min 9"),
        ({"method": "hyperband"}, "needs `max`"),
        ({"method": "asha", "min": "x"}, "stop:"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_sentence(told: dict, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        parse_rule(told)
