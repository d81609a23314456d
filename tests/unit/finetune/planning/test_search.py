"""Plans: the largest micro-batch that fits, ranked, and why the others were rejected."""

import itertools
from typing import Any

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune.planning.estimate import SetupEstimate
from trackyard.finetune.planning.gpus import find_gpu
from trackyard.finetune.planning.memory import MemoryParts
from trackyard.finetune.planning.search import PlanRequest, search
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import BUILT_IN, ModelShape


def request(model: str = "llama-3.1-8b", gpu: str = "H200", **more: Any) -> PlanRequest:
    return PlanRequest(BUILT_IN[model], find_gpu(gpu), tokens=1e8, **more)


def test_every_plan_fits_and_is_ranked_by_gpu_hours() -> None:
    found = search(request())
    assert found.ranked
    assert all(plan.fits for plan in found.ranked)
    hours = [plan.gpu_hours(1e8) for plan in found.ranked]
    assert all(one <= two * 1.03 for one, two in itertools.pairwise(hours))


def test_the_micro_batch_is_the_largest_that_fits() -> None:
    asked = request(given={"method": "full", "precision": "bf16", "compile": False})
    for plan in search(asked).ranked:
        if plan.setup.micro_batch == asked.global_batch:
            continue
        doubled = plan.setup.but(
            micro_batch=2 * plan.setup.micro_batch, accumulation=plan.setup.accumulation // 2
        )
        again = search(request(given={**doubled.json(), "micro_batch": doubled.micro_batch}))
        assert not again.ranked


def test_accumulation_makes_up_the_global_batch() -> None:
    asked = request(gpus=2, global_batch=32)
    for plan in search(asked).ranked:
        assert plan.setup.micro_batch * plan.setup.accumulation * plan.setup.world == 32


def test_what_is_given_is_kept() -> None:
    given = {"method": "lora", "checkpointing": "full", "lora_rank": 64, "compile": False}
    for plan in search(request(given=given)).ranked:
        values = plan.setup.json()
        assert {key: values[key] for key in given} == given


def test_every_rejection_says_why_in_one_line() -> None:
    found = search(request(gpu="A10G", given={"method": "full"}))
    assert not found.ranked
    for one in found.rejected:
        assert "more than A10G has" in one.reason
        assert "\n" not in one.reason


def test_hardware_without_bfloat16_is_told_of() -> None:
    found = search(request("tinyllama-1.1b", "T4", given={"method": "lora"}))
    assert not found.ranked
    assert found.rejected[0].reason == "T4 has no bfloat16 arithmetic: use fp16 or fp32"


def test_a_batch_that_cannot_be_split_is_refused() -> None:
    with pytest.raises(SetupError, match="cannot be split over 3 GPUs"):
        search(request(gpus=3, global_batch=16))
    with pytest.raises(SetupError, match="does not divide"):
        search(request(given={"micro_batch": 3}))


def test_offloading_is_for_what_fits_in_no_other_way() -> None:
    assert not any(plan.setup.offload for plan in search(request()).ranked)
    full = search(request("openllama-13b", "A100", given={"method": "full", "precision": "bf16"}))
    assert full.ranked
    assert all(plan.setup.offload for plan in full.ranked)


def test_seventy_billion_need_sharding() -> None:
    found = search(request("llama-3.1-70b", "H100", gpus=8, given={"method": "full"}))
    assert found.ranked
    assert {plan.setup.sharding for plan in found.ranked} == {"zero3"}


def test_a_trace_that_says_more_makes_the_micro_batch_smaller() -> None:
    """The traced parts of the best plans replace the closed form's, and are solved anew."""

    def tracer(shape: ModelShape, setup: TrainingSetup) -> MemoryParts:
        return MemoryParts(weights=20e9 * setup.micro_batch + 20e9)

    given = {"method": "lora", "loss": "chunked", "compile": True, "checkpointing": "none"}
    found = search(request(given=given), tracer)
    best: SetupEstimate = found.ranked[0]
    assert best.source == "trace"
    assert best.setup.micro_batch == 4
    found = search(request(given=given), lambda *_: MemoryParts(weights=200e9))
    assert not found.ranked
    assert found.rejected[-1].best.source == "trace"


def test_price_ranks_where_it_is_asked_for() -> None:
    found = search(request(by_price=True))
    prices = [plan.price(1e8) or 0 for plan in found.ranked]
    assert all(one <= two * 1.03 for one, two in itertools.pairwise(prices))


def test_choices_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(SetupError, match="exclude each other: method qlora, sharding zero3, 8"):
        search(request(gpus=8, given={"method": "qlora", "sharding": "zero3"}))
