"""Plans as plain values, and a setup's choices in a few words: for commands and pages alike.

Owns the JSON shape of plans. Knows neither servers nor terminals.
"""

from __future__ import annotations

from typing import Any

from trackyard.finetune.planning.answers import PlanAnswer
from trackyard.finetune.planning.search import PlanResults
from trackyard.finetune.setup import TrainingSetup


def as_json(plans: PlanResults, answered: list[PlanAnswer]) -> dict[str, Any]:
    """Return the plans for one type of GPU as plain values."""
    request = plans.request
    return {
        "gpu": request.gpu.name,
        "gpu_memory_bytes": request.gpu.memory_bytes,
        "price_per_gpu_hour": request.gpu.price,
        "price_source": request.gpu.offer,
        "gpus": request.gpus,
        "nodes": request.nodes,
        "plans": [
            plan.json(request.tokens) | {"summary": describe(plan.setup)} for plan in plans.ranked
        ],
        "rejected": [
            {
                "setup": one.setup.json(),
                "summary": describe(one.setup),
                "reason": one.reason,
                "needed_bytes": int(one.best.needed_bytes),
            }
            for one in plans.rejected
        ],
        "answers": {one.question: one.answer for one in answered},
    }


def describe(setup: TrainingSetup) -> str:
    """Name a setup's choices in a few words, the usual ones left out."""
    words: list[str] = [setup.method, setup.precision]
    if setup.checkpointing != "none":
        words.append(f"checkpointing {setup.checkpointing}")
    if setup.optimizer != "adamw":
        words.append(setup.optimizer)
    words.append(f"{setup.loss} loss")
    words += [name for name in ("compile", "packing", "in_backward") if getattr(setup, name)]
    if setup.sharding != "none":
        words.append(setup.sharding)
    if setup.offload:
        words.append("offload")
    return ", ".join(words).replace("compile", "compiled").replace("packing", "packed")
