"""The closed form against measured peaks, and the relations between setups that hold anywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.finetune.cells import CELLS
from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.gpus import GIB
from trackyard.finetune.planning.memory import (
    host_bytes,
    moments,
    optimizer_bytes,
    peak,
    trainable_params,
    weight_bytes,
)
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import BUILT_IN

TINY, SMALL, SEVEN, BIG = (
    BUILT_IN[name] for name in ("tinyllama-1.1b", "openllama-3b", "openllama-7b", "openllama-13b")
)
MEASURED = [cell for cell in calibration.recorded()["cells"] if cell["peak_gib"]]
BENCH = Path(__file__).parents[4] / "bench" / "finetune"
TRACED = json.loads((BENCH / "predicted.json").read_text())
ON_H200 = [json.loads(line) for line in (BENCH / "measured.jsonl").read_text().splitlines()]


def gib(model: str, setup: TrainingSetup) -> float:
    return peak(BUILT_IN[model], setup).total / GIB


@pytest.mark.parametrize("cell", MEASURED, ids=lambda cell: f"{cell['model']}-{cell['peak_gib']}")
def test_recorded_peaks_are_predicted_within_three_percent(cell: dict[str, Any]) -> None:
    predicted = gib(cell["model"], TrainingSetup.from_json(cell["setup"]))
    assert predicted == pytest.approx(cell["peak_gib"], rel=0.03)


def test_the_middle_error_over_the_recorded_peaks_is_below_one_percent() -> None:
    errors = sorted(
        abs(gib(cell["model"], TrainingSetup.from_json(cell["setup"])) / cell["peak_gib"] - 1)
        for cell in MEASURED
    )
    assert errors[len(errors) // 2] < 0.01


def test_the_cells_of_the_bench_are_predicted_as_they_were_measured() -> None:
    """Forty cells ran on one H200 after they had been predicted; by trace and by closed form."""
    setups = {cell["name"]: cell for cell in CELLS}
    errors = []
    for row in ON_H200:
        if "peak_gib" not in row:
            continue
        cell = setups[row["name"]]
        closed = gib(cell["model"], TrainingSetup.from_json(cell["setup"]))
        assert closed == pytest.approx(row["peak_gib"], rel=0.03), row["name"]
        said = TRACED[row["name"]]
        errors.append(abs((said["trace_gib"] or said["closed_gib"]) / row["peak_gib"] - 1))
    assert len(errors) >= 30
    assert max(errors) < 0.03
    assert sorted(errors)[len(errors) // 2] < 0.001


def test_weights_gradients_and_state_are_exact() -> None:
    """The states that the lab's rows print, in decimal gigabytes."""
    for shape, setup, printed in [
        (TINY, TrainingSetup(precision="fp32"), 17.6),
        (TINY, TrainingSetup(), 8.8),
        (TINY, TrainingSetup(precision="mixed"), 17.6),
        (SMALL, TrainingSetup(), 27.4),
        (SEVEN, TrainingSetup(), 53.9),
        (BIG, TrainingSetup(), 104.1),
        (BIG, TrainingSetup(optimizer="sgd"), 52.1),
    ]:
        count = trainable_params(shape, setup)
        trained = 2 if setup.precision == "bf16" else 4
        state = weight_bytes(shape, setup) + count * trained + optimizer_bytes(count, setup)
        assert state / 1e9 == pytest.approx(printed, abs=0.05)


def lab(**more: Any) -> TrainingSetup:
    return TrainingSetup(seq=512, **more)


