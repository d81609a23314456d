"""The questions people ask, answered from figures."""

from typing import Any

from trackyard.finetune.planning.answers import answers, qlora_words
from trackyard.finetune.planning.check import changes, verdict
from trackyard.finetune.planning.estimate import estimate
from trackyard.finetune.planning.gpus import find_gpu
from trackyard.finetune.planning.search import PlanRequest, PlanResults, search
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import BUILT_IN


def plans(model: str, gpu: str, **given: Any) -> PlanResults:
    return search(PlanRequest(BUILT_IN[model], find_gpu(gpu), tokens=1e8, given=given))


def answered(model: str, gpu: str, **given: Any) -> dict[str, str]:
    return {one.question: one.answer for one in answers(plans(model, gpu, **given))}


def test_what_fits_is_compared_with_the_next_gpu_and_with_more() -> None:
    found = answered("llama-3.1-8b", "H100", method="lora")
    assert found["does it fit"].startswith("yes: on 1 x H100")
    assert "H200" in found["on the next GPU"] or "B200" in found["on the next GPU"]
    assert found["on how many GPUs"].startswith("it fits on 1; 2 are ")


def test_what_does_not_fit_gets_the_cheapest_way() -> None:
    found = answered("llama-3.1-8b", "A10G", method="full")
    assert found["does it fit"].startswith("no: on 1 x A10G")
    assert "LoRA" in found["what would make it fit"]
    assert found["on how many GPUs"].startswith("it fits on 2")


def test_qlora_is_explained_and_can_need_more_than_lora() -> None:
    words = answered("llama-3.1-8b", "H200")["QLoRA or LoRA"]
    assert "4-bit weights save" in words
    shape, gpu = BUILT_IN["tinyllama-1.1b"], find_gpu("A10G")
    lora = estimate(shape, TrainingSetup(method="lora", micro_batch=1, accumulation=16), gpu)
    qlora = estimate(shape, TrainingSetup(method="qlora", micro_batch=16), gpu)
    both = PlanResults(PlanRequest(shape, gpu), [lora, qlora], [])
    assert qlora.parts.total > lora.parts.total
    assert "a micro-batch of 16 against 1" in (qlora_words(both) or "")


def test_the_verdict_lets_through_what_fits() -> None:
    found = verdict(
        BUILT_IN["openllama-13b"], TrainingSetup(seq=512, optimizer="sgd"), find_gpu("A100")
    )
    assert found.fits
    found.raise_if_not()


def test_the_verdict_names_the_plan_that_would_fit() -> None:
    """13B with AdamW ran out of memory on 80 GB; so does 1.1B in 32 bits with 32 rows at once."""
    found = verdict(BUILT_IN["openllama-13b"], TrainingSetup(seq=512), find_gpu("A100"))
    assert not found.fits
    assert "does not fit on A100-80" in found.sentence()
    assert found.instead is not None
    assert found.instead.fits
    assert found.instead.setup.method == "full"
    found = verdict(
        BUILT_IN["tinyllama-1.1b"],
        TrainingSetup(micro_batch=32, seq=512, precision="fp32"),
        find_gpu("A100"),
    )
    assert not found.fits
    assert found.instead is not None
    assert found.instead.setup.precision == "fp32"
    assert (found.hint() or "").startswith("this would fit: micro_batch: 16")


def test_a_verdict_near_the_limit_asks_for_a_trace() -> None:
    shape, gpu, asked = BUILT_IN["openllama-7b"], find_gpu("H200"), []
    setup = TrainingSetup(micro_batch=8, seq=2048)

    def tracer(*what: Any) -> None:
        asked.append(what)

    assert not verdict(shape, setup, gpu, tracer).fits
    assert len(asked) == 1
    assert verdict(shape, setup.but(micro_batch=1), gpu, tracer).fits
    assert len(asked) == 1


def test_changes_are_named_as_settings() -> None:
    assert (
        changes(TrainingSetup(), TrainingSetup(method="lora", compile=True))
        == "method: lora, compile: True"
    )
