"""The questions people ask of a plan, answered in sentences: does it fit, how could it, how much
faster on the next GPU, on how many GPUs, and why QLoRA can need more than LoRA.

Owns the comparisons and the words. Figures come from search.py and estimate.py.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.estimate import SetupEstimate, estimate
from trackyard.finetune.planning.gpus import GIB, GpuModel, gpu_table
from trackyard.finetune.planning.search import PlanRequest, PlanResults, search
from trackyard.finetune.setup import TrainingSetup

#: Steps towards fitting, the cheapest in quality and time first.
_STEPS: tuple[tuple[str, dict[str, object]], ...] = (
    ("the chunked loss", {"loss": "chunked"}),
    ("compiled layers", {"compile": True}),
    ("selective checkpointing", {"checkpointing": "selective"}),
    ("full checkpointing", {"checkpointing": "full"}),
    ("an 8-bit optimizer", {"optimizer": "adamw8bit"}),
    ("weights and state in bfloat16", {"precision": "bf16"}),
    ("LoRA", {"method": "lora", "optimizer": "adamw"}),
    ("QLoRA", {"method": "qlora", "optimizer": "adamw"}),
)
WORLDS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A question, and what is to be said to it."""

    question: str
    answer: str


def answers(plans: PlanResults) -> list[PlanAnswer]:
    """Answer what can be answered of the plans."""
    found = [PlanAnswer("does it fit", fit_words(plans))]
    if not plans.ranked and (way := cheapest_way(plans)) is not None:
        found.append(PlanAnswer("what would make it fit", way))
    if plans.ranked:
        found.append(PlanAnswer("on the next GPU", next_gpu(plans)))
    found.append(PlanAnswer("on how many GPUs", gpu_counts(plans)))
    if (words := qlora_words(plans)) is not None:
        found.append(PlanAnswer("QLoRA or LoRA", words))
    return [one for one in found if one.answer]


def fit_words(plans: PlanResults) -> str:
    """Say whether the request fits."""
    request = plans.request
    where = f"{request.world} x {request.gpu.name}"
    if plans.ranked:
        best = plans.ranked[0]
        return (
            f"yes: on {where} the best plan peaks at {best.peak_gib:.1f} GiB of "
            f"{request.gpu.memory_gib:.1f}"
        )
    nearest = min(plans.rejected, key=lambda one: one.best.needed_bytes)
    if nearest.best.obstacle:
        return f"no: {nearest.reason}"
    return f"no: on {where} even the smallest way {nearest.reason}"


def cheapest_way(plans: PlanResults) -> str | None:
    """Return the first steps away from what was asked that make it fit."""
    request = plans.request
    base = _asked(request)
    taken: list[str] = []
    setup = base
    for words, change in _STEPS:
        changed = {key: value for key, value in change.items() if getattr(setup, key) != value}
        if not changed or (setup.is_adapter and change.get("method") == "lora"):
            continue
        if setup.checkpointing == "full" and "checkpointing" in change:
            continue
        setup = setup.but(**changed)
        taken = [one for one in taken if not _replaces(words, one)] + [words]
        found = estimate(request.shape, setup, request.gpu, request.factors)
        if found.fits:
            return f"with {_listed(taken)}: {found.peak_gib:.1f} GiB at micro-batch 1"
    count = _smallest_world(request)
    return f"{count} x {request.gpu.name}, the state sharded" if count else None


def _replaces(words: str, one: str) -> bool:
    """Tell whether a later step makes an earlier one needless."""
    return one in {
        "full checkpointing": ("selective checkpointing",),
        "LoRA": ("an 8-bit optimizer",),
        "QLoRA": ("LoRA", "an 8-bit optimizer"),
    }.get(words, ())


def _asked(request: PlanRequest) -> TrainingSetup:
    known = {key: value for key, value in request.given.items() if key != "sharding"}
    known |= {"micro_batch": 1, "accumulation": 1, "seq": request.seq}
    return TrainingSetup(**{"method": "full", "precision": "bf16", **known, "gpus": 1, "nodes": 1})


def next_gpu(plans: PlanResults) -> str:
    """Compare the best plan with the best one on the next GPU that is faster with it."""
    request, best = plans.request, plans.ranked[0]
    own = request.gpu
    others = [
        gpu
        for gpu in gpu_table().values()
        if gpu.name.startswith("MI") == own.name.startswith("MI")
        and (gpu.half, gpu.memory_gib) > (own.half, own.memory_gib)
        and (request.world == 1 or gpu.link >= own.link)
    ]
    for gpu in sorted(others, key=lambda one: (one.half, one.memory_gib)):
        other = _best_on(_alike(request, best), gpu)
        if other is not None and other.tokens_per_second > 1.05 * best.tokens_per_second:
            return _compared(best, other)
    return f"none in the table is faster than {own.name} with this plan"