def test_the_order_of_the_lab_rows_holds() -> None:
    """Micro-batch drives activations, precision and optimizer drive state, LoRA frees it."""
    rank = {"method": "lora", "lora_rank": 32, "lora_targets": ("all-linear", "lm_head")}
    small = {"micro_batch": 4, "accumulation": 4}
    rows = {
        "G1": gib(TINY.name, lab(precision="fp32", micro_batch=32)),
        "G2": gib(TINY.name, lab(precision="fp32", micro_batch=8)),
        "G3": gib(TINY.name, lab(precision="fp32", micro_batch=8, accumulation=4)),
        "G4": gib(TINY.name, lab(micro_batch=8, accumulation=4)),
        "G5": gib(TINY.name, lab(precision="mixed", micro_batch=8, accumulation=4)),
        "G7": gib(SEVEN.name, lab(**small)),
        "G8": gib(BIG.name, lab()),
        "G9": gib(BIG.name, lab(optimizer="sgd")),
        "G12": gib(SEVEN.name, lab(**rank, **small)),
        "G13": gib(SEVEN.name, lab(**{**rank, "method": "qlora"}, **small)),
        "G14": gib(BIG.name, lab(**rank, **small)),
    }
    assert rows["G1"] > 79.25 > rows["G2"]
    assert rows["G8"] > 79.25 > rows["G9"]
    assert rows["G2"] < rows["G3"] < 1.2 * rows["G2"]
    assert rows["G4"] < rows["G5"] < rows["G3"]
    assert rows["G14"] < rows["G7"]
    assert rows["G13"] < 0.75 * rows["G12"]


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"checkpointing": "full"}, {}),
        ({"checkpointing": "selective"}, {}),
        ({"checkpointing": "offload"}, {"checkpointing": "full"}),
        ({"loss": "chunked"}, {}),
        ({"compile": True}, {}),
        ({"optimizer": "adamw8bit"}, {}),
        ({"optimizer": "sgd"}, {"optimizer": "adamw8bit"}),
        ({}, {"precision": "mixed"}),
        ({"method": "lora"}, {}),
        ({"method": "qlora"}, {"method": "lora"}),
        ({"micro_batch": 4}, {"micro_batch": 8}),
        ({"gpus": 8, "sharding": "zero3"}, {"gpus": 8, "sharding": "ddp"}),
        ({"gpus": 8, "sharding": "zero3"}, {"gpus": 8, "sharding": "zero2"}),
        ({"gpus": 8, "sharding": "zero3", "offload": True}, {"gpus": 8, "sharding": "zero3"}),
    ],
)
def test_what_saves_memory_is_predicted_to(less: dict[str, Any], more: dict[str, Any]) -> None:
    base = {"micro_batch": 8, "seq": 2048}
    assert gib("llama-3.1-8b", TrainingSetup(**{**base, **less})) < gib(
        "llama-3.1-8b", TrainingSetup(**{**base, **more})
    )


def test_in_backward_leaves_one_gradient() -> None:
    setup = TrainingSetup(micro_batch=1, seq=512, loss="chunked")
    whole, freed = peak(SEVEN, setup), peak(SEVEN, setup.but(in_backward=True))
    assert whole.gradients - freed.gradients > 0.9 * SEVEN.params() * 2


def test_scores_are_held_in_full_only_in_32_bits_with_grouped_heads() -> None:
    setup = TrainingSetup(micro_batch=4, seq=1024, precision="fp32")
    grouped = peak(TINY, setup).activations
    whole = peak(TINY.but(kv_heads=32), setup).activations
    assert grouped - whole > 0.9 * 22 * 4 * 32 * 1024 * 1024 * 4
    assert peak(TINY, setup.but(precision="bf16")).activations < 0.6 * whole


def test_offloading_moves_state_to_the_host() -> None:
    setup = TrainingSetup(gpus=4, sharding="zero3", offload=True)
    assert host_bytes(SEVEN, setup) == pytest.approx(SEVEN.params() * 8, rel=0.01)
    assert host_bytes(SEVEN, setup.but(offload=False)) == 0


def test_every_moment_has_the_same_weights() -> None:
    for one in moments(SEVEN, TrainingSetup()).values():
        assert one.weights == SEVEN.params() * 2


def cells() -> list[dict[str, Any]]:
    from bench.finetune.cells import CELLS

    return CELLS


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell["name"])
def test_the_closed_form_agrees_with_the_traces(cell: dict[str, Any]) -> None:
    """Traces of all cells of the bench were written down: neither may drift unseen."""
    traced = TRACED[cell["name"]]["trace_gib"]
    if traced is not None:
        predicted = gib(cell["model"], TrainingSetup.from_json(cell["setup"]))
        assert predicted == pytest.approx(traced, rel=0.04)
