"""How `yard plan` prints: the model, a table of plans, memory by part, answers, rejections.

Owns the words and columns. Knows neither flags nor where figures come from.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from trackyard.cli.jobs.jobview import now_ms, when
from trackyard.cli.output import duration, emit_json, say, table
from trackyard.finetune.planning import report
from trackyard.finetune.planning.answers import PlanAnswer
from trackyard.finetune.planning.datasize import DataSize
from trackyard.finetune.planning.estimate import CONTEXT, FRAGMENTS, SetupEstimate
from trackyard.finetune.planning.fleet import GpuOffer, PredictedWait
from trackyard.finetune.planning.gpus import GIB, GpuModel, price_note
from trackyard.finetune.planning.search import PlanResults
from trackyard.finetune.planning.speed import MFU_CONVENTION
from trackyard.finetune.shapes import ModelShape

_PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers")
_REJECTIONS = 6


def heading(shape: ModelShape, data: DataSize | None, tokens: float, epochs: float) -> None:
    """Say what is planned for."""
    print(
        f"{shape.name}: {shape.params():,} parameters, {shape.layers} layers of {shape.hidden}, "
        f"{shape.heads} heads ({shape.kv_heads} for keys), vocabulary {shape.vocab:,}"
    )
    if data is None:
        print(f"times and prices are for {tokens:,.0f} tokens (--data or --tokens say how many)")
        return
    how = "counted with the model's tokenizer" if data.is_counted else "estimated: no tokenizer"
    print(
        f"data: {data.rows:,} rows, {data.tokens:,} tokens ({how}), {data.mean_length:.0f} a row; "
        f"{tokens:,.0f} with padding in {epochs:g} epoch{'' if epochs == 1 else 's'}"
    )


def show(
    plans: PlanResults,
    answered: list[PlanAnswer],
    offer: GpuOffer | None,
    wait: PredictedWait | None,
    args: argparse.Namespace,
) -> None:
    """Print the plans for one type of GPU."""
    request = plans.request
    price = "" if request.gpu.price is None else f", ${request.gpu.price:.2f} an hour each"
    words = f"\n{request.world} x {request.gpu.name}, {request.gpu.memory_gib:.1f} GiB{price}"
    if offer is not None:
        words += f" (the fleet has {offer.nodes} x {offer.per_node}, {offer.free:g} free)"
    print(words)
    if wait is not None:
        print(f"queue wait: {_wait_words(wait)}")
    shown = plans.ranked if args.all else plans.ranked[: args.limit]
    if shown:
        print()
        _plan_table(shown, request.tokens)
        print("\npeak memory by part, GiB")
        _part_table(shown)
    print()
    for one in answered:
        print(f"{one.question}: {one.answer}")
    _rejections(plans, show_all=args.all)


def _plan_table(plans: list[SetupEstimate], tokens: float) -> None:
    headers = [
        "#",
        "plan",
        "batch",
        "peak",
        "step",
        "tokens/s",
        "mfu",
        "gpu-hours",
        "price",
        "takes",
    ]
    rows = []
    for place, plan in enumerate(plans, start=1):
        price = plan.price(tokens)
        rows.append(
            (
                place,
                report.describe(plan.setup),
                f"{plan.setup.micro_batch} x {plan.setup.accumulation}",
                f"{plan.peak_gib:.1f} GiB",
                f"{plan.time.total:.3g} s",
                f"{plan.tokens_per_second:,.0f}",
                f"{plan.mfu:.2f}",
                f"{plan.gpu_hours(tokens):.2f}",
                None if price is None else f"${price:,.2f}",
                duration(tokens / plan.tokens_per_second),
            )
        )
    table(headers, rows)


def _part_table(plans: list[SetupEstimate]) -> None:
    rows = []
    for place, plan in enumerate(plans, start=1):
        parts = plan.parts.json()
        host = f"{plan.host_bytes / GIB:.1f}" if plan.host_bytes else None
        figures = [f"{parts[name] / GIB:.2f}" for name in _PARTS]
        rows.append((place, *figures, f"{plan.peak_gib:.2f}", host, plan.source))
    table(["#", *_PARTS, "peak", "host", "by"], rows)


def _rejections(plans: PlanResults, *, show_all: bool) -> None:
    if not plans.rejected:
        return
    nearest = sorted(plans.rejected, key=lambda one: one.best.needed_bytes)
    shown = nearest if show_all else nearest[:_REJECTIONS]
    print(f"\nrejected: {len(nearest)}")
    for one in shown:
        print(f"  {report.describe(one.setup)}: {one.reason}")
    if len(nearest) > len(shown):
        say(f"{len(nearest) - len(shown)} more were rejected; --all shows them")


def _wait_words(wait: PredictedWait) -> str:
    if wait.starts_now:
        return "none, it would start now"
    if not wait.is_feasible:
        return f"it would never start: {wait.sentence}"
    if wait.start_ms is None:
        return "nobody can tell yet"
    return f"it would start about {when(wait.start_ms, now_ms())}"


def footing(note: str, so_far: str | None) -> None:
    """Say how figures were made, and how good they have been."""
    say(
        f"\n{note}; it fits if {FRAGMENTS:g} x peak + {CONTEXT / GIB:g} GiB are there\n"
        f"MFU: {MFU_CONVENTION}\n"
        f"prices: {price_note()}"
    )
    if so_far is not None:
        say(f"so far on this server: {so_far}")


def as_json(
    plans: PlanResults,
    answered: list[PlanAnswer],
    offer: GpuOffer | None,
    wait: PredictedWait | None,
) -> dict[str, Any]:
    """Return the plans for one type of GPU as plain values, with what the fleet says of it."""
    fleet = None
    if offer is not None:
        fleet = {"type": offer.type, "nodes": offer.nodes, "per_node": offer.per_node}
        fleet |= {"free": offer.free}
    queue_wait = None if wait is None else wait.json()
    return report.as_json(plans, answered) | {"fleet": fleet, "queue_wait": queue_wait}


def models(known: Mapping[str, ModelShape], *, is_json: bool) -> int:
    """List the built-in models."""
    if is_json:
        emit_json([shape.json() for shape in known.values()])
        return 0
    table(
        ["model", "parameters", "layers", "hidden", "heads", "key heads", "vocabulary"],
        [
            (name, f"{one.params():,}", one.layers, one.hidden, one.heads, one.kv_heads, one.vocab)
            for name, one in known.items()
        ],
    )
    return 0


def gpus(known: Mapping[str, GpuModel], *, is_json: bool) -> int:
    """List the known GPUs."""
    if is_json:
        emit_json(
            [
                {
                    "name": gpu.name,
                    "memory_bytes": gpu.memory_bytes,
                    "bf16_tflops": gpu.half,
                    "fp32_tflops": gpu.fp32,
                    "fp8_tflops": gpu.fp8,
                    "bandwidth_gb_s": gpu.bandwidth,
                    "link_gb_s": gpu.link,
                    "price": gpu.price,
                    "offer": gpu.offer,
                }
                for gpu in known.values()
            ]
        )
        return 0
    table(
        ["gpu", "memory", "16-bit TFLOP/s", "fp32", "fp8", "GB/s", "link GB/s", "$/hour", "of"],
        [
            (
                gpu.name,
                f"{gpu.memory_gib:g} GiB",
                gpu.half,
                gpu.fp32,
                gpu.fp8 or None,
                gpu.bandwidth,
                gpu.link,
                gpu.price,
                gpu.offer or None,
            )
            for gpu in known.values()
        ],
    )
    say(f"prices: {price_note()}")
    return 0
