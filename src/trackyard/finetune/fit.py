"""Whether a recipe fits its GPU, told before anything is queued, and how right that was.

Owns the question, and what a finished run writes beside the prediction; the answer is the
planner's. Says nothing where the GPU or the model is not known here.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import Any

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
    planner = _planner()
    if not recipe.gpu_type or planner is None:
        return None
    check, gpus, shapes, _ = planner
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


def compared(
    recipe: Recipe, *, device: str, memory_bytes: int, peak_gib: float, step_seconds: float
) -> tuple[dict[str, float], dict[str, str]] | None:
    """Return the metrics and parameters that keep a run's plan beside what came of it."""
    planner = _planner()
    if planner is None:
        return None
    check, gpus, shapes, names = planner
    gpu = gpus.match_gpu(device, memory_bytes)
    try:
        shape = shapes.find_shape(recipe.model)
    except SetupError:
        return None
    if gpu is None:
        return None
    planned = check.verdict(shape, recipe.setup(), gpu).estimate
    numbers = {
        names.PREDICTED_PEAK: float(planned.peak_gib),
        names.ACTUAL_PEAK: peak_gib,
        names.PREDICTED_STEP: float(planned.time.total),
        names.ACTUAL_STEP: step_seconds,
    }
    setup = json.dumps(recipe.setup().json())
    words = {names.GPU_PARAM: gpu.name, names.SETUP_PARAM: setup, names.MODEL_PARAM: recipe.model}
    return numbers, words


def _planner() -> tuple[Any, Any, Any, Any] | None:
    names = ("planning.check", "planning.gpus", "shapes", "planning.calibration")
    try:
        found = [importlib.import_module(f"trackyard.finetune.{name}") for name in names]
    except ModuleNotFoundError:
        return None
    return found[0], found[1], found[2], found[3]
