"""Several ranks over gloo, forked: every method with every sharding, and resuming after a kill."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import ranks
import tiny
from checks import check, finish, near

from trackyard.finetune.training.run import train

PATIENCE = 200.0


def _work(recipe: Any) -> int:
    return train(recipe, device="cpu")


def go(folder: Path, name: str, world: int = 1, **changes: Any) -> list[float]:
    """Train on so many ranks; return the losses."""
    recipe = tiny.recipe(folder, output=str(folder / name), **changes)
    codes = ranks.run(world, _work, recipe)
    assert codes == [0] * world, codes
    return tiny.losses(folder / name)


TWO: dict[str, Any] = {"world": 2, "gpus": 2}
SHARDINGS: dict[str, dict[str, Any]] = {
    "ddp": {**TWO, "sharding": "ddp"},
    "zero2": {**TWO, "sharding": "zero2"},
    "zero3": {**TWO, "sharding": "zero3"},
    "zero3-offload": {**TWO, "sharding": "zero3", "offload": True},
    "hsdp": {"world": 4, "gpus": 2, "nodes": 2, "micro_batch": 1, "sharding": "hsdp"},
}
METHODS: dict[str, dict[str, Any]] = {
    "full": {"method": "full"},
    "lora": {"method": "lora", "checkpointing": "full"},
    "dora": {"method": "dora"},
    "qlora": {"method": "qlora"},
}
STEPS = 2


def _pairs(folder: Path, method: str) -> None:
    """A method equals the single process under each sharding it goes with."""
    wanted = go(folder, f"{method}-alone", steps=STEPS, **METHODS[method])
    for name, sharding in SHARDINGS.items():
        if method in ("dora", "qlora") and name != "ddp":
            continue
        near(wanted, go(folder, f"{method}-{name}", steps=STEPS, **METHODS[method], **sharding))


@check
def all_weights_learn_the_same_under_every_sharding(folder: Path) -> None:
    _pairs(folder, "full")


@check
def lora_learns_the_same_under_every_sharding(folder: Path) -> None:
    _pairs(folder, "lora")


@check
def dora_and_qlora_learn_the_same_on_two_ranks(folder: Path) -> None:
    _pairs(folder, "dora")
    _pairs(folder, "qlora")


@check
def tied_heads_and_mixed_precision_are_sharded_too(folder: Path) -> None:
    tiny.make_model(folder / "tied", tied=True, kind="qwen3")
    changes: dict[str, Any] = {"model": str(folder / "tied"), "steps": STEPS}
    near(go(folder, "t1", **changes), go(folder, "t2", **changes, **SHARDINGS["zero3"]))
    changes = {"precision": "mixed", "steps": STEPS}
    near(go(folder, "m1", **changes), go(folder, "m2", **changes, **SHARDINGS["zero2"]), 5e-3)


@check
def sharded_weights_are_exported_whole(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    one = load_file(folder / "full-alone" / "model" / "model.safetensors")
    for name in ("full-zero3", "full-hsdp"):
        other = load_file(folder / name / "model" / "model.safetensors")
        assert set(one) == set(other)
        assert all(torch.allclose(one[key], other[key], atol=1e-5) for key in one), name


def _killed(folder: Path, name: str, world: int, after: int, **changes: Any) -> None:
    """Train, and end every rank with SIGKILL once a step after `after` has been logged."""
    recipe = tiny.recipe(folder, output=str(folder / name), **changes)
    leader = os.fork()
    if leader == 0:
        os.setpgid(0, 0)
        ranks.run(world, _work, recipe)
        os._exit(0)
    path = folder / name / "metrics.jsonl"
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if path.exists() and len(path.read_text().splitlines()) >= after:
            break
        time.sleep(0.01)
    os.killpg(leader, signal.SIGKILL)
    _, status = os.waitpid(leader, 0)
    assert os.WIFSIGNALED(status), "it ended before it could be killed"


@check
def a_killed_run_goes_on_bit_for_bit(folder: Path) -> None:
    for method in ("full", "lora"):
        changes: dict[str, Any] = {
            **METHODS[method],
            "steps": 40,
            "save": {"every_steps": 3},
            "lora": {"dropout": 0.1},
        }
        wanted = go(folder, f"calm-{method}", **changes)
        _killed(folder, f"cut-{method}", 1, 8, **changes)
        assert len(tiny.losses(folder / f"cut-{method}")) < 40
        assert go(folder, f"cut-{method}", **changes) == wanted, method


@check
def killed_ranks_go_on_where_they_were_and_on_another_number(folder: Path) -> None:
    changes: dict[str, Any] = {"steps": 30, "save": {"every_steps": 3}}
    wanted = go(folder, "calm", **changes)
    two = {"gpus": 2, "sharding": "zero3"}
    _killed(folder, "same", 2, 8, **changes, **two)
    near(wanted, go(folder, "same", world=2, **changes, **two), 5e-5)
    _killed(folder, "fewer", 2, 8, **changes, **two)
    near(wanted, go(folder, "fewer", **changes), 5e-5)
    _killed(folder, "more", 1, 8, **changes)
    near(wanted, go(folder, "more", world=2, **changes, **two), 5e-5)


@check
def every_optimizer_is_resumed(folder: Path) -> None:
    for name in ("adamw8bit", "adamw_bf16", "sgd"):
        changes: dict[str, Any] = {
            "optimizer": {"name": name, "momentum": 0.9},
            "save": {"every_steps": 2},
        }
        wanted = go(folder, f"whole-{name}", **changes, steps=6)
        out = folder / f"whole-{name}" / "checkpoints"
        newest = sorted(out.glob("step-*"))[-1]
        for path in newest.iterdir():
            if path.suffix == ".distcp":
                path.write_bytes(path.read_bytes()[:-1])
        (folder / f"whole-{name}" / "metrics.jsonl").unlink()
        # The newest is damaged, so the one before it is gone on from.
        again = go(folder, f"whole-{name}", **changes, steps=6)
        assert again == wanted[-len(again) :], (name, again, wanted)
        assert len(again) == 2


if __name__ == "__main__":
    finish()
