"""From a recipe to what is started: the command of a rank, the launch line, the job's fields.

Owns argv alone. Starts nothing and asks no server.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from trackyard.core.errors import SetupError
from trackyard.finetune.recipe import SHIPPED, Recipe, find

MODULE = "trackyard.finetune"


def job_command(source: str, words: Sequence[str], folder: Path) -> list[str]:
    """Return what every rank of a job runs; the recipe must go along in the job's package."""
    path = find(source)
    if path.parent == SHIPPED:
        return ["python", "-m", MODULE, path.stem, *words]
    try:
        inside = path.resolve().relative_to(folder.resolve())
    except ValueError as fault:
        raise SetupError(
            f"{path} lies outside the folder that is sent along",
            hint="run the command in the recipe's folder or above it",
        ) from fault
    return ["python", "-m", MODULE, str(inside), *words]


def local_command(source: str, words: Sequence[str], recipe: Recipe) -> list[str]:
    """Return the launch line for this machine."""
    what = ["-m", MODULE, str(find(source)), *words]
    if recipe.nodes > 1:
        raise SetupError(
            f"the recipe is for {recipe.nodes} nodes", hint="leave --now out to queue it"
        )
    if recipe.gpus == 1:
        return [sys.executable, *what]
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*run, f"--nproc-per-node={recipe.gpus}", *what]


def submit_flags(recipe: Recipe, *, launcher: str = "") -> list[str]:
    """Return the flags of `yard submit` that a recipe stands for."""
    flags = ["--gpus", str(recipe.gpus)]
    if recipe.nodes > 1:
        flags += ["--nodes", str(recipe.nodes)]
    if recipe.gpus * recipe.nodes > 1:
        flags += ["--launcher", launcher or "torchrun"]
        flags += ["--processes-per-node", str(recipe.gpus)]
    if recipe.gpu_type:
        flags += ["--gpu-type", recipe.gpu_type]
    if recipe.name:
        flags += ["--name", recipe.name]
    return flags


def line(words: Sequence[str]) -> str:
    """Return words as one would type them."""
    return shlex.join(words)
