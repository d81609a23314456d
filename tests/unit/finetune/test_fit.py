"""A recipe that cannot fit is refused before it is queued, with the plan that would."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune import fit
from trackyard.finetune.planning.gpus import find_gpu
from trackyard.finetune.recipe import Recipe


def recipe(**more: object) -> Recipe:
    return Recipe(**{"model": "openllama-13b", "method": "full", "seq": 512, **more})


def test_what_cannot_fit_is_refused_with_the_plan_that_would() -> None:
    with pytest.raises(SetupError, match="does not fit on A10G") as caught:
        fit.refuse_what_cannot_fit(recipe(gpu_type="A10G"))
    assert (caught.value.hint or "").startswith("this would fit: ")


def test_what_fits_is_let_through() -> None:
    found = fit.refuse_what_cannot_fit(recipe(gpu_type="H200", micro_batch=1))
    assert found is not None
    assert found.fits


def test_without_a_type_the_best_of_the_fleet_decides() -> None:
    small, large = find_gpu("A10G"), find_gpu("H200")
    with pytest.raises(SetupError, match="does not fit on A10G"):
        fit.refuse_what_cannot_fit(recipe(), [small])
    assert fit.judge(recipe(micro_batch=1), [small, large]) is not None
    fit.refuse_what_cannot_fit(recipe(micro_batch=1), [small, large])


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert fit.judge(recipe()) is None
    assert fit.judge(recipe(gpu_type="Quantum9")) is None
    assert fit.judge(recipe(model="nobody/knows-this", gpu_type="H200")) is None


def test_a_submitted_command_that_trains_is_judged_as_well() -> None:
    words = ["python", "-m", "trackyard.finetune", "chat-lora", "model=llama-3.1-70b"]
    with pytest.raises(SetupError, match="does not fit on A10G"):
        fit.refuse_command(words, ["A10G"])
    fit.refuse_command(words)
    fit.refuse_command(["python", "train.py", "trackyard.finetune"], ["A10G"])
    fit.refuse_command(["python", "-m", "trackyard.finetune"], ["A10G"])
