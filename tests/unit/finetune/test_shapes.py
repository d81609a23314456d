"""Shapes count parameters exactly, and read what Hugging Face configs say."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune.shapes import BUILT_IN, find_shape, shape_of

#: As the models' cards or an executed run print them.
PUBLISHED = {
    "tinyllama-1.1b": 1_100_048_384,
    "openllama-3b": 3_426_473_600,
    "openllama-7b": 6_738_415_616,
    "openllama-13b": 13_015_864_320,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "mistral-7b": 7_248_023_552,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
}


@pytest.mark.parametrize(("name", "params"), PUBLISHED.items())
def test_built_in_shapes_have_the_published_number_of_parameters(name: str, params: int) -> None:
    assert BUILT_IN[name].params() == params


@pytest.mark.parametrize(
    ("name", "adapters"),
    [
        ("tinyllama-1.1b", 26_320_896),
        ("openllama-3b", 51_978_240),
        ("openllama-7b", 81_108_992),
        ("openllama-13b", 126_361_600),
    ],
)
def test_adapters_on_every_layer_and_the_head_count_as_published(name: str, adapters: int) -> None:
    assert BUILT_IN[name].adapter_params(32, ("all-linear", "lm_head")) == adapters


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("openlm-research/open_llama_13b", "openllama-13b"),
        ("TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T", "tinyllama-1.1b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("mistralai/Mistral-7B-v0.3", "mistral-7b"),
    ],
)
def test_names_of_the_hub_lead_to_the_built_in_shapes(model: str, name: str) -> None:
    assert find_shape(model).name == name


def test_a_shape_survives_its_config() -> None:
    shape = BUILT_IN["qwen3-8b"]
    again = shape_of(shape.config(), shape.name)
    assert again.but(source=()) == shape


def test_text_config_of_a_multimodal_model_is_read() -> None:
    shape = BUILT_IN["gemma-3-4b"]
    assert shape_of({"model_type": "gemma3", "text_config": shape.config()}, "x").layers == 34


def test_what_cannot_be_planned_is_refused_with_the_reason() -> None:
    with pytest.raises(SetupError, match="mixture of experts"):
        shape_of({**BUILT_IN["llama-3-8b"].config(), "num_local_experts": 8}, "mixtral")
    with pytest.raises(SetupError, match="has no hidden_size"):
        shape_of({"model_type": "t5", "d_model": 512}, "t5")


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(SetupError) as caught:
        find_shape("nobody/llama-3.1-9b")
    assert caught.value.hint == "did you mean llama-3.1-8b?"


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(SetupError, match="no linear layer 'q_prj'") as caught:
        BUILT_IN["llama-3-8b"].targets(("q_prj",))
    assert caught.value.hint == "did you mean q_proj?"
