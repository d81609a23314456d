"""A setup says which values go together, and names the nearest right one for a wrong one."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune.setup import TrainingSetup


def test_tokens_of_a_step_count_every_gpu_and_every_accumulated_batch() -> None:
    setup = TrainingSetup(
        micro_batch=2, seq=512, accumulation=4, gpus=2, nodes=3, sharding="zero3"
    )
    assert setup.world == 6
    assert setup.micro_tokens == 1024
    assert setup.step_tokens == 1024 * 4 * 6


@pytest.mark.parametrize(
    ("sharding", "shards"), [("ddp", 1), ("zero2", 8), ("zero3", 8), ("hsdp", 4)]
)
def test_state_is_spread_over_the_gpus_that_shard_it(sharding: str, shards: int) -> None:
    assert TrainingSetup(gpus=4, nodes=2, sharding=sharding).shards == shards


def test_a_setup_survives_json() -> None:
    setup = TrainingSetup(method="lora", lora_targets=("q_proj", "v_proj"), compile=True)
    assert TrainingSetup.from_json(setup.json()) == setup


@pytest.mark.parametrize(
    ("values", "words", "hint"),
    [
        ({"method": "qlorra"}, "method cannot be 'qlorra'", "did you mean qlora?"),
        ({"precision": "int3"}, "precision cannot be 'int3'", None),
        ({"micro_batch": 0}, "micro_batch must be at least 1", None),
        ({"gpus": 2}, "2 GPUs need a sharding", None),
        ({"sharding": "ddp"}, "needs more than one GPU", None),
        ({"sharding": "hsdp", "gpus": 8}, "it needs two", None),
        ({"in_backward": True, "accumulation": 2}, "accumulation must be 1", None),
        ({"in_backward": True, "gpus": 2, "sharding": "ddp"}, "single GPU", None),
        ({"offload": True, "gpus": 2, "sharding": "ddp"}, "offload does not go", None),
    ],
)
def test_values_that_cannot_be_or_do_not_go_together(
    values: dict[str, object], words: str, hint: str | None
) -> None:
    with pytest.raises(SetupError, match=words) as caught:
        TrainingSetup(**values)
    if hint:
        assert caught.value.hint == hint


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(SetupError, match="no 'micro_bach'") as caught:
        TrainingSetup.from_json({"micro_bach": 3})
    assert caught.value.hint == "did you mean micro_batch?"