def _alike(request: PlanRequest, plan: SetupEstimate) -> PlanRequest:
    """The same request with the plan's choices made, save those that memory decides."""
    setup = plan.setup
    made: dict[str, Any] = {"method": setup.method, "precision": setup.precision}
    made |= {"optimizer": setup.optimizer, "compile": setup.compile, "loss": setup.loss}
    return dataclasses.replace(request, given={**request.given, **made})


def _best_on(request: PlanRequest, gpu: GpuModel) -> SetupEstimate | None:
    known = calibration.factors(gpu.name)
    found = search(dataclasses.replace(request, gpu=gpu, factors=known))
    return found.ranked[0] if found.ranked else None


def _compared(best: SetupEstimate, other: SetupEstimate) -> str:
    speed = other.tokens_per_second / best.tokens_per_second
    words = f"{other.gpu.name}: {speed:.1f} times as fast"
    one, two = best.price(1e9), other.price(1e9)
    if one and two:
        words += f", {two / one:.1f} times the price for the same tokens"
    return words


def gpu_counts(plans: PlanResults) -> str:
    """Say on how many GPUs it fits, and what more of them bring."""
    request = plans.request
    if plans.ranked:
        request = _alike(request, plans.ranked[0])
    lines: list[str] = []
    first: SetupEstimate | None = None
    for count in WORLDS:
        found = _best_of(request, count)
        if found is None:
            continue
        if first is None:
            first = found
            lines.append(f"it fits on {count}")
            continue
        times = found.tokens_per_second / first.tokens_per_second
        lines.append(f"{count} are {times:.1f} times as fast")
        if len(lines) == 3:
            break
    return "; ".join(lines) or f"not on {WORLDS[-1]} x {request.gpu.name} either"


def _smallest_world(request: PlanRequest) -> int | None:
    for count in WORLDS[1:]:
        if _best_of(request, count) is not None:
            return count
    return None


def _best_of(request: PlanRequest, count: int) -> SetupEstimate | None:
    per_node = min(count, 8)
    batch = -(-request.global_batch // count) * count
    given = {key: value for key, value in request.given.items() if key != "sharding"}
    if given.get("in_backward") and count > 1:
        del given["in_backward"]
    asked = dataclasses.replace(
        request, gpus=per_node, nodes=count // per_node, global_batch=batch, given=given
    )
    try:
        found = search(asked)
    except SetupError:
        return None
    return found.ranked[0] if found.ranked else None


def qlora_words(plans: PlanResults) -> str | None:
    """Say what QLoRA saves and what it costs, and when it needs more than LoRA."""
    request = plans.request
    if request.given.get("method") not in (None, "lora", "qlora"):
        return None
    best = next((one for one in plans.ranked if one.setup.method == "qlora"), None)
    if best is None:
        return None
    plain = estimate(request.shape, best.setup.but(method="lora"), request.gpu, request.factors)
    quantised = estimate(request.shape, best.setup, request.gpu, request.factors)
    saved = (plain.parts.weights - quantised.parts.weights) / GIB
    extra = (quantised.parts.buffers - plain.parts.buffers) / GIB
    slower = quantised.time.total / plain.time.total
    words = (
        f"4-bit weights save {saved:.1f} GiB, multiplying by them takes {extra:.1f} GiB for the "
        f"largest layer in 16 bits, and a step takes {slower:.2f} times as long; activations are "
        "the same"
    )
    lora = next((one for one in plans.ranked if one.setup.method == "lora"), None)
    if lora is not None and best.parts.total > lora.parts.total:
        words += (
            f". Here QLoRA needs more than LoRA ({best.peak_gib:.1f} against {lora.peak_gib:.1f} "
            f"GiB): its plan has {_difference(best.setup, lora.setup)}, and activations grow with "
            "that, weights do not"
        )
    return words


def _difference(one: TrainingSetup, other: TrainingSetup) -> str:
    if one.micro_batch != other.micro_batch:
        return f"a micro-batch of {one.micro_batch} against {other.micro_batch}"
    if one.checkpointing != other.checkpointing:
        return f"checkpointing {one.checkpointing} against {other.checkpointing}"
    return "the same settings, but a model too small for 4 bits to pay"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
