"""How good plans have been, and the factors that runs have taught: one set for each type of GPU.

Owns the recorded cells (calibration.json: measured peaks and speeds, which a test holds the
planner to), fitting factors from pairs of predicted and actual figures, and the names under which
a finished run writes such a pair. Pure but for reading that file.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

#: Metrics and tags by which a finished run keeps its plan beside what came of it.
PREDICTED_PEAK, ACTUAL_PEAK = "plan/predicted_peak_gib", "plan/actual_peak_gib"
PREDICTED_STEP, ACTUAL_STEP = "plan/predicted_step_seconds", "plan/actual_step_seconds"
METRICS = (PREDICTED_PEAK, ACTUAL_PEAK, PREDICTED_STEP, ACTUAL_STEP)
GPU_PARAM, SETUP_PARAM, MODEL_PARAM = "plan.gpu", "plan.setup", "plan.model"
PARAMS = (GPU_PARAM, SETUP_PARAM, MODEL_PARAM)

#: A pair counts for as much as this many that say the table is right.
_TRUST_IN_TABLE = 2
#: Outside of this a pair is of something else than the plan, such as a GPU that was shared.
_CREDIBLE = (0.4, 2.5)


@dataclass(frozen=True, slots=True)
class Factors:
    """What predictions are multiplied by on one type of GPU."""

    memory: float = 1.0
    eager: float = 1.0
    compiled: float = 1.0

    def time(self, *, is_compiled: bool) -> float:
        """Return the factor of a step's time."""
        return self.compiled if is_compiled else self.eager


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What a plan said of a run, and what came of it. Peaks in GiB, steps in seconds."""

    gpu: str
    predicted_peak: float
    actual_peak: float
    predicted_step: float = 0.0
    actual_step: float = 0.0
    is_compiled: bool = False


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far predictions were off, over some pairs."""

    count: int
    median_peak: float
    worst_peak: float
    median_step: float | None
    within_15_percent: float | None

    def sentence(self) -> str:
        """Say it."""
        if not self.count:
            return "no run has been compared with its plan yet"
        words = (
            f"peak memory of {self.count} finished run{'s' if self.count > 1 else ''}: off by "
            f"{self.median_peak:.1%} in the middle, {self.worst_peak:.1%} at worst"
        )
        if self.median_step is not None and self.within_15_percent is not None:
            words += (
                f"; step time: off by {self.median_step:.0%} in the middle, "
                f"{self.within_15_percent:.0%} within 15%"
            )
        return words


@cache
def recorded() -> dict[str, Any]:
    """Return the factors and the measured cells that come with the package."""
    text = resources.files(__package__).joinpath("calibration.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def factors(gpu: str, pairs: Iterable[PlanOutcome] = ()) -> Factors:
    """Return the factors of a GPU: the recorded ones, moved by the pairs that runs have left."""
    known = recorded()["factors"].get(gpu, {})
    return refit(Factors(**known), [pair for pair in pairs if pair.gpu == gpu])


def refit(known: Factors, pairs: list[PlanOutcome]) -> Factors:
    """Fit factors to pairs of one GPU. Predictions in pairs were made with `known` applied."""
    memory = [pair.actual_peak / pair.predicted_peak for pair in pairs if pair.predicted_peak]
    steps = [pair for pair in pairs if pair.predicted_step and pair.actual_step]
    eager, compiled = (
        [p.actual_step / p.predicted_step for p in steps if p.is_compiled is kind]
        for kind in (False, True)
    )
    return Factors(
        memory=known.memory * _drift(memory),
        eager=known.eager * _drift(eager),
        compiled=known.compiled * _drift(compiled),
    )


def _drift(ratios: list[float]) -> float:
    """Return the middle of the ratios, drawn towards 1 while they are few."""
    believed = [ratio for ratio in ratios if _CREDIBLE[0] < ratio < _CREDIBLE[1]]
    if not believed:
        return 1.0
    middle = statistics.median(math.log(ratio) for ratio in believed)
    return math.exp(middle * len(believed) / (len(believed) + _TRUST_IN_TABLE))


def accuracy(pairs: list[PlanOutcome]) -> Accuracy:
    """Say how good predictions have been."""
    peaks = [abs(p.predicted_peak / p.actual_peak - 1) for p in pairs if p.actual_peak]
    steps = [
        abs(p.predicted_step / p.actual_step - 1)
        for p in pairs
        if p.predicted_step and p.actual_step
    ]
    if not peaks:
        return Accuracy(0, 0.0, 0.0, None, None)
    return Accuracy(
        count=len(peaks),
        median_peak=statistics.median(peaks),
        worst_peak=max(peaks),
        median_step=statistics.median(steps) if steps else None,
        within_15_percent=sum(step <= 0.15 for step in steps) / len(steps) if steps else None,
    )


def pairs_of(table: Mapping[str, Any]) -> list[PlanOutcome]:
    """Read pairs from a table of runs with METRICS and PARAMS, as the server gives it."""
    found = []
    for place in range(len(table["run_id"])):
        values = [_last(table, name, place) for name in METRICS]
        gpu = table["params"][GPU_PARAM][place]
        if not gpu or not values[0] or not values[1]:
            continue
        setup = json.loads(table["params"][SETUP_PARAM][place] or "{}")
        found.append(
            PlanOutcome(
                gpu=gpu,
                predicted_peak=values[0],
                actual_peak=values[1],
                predicted_step=values[2] or 0.0,
                actual_step=values[3] or 0.0,
                is_compiled=bool(setup.get("compile")),
            )
        )
    return found


def _last(table: Mapping[str, Any], name: str, place: int) -> float | None:
    column = table["metrics"].get(name)
    return None if column is None else column["last"][place]
