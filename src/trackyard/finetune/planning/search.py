"""Searching for plans: every way of training that a request leaves open, each with the largest
micro-batch that fits, ranked; and for what does not fit, the reason in one line.

Owns the lattice of choices and the ranking. Figures come from estimate.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.planning.calibration import Factors
from trackyard.finetune.planning.estimate import SetupEstimate, Tracer, estimate
from trackyard.finetune.planning.gpus import GIB, GpuModel
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

#: Tried where the request leaves the choice open, the plainest first.
CHOICES: dict[str, tuple[Any, ...]] = {
    "method": ("full", "lora", "qlora"),
    "precision": ("bf16", "mixed"),
    "checkpointing": ("none", "selective", "full"),
    "optimizer": ("adamw", "adamw8bit"),
    "loss": ("chunked", "plain"),
    "compile": (True, False),
    "offload": (False, True),
}
#: As many plans are traced, so that an answer takes seconds.
TRACED = 3
#: A choice that may change what is learned has to pay by this much to come first.
CAUTION = {"adamw8bit": 1.02, "adamw_bf16": 1.02, "qlora": 1.02}


@dataclass(frozen=True)
class PlanRequest:
    """What is asked for: a model on some GPUs, and whatever choices are made already."""

    shape: ModelShape
    gpu: GpuModel
    gpus: int = 1
    nodes: int = 1
    seq: int = 2048
    global_batch: int = 16
    #: fields of Setup that are given, such as method or precision
    given: dict[str, Any] = field(default_factory=dict)
    #: tokens to train on in all
    tokens: float = 0
    by_price: bool = False
    factors: Factors = field(default_factory=Factors)

    @property
    def world(self) -> int:
        """All GPUs."""
        return self.gpus * self.nodes

    @property
    def rows(self) -> int:
        """Sequences of a step on one GPU."""
        rows, rest = divmod(self.global_batch, self.world)
        if rest or not rows:
            raise SetupError(
                f"a global batch of {self.global_batch} sequences cannot be split over "
                f"{self.world} GPUs",
                hint=f"choose a multiple of {self.world} with --global-batch",
            )
        return rows


@dataclass(frozen=True, slots=True)
class Rejected:
    """A way that does not fit, and why not."""

    setup: TrainingSetup
    best: SetupEstimate
    reason: str


@dataclass(frozen=True)
class PlanResults:
    """The answer: what fits, best first, and what does not."""

    request: PlanRequest
    ranked: list[SetupEstimate]
    rejected: list[Rejected]


def search(request: PlanRequest, tracer: Tracer | None = None) -> PlanResults:
    """Find plans. With a tracer the best ones are traced, solved again and ranked anew."""
    fitting: list[SetupEstimate] = []
    rejected: list[Rejected] = []
    for base in lattice(request):
        found = solve(request, base)
        if found.fits:
            fitting.append(found)
        else:
            rejected.append(Rejected(found.setup, found, why_not(found)))
    if not fitting and not rejected:
        raise SetupError(
            "the choices exclude each other: " + _named(request),
            hint="leave one open; 4-bit weights are not sharded, and offloading needs no ddp",
        )
    ranked = rank(request, _undominated(fitting))
    if tracer is not None:
        ranked, failed = _traced(request, ranked, tracer)
        rejected += failed
    if not request.given.get("offload") and any(not plan.setup.offload for plan in ranked):
        # Offloading is for what fits in no other way.
        ranked = [plan for plan in ranked if not plan.setup.offload]
    return PlanResults(request, ranked, rejected)


def _named(request: PlanRequest) -> str:
    size = f"{request.world} GPU{'' if request.world == 1 else 's'}"
    return ", ".join([*(f"{key} {value}" for key, value in request.given.items()), size])


def lattice(request: PlanRequest) -> Iterator[TrainingSetup]:
    """Yield every setup that the request leaves open, micro-batch 1."""
    options = {
        name: (request.given[name],) if name in request.given else values
        for name, values in CHOICES.items()
    }
    fixed = {
        name: value
        for name, value in request.given.items()
        if name not in CHOICES and name not in ("micro_batch", "sharding")
    }
    size: dict[str, Any] = {"gpus": request.gpus, "nodes": request.nodes, "seq": request.seq}
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        for sharding in shardings(request):
            if not _is_sensible(chosen, sharding, request):
                continue
            try:
                yield TrainingSetup(**{**size, **fixed, **chosen, "sharding": sharding})
            except SetupError:
                if request.given:
                    continue
                raise


def shardings(request: PlanRequest) -> tuple[str, ...]:
    """Return the ways to spread a model over the GPUs of the request."""
    if "sharding" in request.given:
        return (request.given["sharding"],)
    if request.world == 1:
        return ("none",)
    return ("ddp", "zero2", "zero3") + (("hsdp",) if request.nodes > 1 else ())


def _is_sensible(chosen: dict[str, Any], sharding: str, request: PlanRequest) -> bool:
    given, is_adapter = request.given, chosen["method"] != "full"
    if chosen["offload"] and (sharding == "ddp" or is_adapter) and "offload" not in given:
        return False
    if is_adapter and chosen["optimizer"] == "adamw8bit" and "optimizer" not in given:
        return False  # the state of adapters is small
    if is_adapter and chosen["precision"] == "mixed" and "precision" not in given:
        return False
    if chosen["method"] == "qlora" and sharding not in ("none", "ddp"):
        return False  # 4-bit weights are not sharded
    return not (sharding == "zero2" and is_adapter and "sharding" not in given)


def solve(
    request: PlanRequest, base: TrainingSetup, tracer: Tracer | None = None
) -> SetupEstimate:
    """Return the estimate at the largest micro-batch that fits, or at the smallest if none
    does.
    """
    rows = request.rows
    if "micro_batch" in request.given:
        sizes = [int(request.given["micro_batch"])]
        if rows % sizes[0]:
            raise SetupError(
                f"a micro-batch of {sizes[0]} does not divide the {rows} sequences of a GPU",
                hint="change --micro-batch or --global-batch",
            )
    else:
        sizes = [size for size in range(rows, 0, -1) if rows % size == 0]
        if base.in_backward:
            sizes = [rows]

    def at(size: int) -> SetupEstimate:
        setup = base.but(micro_batch=size, accumulation=rows // size)
        return estimate(request.shape, setup, request.gpu, request.factors, tracer)

    smallest = at(sizes[-1])
    if not smallest.fits or len(sizes) == 1:
        return smallest
    # Memory grows with the micro-batch: halve the choices until one is left.
    low, high, best = 0, len(sizes) - 1, smallest
    while low < high:
        middle = (low + high) // 2
        found = at(sizes[middle])
        if found.fits:
            best, high = found, middle
        else:
            low = middle + 1
    return best


def rank(request: PlanRequest, plans: list[SetupEstimate]) -> list[SetupEstimate]:
    """Sort plans by GPU-hours, or by price; equal ones by memory."""
    tokens = request.tokens or 1e9

    def cost(plan: SetupEstimate) -> tuple[float, float]:
        price = plan.price(tokens) if request.by_price else None
        first = plan.gpu_hours(tokens) if price is None else price
        first *= CAUTION.get(plan.setup.optimizer, 1.0) * CAUTION.get(plan.setup.method, 1.0)
        return round(first, 6), plan.parts.total

    return sorted(plans, key=cost)


def why_not(found: SetupEstimate) -> str:
    """Say in one line why a setup does not fit."""
    if found.obstacle:
        return found.obstacle
    over = (found.needed_bytes - found.gpu.memory_bytes) / GIB
    parts = {name: value for name, value in found.parts.json().items() if name != "total"}
    largest = max(parts, key=lambda name: parts[name])
    return (
        f"needs {found.needed_bytes / GIB:.1f} GiB at micro-batch {found.setup.micro_batch}, "
        f"{over:.1f} more than {found.gpu.name} has (most of it {largest}, "
        f"{parts[largest] / GIB:.1f})"
    )


def _undominated(plans: list[SetupEstimate]) -> list[SetupEstimate]:
    """Leave out what differs from a quicker plan in a choice that then only costs.

    A plan stays if no other that learns the same is both quicker and smaller.
    """
    kept = []
    for plan in plans:
        rivals = [
            other
            for other in plans
            if other is not plan
            and _learns(other.setup) == _learns(plan.setup)
            and other.tokens_per_second >= plan.tokens_per_second
            and other.parts.total <= plan.parts.total
        ]
        if not rivals:
            kept.append(plan)
    return kept


def _learns(setup: TrainingSetup) -> tuple[Any, ...]:
    """What decides the values that are learned, apart from the order of sums."""
    return setup.method, setup.precision, setup.optimizer


def _traced(
    request: PlanRequest, ranked: list[SetupEstimate], tracer: Tracer
) -> tuple[list[SetupEstimate], list[Rejected]]:
    """Trace the best plans; one that its trace shows not to fit is solved again."""
    kept, failed = list(ranked[TRACED:]), []
    for plan in ranked[:TRACED]:
        sure = estimate(request.shape, plan.setup, request.gpu, request.factors, tracer)
        if not sure.fits:
            base = plan.setup.but(micro_batch=1, accumulation=1)
            sure = solve(request, base, tracer)
        if sure.fits:
            kept.append(sure)
        else:
            failed.append(Rejected(sure.setup, sure, why_not(sure)))
    return rank(request, kept), failed
