"""A finished run keeps what its plan said beside what came of it, where the two compare."""

import dataclasses

import pytest

from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.outcome import Measured, compare
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import BUILT_IN

SHAPE = BUILT_IN["tinyllama-1.1b"]
SETUP = TrainingSetup(micro_batch=8, seq=2048, packing=True, loss="chunked")
SEEN = Measured(
    device="NVIDIA H200",
    memory_bytes=int(139.8 * 2**30),
    peak_bytes=36 * 2**30,
    step_times=[4.0, 0.33, 0.32, 0.31],
)


def test_predicted_and_actual_are_written_and_read_back() -> None:
    found = compare(SHAPE, SETUP, SEEN)
    assert found is not None
    metrics, params = found
    assert metrics[calibration.ACTUAL_PEAK] == 36
    assert metrics[calibration.PREDICTED_PEAK] == pytest.approx(36.64, abs=0.05)
    assert metrics[calibration.ACTUAL_STEP] == pytest.approx(0.325)
    table = {
        "run_id": ["a"],
        "metrics": {name: {"last": [value]} for name, value in metrics.items()},
        "params": {name: [value] for name, value in params.items()},
    }
    (pair,) = calibration.pairs_of(table)
    assert pair.gpu == "H200"
    assert calibration.accuracy([pair]).worst_peak < 0.02


@pytest.mark.parametrize(
    ("setup", "seen"),
    [
        (SETUP.but(packing=False), SEEN),
        (SETUP, dataclasses.replace(SEEN, device="cpu")),
        (SETUP, dataclasses.replace(SEEN, peak_bytes=0)),
    ],
)
def test_what_does_not_compare_is_not_written(setup: TrainingSetup, seen: Measured) -> None:
    assert compare(SHAPE, setup, seen) is None
