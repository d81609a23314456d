"""What came of a plan: predicted and actual peak and step time, as a finished run keeps them.

Owns when the two can be compared and under which names they are written; calibration.py reads them
back. Pure.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.estimate import estimate
from trackyard.finetune.planning.gpus import GIB, match_gpu
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run saw on its first GPU."""

    device: str
    memory_bytes: int
    peak_bytes: int
    #: seconds of a step, as logged over the run
    step_times: Sequence[float] = ()

    @property
    def step_seconds(self) -> float:
        """The usual time of a step: the first logs, with warm-up and compiling, count no more."""
        return statistics.median(self.step_times) if self.step_times else 0.0


def is_comparable(setup: TrainingSetup) -> bool:
    """Tell whether a run's batches had the size that was planned: rows cut to their own length
    are smaller.
    """
    return setup.packing or setup.compile


def compare(
    shape: ModelShape, setup: TrainingSetup, seen: Measured
) -> tuple[dict[str, float], dict[str, str]] | None:
    """Return metrics and parameters for the run to keep, or None where nothing can be compared."""
    gpu = match_gpu(seen.device, seen.memory_bytes)
    if gpu is None or not is_comparable(setup) or not seen.peak_bytes:
        return None
    said = estimate(shape, setup, gpu, calibration.factors(gpu.name))
    metrics = {
        calibration.PREDICTED_PEAK: said.peak_gib,
        calibration.ACTUAL_PEAK: seen.peak_bytes / GIB,
        calibration.PREDICTED_STEP: said.time.total,
    }
    if seen.step_seconds:
        metrics[calibration.ACTUAL_STEP] = seen.step_seconds
    params = {
        calibration.GPU_PARAM: gpu.name,
        calibration.MODEL_PARAM: shape.name,
        calibration.SETUP_PARAM: json.dumps(setup.json(), separators=(",", ":")),
    }
    return metrics, params
