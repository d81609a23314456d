"""Launch lines."""

from pathlib import Path

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune import launch
from trackyard.finetune.recipe import parse, read


def test_a_shipped_recipe_goes_by_its_name() -> None:
    """The node finds it in its own package."""
    command = launch.job_command("chat-lora", ["lr=1e-4"], Path())
    assert command == ["python", "-m", "trackyard.finetune", "chat-lora", "lr=1e-4"]


def test_several_gpus_are_started_by_torchrun() -> None:
    """In the queue by its launcher, here by torch's own module."""
    recipe = read("open-llama-7b-zero3", ["name=mine", "gpu_type=A100"])
    assert launch.submit_flags(recipe) == [
        "--gpus", "4", "--launcher", "torchrun", "--processes-per-node", "4",
        "--gpu-type", "A100", "--name", "mine",
    ]  # fmt: skip
    assert "--nproc-per-node=4" in launch.local_command("open-llama-7b-zero3", [], recipe)


def test_one_gpu_needs_no_launcher() -> None:
    """One process has no group to join."""
    assert launch.submit_flags(parse({})) == ["--gpus", "1"]


def test_several_nodes_are_not_started_here() -> None:
    """They are the queue's."""
    recipe = parse({"gpus": 8, "nodes": 2, "sharding": "hsdp"})
    with pytest.raises(SetupError, match="2 nodes"):
        launch.local_command("chat-lora", [], recipe)
