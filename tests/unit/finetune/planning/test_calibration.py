"""Factors follow what runs have taught, slowly at first, and say how good plans have been."""

import pytest

from trackyard.finetune.planning.calibration import (
    GPU_PARAM,
    METRICS,
    PARAMS,
    SETUP_PARAM,
    Factors,
    PlanOutcome,
    accuracy,
    factors,
    pairs_of,
    refit,
)
from trackyard.finetune.planning.estimate import estimate
from trackyard.finetune.planning.gpus import find_gpu
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import BUILT_IN


def pair(memory: float = 1.0, time: float = 1.0, *, compiled: bool = False) -> PlanOutcome:
    return PlanOutcome("H200", 10.0, 10.0 * memory, 1.0, time, compiled)


def test_no_pair_changes_nothing() -> None:
    assert refit(Factors(1.1, 0.9, 0.8), []) == Factors(1.1, 0.9, 0.8)


def test_many_pairs_move_a_factor_all_the_way() -> None:
    found = refit(Factors(), [pair(1.05, 1.2) for _ in range(200)])
    assert found.memory == pytest.approx(1.05, abs=0.002)
    assert found.eager == pytest.approx(1.2, abs=0.005)
    assert found.compiled == 1.0


def test_one_pair_moves_it_a_third_of_the_way_and_an_odd_one_not_at_all() -> None:
    assert 1.0 < refit(Factors(), [pair(1.3)]).memory < 1.1
    assert refit(Factors(), [pair(time=9.0)]).eager == 1.0


def test_factors_are_of_one_gpu() -> None:
    other = PlanOutcome("L4", 10.0, 12.0)
    assert factors("H200", [other] * 50) == factors("H200")
    assert factors("L4", [other] * 50).memory > 1.15


def test_a_memory_factor_goes_into_the_buffers() -> None:
    shape, gpu = BUILT_IN["openllama-3b"], find_gpu("H200")
    plain = estimate(shape, TrainingSetup(), gpu)
    taught = estimate(shape, TrainingSetup(), gpu, Factors(memory=1.1))
    assert taught.parts.total == pytest.approx(1.1 * plain.parts.total)
    assert taught.parts.weights == plain.parts.weights


def test_accuracy_is_said_in_a_sentence() -> None:
    assert accuracy([]).sentence() == "no run has been compared with its plan yet"
    words = accuracy([pair(1.01, 1.1), pair(1.02, 1.3), pair(1.0, 1.0)]).sentence()
    assert words.startswith("peak memory of 3 finished runs: off by 1.0% in the middle")
    assert "67% within 15%" in words


def test_pairs_are_read_from_the_table_of_runs() -> None:
    values = {
        METRICS[0]: [10.0, None],
        METRICS[1]: [11.0, 3.0],
        METRICS[2]: [1.0, None],
        METRICS[3]: [1.5, None],
    }
    table = {
        "run_id": ["a", "b"],
        "metrics": {name: {"last": column} for name, column in values.items()},
        "params": {name: ["", ""] for name in PARAMS},
    }
    table["params"][GPU_PARAM] = ["H200", "H200"]
    table["params"][SETUP_PARAM] = ['{"compile": true}', None]
    assert pairs_of(table) == [PlanOutcome("H200", 10.0, 11.0, 1.0, 1.5, is_compiled=True)]
