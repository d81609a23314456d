"""Recipes: typed, strict, and with errors that name the key and the nearest right one."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune import recipe
from trackyard.finetune.setup import TrainingSetup


def fault(values: dict[str, object], *words: str) -> SetupError:
    with pytest.raises(SetupError) as found:
        recipe.parse(values, words)
    return found.value


def test_defaults_make_a_recipe() -> None:
    """A recipe without a key is LoRA in bf16 on one GPU."""
    found = recipe.parse({})
    assert (found.method, found.precision, found.gpus) == ("lora", "bf16", 1)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("metod", "did you mean method?"),
        ("optimizer.learning_rat", "did you mean"),
        ("lora.rnk", "did you mean lora.rank?"),
        ("warmup_step", "did you mean optimizer.warmup_steps?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(key: str, hint: str) -> None:
    """The message names the key, the hint the right one."""
    said = fault({}, f"{key}=1")
    assert key in said.message
    if hint != "did you mean":
        assert said.hint == hint


def test_an_unknown_key_inside_a_section_is_refused() -> None:
    """Sections are as strict as the top."""
    said = fault({"lora": {"rnak": 8}})
    assert said.message == "a recipe has no key lora.rnak"
    assert said.hint == "did you mean lora.rank?"


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"method": "loar"}, "method cannot be 'loar'"),
        ({"seq": "long"}, "seq is a number, not 'long'"),
        ({"seq": 10.5}, "seq is a whole number"),
        ({"packing": "yes"}, "packing is true or false"),
        ({"lora": 3}, "lora holds keys of its own"),
        ({"model": ["a"]}, "model is one word"),
        ({"global_batch": 3, "micro_batch": 2}, "no multiple of micro_batch"),
        ({"precision": "float8"}, "float8 cannot be trained yet"),
        (
            {"optimizer": {"name": "adamw8bit"}, "gpus": 2, "sharding": "zero3"},
            "adamw8bit does not go with sharding zero3",
        ),
        ({"method": "qlora", "gpus": 2, "sharding": "zero3"}, "qlora does not go with"),
        ({"optimizer": {"in_backward": True}}, "in_backward cannot clip"),
        ({"gpus": 2}, "2 GPUs need a sharding"),
        ({"data": {"eval_fraction": 1.0}}, "eval_fraction"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, object], part: str) -> None:
    """Wrong types and contradictions are found before anything is queued."""
    assert part in fault(values).message


def test_words_win_over_the_file_and_may_be_short() -> None:
    """`lr=1e-4` finds its section where the name is the only one."""
    found = recipe.parse(
        {"optimizer": {"lr": "2e-4"}}, ["lr=1e-4", "lora.rank=8", "targets=[q_proj, v_proj]"]
    )
    assert found.optimizer.lr == 1e-4
    assert found.lora.rank == 8
    assert found.lora.targets == ("q_proj", "v_proj")


def test_a_short_key_that_two_sections_have_is_refused() -> None:
    """`every_steps` could be of save or of eval."""
    assert "save.every_steps or eval.every_steps" in fault({}, "every_steps=5").message


def test_a_recipe_survives_yaml() -> None:
    """What is printed can be read again."""
    import yaml

    found = recipe.parse({"method": "full", "eval": {"prompts": ["a: b"]}}, ["seed=7"])
    assert recipe.parse(yaml.safe_load(found.yaml())) == found


def test_the_setup_is_what_memory_depends_on() -> None:
    """Accumulation is the global batch over micro-batch and GPUs."""
    found = recipe.parse(
        {"global_batch": 32, "micro_batch": 2, "gpus": 4, "sharding": "zero3", "method": "full"}
    )
    assert found.setup() == TrainingSetup(
        micro_batch=2,
        accumulation=4,
        gpus=4,
        sharding="zero3",
        loss="chunked",
        packing=True,
        checkpointing="selective",
    )


@pytest.mark.parametrize("name", [path.stem for path in recipe.SHIPPED.glob("*.yaml")])
def test_every_shipped_recipe_is_right(name: str) -> None:
    """They are found by name and pass every check."""
    assert recipe.read(name).setup().seq >= 512
