"""Whether a recipe fits its GPU, as far as it can be told before anything is queued.

Owns the question; the answer is the planner's. Says nothing where the GPU or the model is not
known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trackyard.core.errors import SetupError
from trackyard.finetune.planning import check
from trackyard.finetune.planning.gpus import GpuModel, find_gpu
from trackyard.finetune.recipe import Recipe, read
from trackyard.finetune.shapes import find_shape

#: What a command that trains is started by.
MODULE = "trackyard.finetune"


@dataclass(frozen=True, slots=True)
class Fit:
    """What the planner says."""

    fits: bool
    sentence: str
    hint: str | None = None


def judge(recipe: Recipe, offered: Sequence[GpuModel] = ()) -> Fit | None:
    """Return the planner's verdict, or None where it has none.

    A recipe that names no type of GPU is judged by the best of those that are offered.
    """
    try:
        shape = find_shape(recipe.model)
        kinds = [find_gpu(recipe.gpu_type)] if recipe.gpu_type else list(offered)
    except SetupError:
        return None
    if not kinds:
        return None
    setup = recipe.setup()
    found = [check.verdict(shape, setup, gpu) for gpu in kinds]
    best = max(found, key=lambda one: (one.fits, one.estimate.gpu.memory_gib))
    return Fit(fits=best.fits, sentence=best.sentence(), hint=best.hint())


def refuse_what_cannot_fit(recipe: Recipe, offered: Sequence[GpuModel] = ()) -> Fit | None:
    """Raise a fault for what cannot fit; return the verdict otherwise."""
    found = judge(recipe, offered)
    if found is not None and not found.fits:
        raise SetupError(f"this recipe {found.sentence}", hint=found.hint)
    return found


def refuse_command(command: Sequence[str], gpu_types: Sequence[str] = ()) -> None:
    """Raise a fault for a command that trains by a recipe which cannot fit; pass any other."""
    words = list(command)
    if MODULE not in words[1:] or words[words.index(MODULE) - 1] != "-m":
        return
    first, *rest = words[words.index(MODULE) + 1 :] or [""]
    try:
        recipe = read(first, rest)
        kinds = [find_gpu(name) for name in gpu_types]
    except SetupError:
        return
    refuse_what_cannot_fit(recipe, kinds)
