"""Whether a recipe fits its GPU, as far as it can be told before anything is queued.

Owns the question; the answer is the planner's. Says nothing where the GPU or the model is not
known here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from trackyard.core.errors import SetupError
from trackyard.finetune.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Fit:
    """What the planner says."""

    fits: bool
    sentence: str
    hint: str | None = None


def judge(recipe: Recipe) -> Fit | None:
    """Return the planner's verdict, or None where it has none."""
    if not recipe.gpu_type:
        return None
    try:
        check = importlib.import_module("trackyard.finetune.planning.check")
        gpus = importlib.import_module("trackyard.finetune.planning.gpus")
        shapes = importlib.import_module("trackyard.finetune.shapes")
    except ModuleNotFoundError:
        return None
    try:
        shape, gpu = shapes.find_shape(recipe.model), gpus.find_gpu(recipe.gpu_type)
    except SetupError:
        return None
    found = check.verdict(shape, recipe.setup(), gpu)
    return Fit(fits=found.fits, sentence=found.sentence(), hint=found.hint())


def refuse_what_cannot_fit(recipe: Recipe) -> Fit | None:
    """Raise a fault for what cannot fit; return the verdict otherwise."""
    found = judge(recipe)
    if found is not None and not found.fits:
        raise SetupError(f"this recipe {found.sentence}", hint=found.hint)
    return found
