"""The verdict on one setup before it is queued: it fits, or why not and what would.

Owns the decision that `yard finetune` and `yard submit` refuse by. Uses the closed form, so that
it takes no time; where that is within a tenth of the limit and torch is there, a trace decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.answers import WORLDS
from trackyard.finetune.planning.estimate import SetupEstimate, Tracer, estimate
from trackyard.finetune.planning.gpus import GpuModel
from trackyard.finetune.planning.search import PlanRequest, search, why_not
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

#: How near to the limit a closed form has to be for a trace to be worth its seconds.
NEAR = 0.1


@dataclass(frozen=True, slots=True)
class SetupVerdict:
    """What is said of a setup on a GPU."""

    fits: bool
    estimate: SetupEstimate
    #: why it does not fit, in one line; empty where it does
    reason: str = ""
    #: the nearest plan that would fit, or None
    instead: SetupEstimate | None = None

    def sentence(self) -> str:
        """Say it."""
        found = self.estimate
        if self.fits:
            return f"peaks at {found.peak_gib:.1f} of {found.gpu.memory_gib:.1f} GiB"
        return f"does not fit on {found.gpu.name}: {self.reason}"

    def hint(self) -> str | None:
        """Say which plan would fit."""
        if self.instead is None:
            return None
        changed = changes(self.estimate.setup, self.instead.setup)
        return f"this would fit: {changed} ({self.instead.peak_gib:.1f} GiB)"

    def raise_if_not(self) -> None:
        """Raise what a command prints, unless it fits."""
        if not self.fits:
            raise SetupError(self.sentence(), hint=self.hint())


def verdict(
    shape: ModelShape, setup: TrainingSetup, gpu: GpuModel, tracer: Tracer | None = None
) -> SetupVerdict:
    """Judge a setup on a GPU; for one that does not fit, find the nearest that does."""
    factors = calibration.factors(gpu.name)
    found = estimate(shape, setup, gpu, factors)
    share = found.needed_bytes / gpu.memory_bytes
    if tracer is not None and abs(share - 1) < NEAR:
        found = estimate(shape, setup, gpu, factors, tracer)
    if found.fits:
        return SetupVerdict(True, found)
    return SetupVerdict(False, found, why_not(found), _nearest(shape, setup, gpu))


def changes(old: TrainingSetup, new: TrainingSetup) -> str:
    """Name what differs between two setups, as settings."""
    before, after = old.json(), new.json()
    changed = [f"{key}: {after[key]}" for key in after if before[key] != after[key]]
    return ", ".join(changed) or "the same"


def _nearest(shape: ModelShape, setup: TrainingSetup, gpu: GpuModel) -> SetupEstimate | None:
    """Change as little as will do: first what costs time alone, then precision, then the method,
    then the number of GPUs.
    """
    batch = setup.micro_batch * setup.accumulation * setup.world
    given: dict[str, Any] = {"method": setup.method, "precision": setup.precision}
    given |= {"lora_rank": setup.lora_rank, "lora_targets": setup.lora_targets}
    if setup.packing:
        given["packing"] = True
    smaller = "qlora" if setup.is_adapter else "lora"
    for loosened in ({}, {"precision": "bf16"}, {"precision": "bf16", "method": smaller}):
        found = _best(shape, setup, gpu, batch, {**given, **loosened})
        if found is not None:
            return found
    for world in WORLDS:
        if world > setup.world:
            wide = setup.but(
                gpus=min(8, world), nodes=max(1, world // 8), sharding="zero3", in_backward=False
            )
            rows = -(-batch // world) * world
            if (found := _best(shape, wide, gpu, rows, given)) is not None:
                return found
    return None


def _best(
    shape: ModelShape, setup: TrainingSetup, gpu: GpuModel, batch: int, given: dict[str, Any]
) -> SetupEstimate | None:
    request = PlanRequest(
        shape,
        gpu,
        gpus=setup.gpus,
        nodes=setup.nodes,
        seq=setup.seq,
        global_batch=batch,
        given=given,
        factors=calibration.factors(gpu.name),
    )
    found = search(request)
    return min(found.ranked, key=lambda plan: _distance(setup, plan), default=None)


def _distance(setup: TrainingSetup, plan: SetupEstimate) -> tuple[int, float]:
    """Count changed settings, then time: the nearest plan is the one that changes least."""
    before, after = setup.json(), plan.setup.json()
    changed = sum(
        before[key] != after[key] for key in after if key not in ("accumulation", "micro_batch")
    )
    return changed, plan.time.total
