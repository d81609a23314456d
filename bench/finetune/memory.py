"""Predicted against measured: peak memory and step time of some forty cells on one GPU.

    python bench/finetune/memory.py --predict            # anywhere, no GPU: writes predicted.json
    python bench/finetune/memory.py --out measured.jsonl  # on the GPU; resumes what is there
    python bench/finetune/memory.py --report measured.jsonl
    python bench/finetune/memory.py --tiny                # a minute on a CPU: does it run

The peak is torch.cuda.max_memory_allocated over steps after warm-up, the time the median of those
steps. Cells run in one worker process with a full reset between them; a cell that runs out of
memory is a result, one that takes the worker down is noted and the next starts in a fresh one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.finetune.cells import CELLS  # noqa: E402
from trackyard.finetune.planning import calibration  # noqa: E402
from trackyard.finetune.planning.estimate import estimate  # noqa: E402
from trackyard.finetune.planning.gpus import GIB, GpuModel, find_gpu  # noqa: E402
from trackyard.finetune.setup import TrainingSetup  # noqa: E402
from trackyard.finetune.shapes import BUILT_IN, ModelShape  # noqa: E402

PREDICTED = HERE / "predicted.json"
WARM_UP, STEPS = 2, 3
#: A worker's exit status when the last cell left memory behind that it cannot free.
STAINED, STAIN_BYTES = 3, 64 * 1024**2


def tiny() -> list[dict[str, Any]]:
    """A few cells small enough for a CPU."""
    base = {"micro_batch": 2, "seq": 64}
    made = [
        {"full": {}},
        {"lora": {"method": "lora", "loss": "chunked"}},
        {"mixed": {"precision": "mixed", "accumulation": 2, "checkpointing": "full"}},
        {"packed": {"packing": True, "loss": "chunked"}},
    ]
    return [
        {"name": f"cpu-{name}", "model": "tiny", "setup": {**base, **setup}}
        for row in made
        for name, setup in row.items()
    ]


def shape_of(name: str) -> ModelShape:
    if name == "tiny":
        return ModelShape("tiny", 64, 3, 4, 2, 16, 128, 256)
    return BUILT_IN[name]


def setup_of(cell: dict[str, Any]) -> TrainingSetup:
    return TrainingSetup.from_json(cell["setup"])


# -- predicting -------------------------------------------------------------------------------


def predict(gpu: GpuModel, names: list[str], *, traces: bool) -> None:
    """Write what the planner says of every cell, by trace and by closed form."""
    from trackyard.finetune.planning.traces import Traces

    tracer = Traces(said=lambda words: print(words, file=sys.stderr, flush=True))
    found = json.loads(PREDICTED.read_text()) if PREDICTED.exists() else {}
    for cell in CELLS:
        if names and cell["name"] not in names:
            continue
        shape, setup = shape_of(cell["model"]), setup_of(cell)
        closed = estimate(shape, setup, gpu, calibration.factors(gpu.name))
        traced = found.get(cell["name"], {}).get("trace_gib")
        if traces:
            parts = tracer(shape, setup)
            traced = None if parts is None else round(parts.total / GIB, 3)
        found[cell["name"]] = {
            "closed_gib": round(closed.peak_gib, 3),
            "trace_gib": traced,
            "tokens_per_second": round(closed.tokens_per_second),
        }
        PREDICTED.write_text(json.dumps(found, indent=1) + "\n")
        print(cell["name"], found[cell["name"]], flush=True)


# -- measuring --------------------------------------------------------------------------------


def build(cell: dict[str, Any], device: Any) -> tuple[Any, Any, TrainingSetup]:
    """Return the model that trains, its optimizer, and the setup."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from trackyard.finetune.recipe import OptimizerPart
    from trackyard.finetune.training import activations, weights
    from trackyard.finetune.training import build as building
    from trackyard.finetune.training.optimizers import Stepper

    shape, setup = shape_of(cell["model"]), setup_of(cell)
    values = shape.config()
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    if setup.method == "qlora":
        building.prepare_config(config)
        kind = building.dtypes(setup.precision).compute
        with torch.device(device):
            base = AutoModelForCausalLM.from_config(config, dtype=kind)
        weights.quantise(base, None, torch.device(device), kind)
        model = building.finish(base, setup)
    else:
        model = building.build_model(config, setup, device=device)
    model.to(device)
    model.train()
    if setup.compile:
        activations.compile_layers(model)
    stepper = Stepper(model, OptimizerPart(name=setup.optimizer, in_backward=setup.in_backward))
    return model, stepper, setup


def inputs_of(setup: TrainingSetup, vocab: int, device: Any) -> dict[str, Any]:
    import torch

    ids = torch.randint(0, vocab, (setup.micro_batch, setup.seq), device=device)
    found: dict[str, Any] = {"input_ids": ids, "labels": ids.clone()}
    if setup.packing:
        row = max(1, setup.seq // 4)
        found["position_ids"] = (torch.arange(setup.seq, device=device) % row).expand_as(ids)
        if torch.device(device).type == "cuda":
            found["boundaries"] = torch.arange(
                0, ids.numel() + 1, row, dtype=torch.int32, device=device
            )
        else:
            found["segments"] = (torch.arange(setup.seq) // row).expand_as(ids)
    return found


def measure(cell: dict[str, Any], device: str) -> dict[str, Any]:
    """Train some steps and return the peak and the median time."""
    import torch

    from trackyard.finetune.training import sharding

    if setup_of(cell).precision == "fp32":
        torch.set_float32_matmul_precision("highest")
    began = time.perf_counter()
    model, stepper, setup = build(cell, device)
    batch = inputs_of(setup, shape_of(cell["model"]).vocab, device)
    on_gpu = device == "cuda"
    seconds = []
    built = time.perf_counter() - began
    for step in range(WARM_UP + STEPS):
        if on_gpu:
            if step == WARM_UP:
                torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(setup.accumulation):
            model(**batch, scale=1.0 / setup.step_tokens).backward()
        if not setup.in_backward:
            sharding.clip(model, 1.0)
        stepper.step()
        stepper.clear()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    taken = statistics.median(seconds[WARM_UP:])
    return {
        "peak_gib": torch.cuda.max_memory_allocated() / GIB if on_gpu else None,
        "reserved_gib": torch.cuda.max_memory_reserved() / GIB if on_gpu else None,
        "step_seconds": taken,
        "tokens_per_second": setup.step_tokens / taken,
        "build_seconds": built,
        "first_step_seconds": seconds[0],
    }


def attempt(cell: dict[str, Any], device: str) -> dict[str, Any]:
    """Measure one cell; whatever goes wrong is its outcome."""
    import torch

    try:
        return {"outcome": "ok", **measure(cell, device)}
    except torch.OutOfMemoryError as fault:
        return {"outcome": "out of memory", "words": str(fault)[:300]}
    except Exception as fault:  # noqa: BLE001 - one cell must not end the others
        return {"outcome": "failed", "words": f"{type(fault).__name__}: {fault}"[:600]}


def reset() -> None:
    import torch

    gc.collect()
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def work(cells: list[dict[str, Any]], device: str) -> None:
    """Measure cells one after the other; one JSON line each."""
    import torch

    facts = {"torch": torch.__version__, "device": device}
    if device == "cuda":
        facts["gpu"] = torch.cuda.get_device_name()
    for cell in cells:
        reset()
        # Hooks on gradients (the optimizer in backward) outlive their model, with its weights.
        if device == "cuda" and torch.cuda.memory_allocated() > STAIN_BYTES:
            sys.exit(STAINED)
        began = time.perf_counter()
        found = attempt(cell, device)
        took = time.perf_counter() - began
        line = {"name": cell["name"], **found, "took_seconds": took, **facts}
        print(json.dumps(line), flush=True)


def drive(cells: list[dict[str, Any]], out: Path, limit: float) -> None:
    """Have a worker measure what is not in the file yet; start another where one dies."""
    began = time.monotonic()
    left = [cell for cell in cells if cell["name"] not in done(out)]
    while left and time.monotonic() - began < limit:
        names = ",".join(cell["name"] for cell in left)
        command = [sys.executable, __file__, "--work", names]
        if left[0]["model"] == "tiny":
            command.append("--tiny")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                if not line.startswith("{"):
                    continue
                with out.open("a") as file:
                    file.write(line)
                print(summary(json.loads(line)), flush=True)
                if time.monotonic() - began > limit:
                    worker.terminate()
                    break
        known = done(out)
        still = [cell for cell in left if cell["name"] not in known]
        if still and worker.returncode != STAINED and time.monotonic() - began < limit:
            lost = {"name": still[0]["name"], "outcome": "failed", "words": "the worker died"}
            with out.open("a") as file:
                file.write(json.dumps(lost) + "\n")
            print(summary(lost), flush=True)
            still = still[1:]
        left = still
    if left:
        print(f"not measured within {limit:.0f} s: {', '.join(c['name'] for c in left)}")


def done(out: Path) -> dict[str, dict[str, Any]]:
    if not out.exists():
        return {}
    rows = [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{")]
    return {row["name"]: row for row in rows}


def predicted(name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if PREDICTED.exists():
        found = json.loads(PREDICTED.read_text()).get(name, {})
    return found


def summary(row: dict[str, Any]) -> str:
    said = predicted(row["name"])
    best = said.get("trace_gib") or said.get("closed_gib")
    words = f"{row['name']:<22} {row['outcome']:<14}"
    if row.get("peak_gib") and best:
        error = best / row["peak_gib"] - 1
        words += f" {row['peak_gib']:7.2f} GiB, predicted {best:7.2f} ({error:+.1%})"
    elif best:
        words += f" predicted {best:7.2f} GiB"
    if row.get("tokens_per_second"):
        words += f" {row['tokens_per_second']:>9,.0f} tok/s"
        if said.get("tokens_per_second"):
            off = row["tokens_per_second"] / said["tokens_per_second"] - 1
            words += f" (predicted {said['tokens_per_second']:,}, {off:+.0%})"
    return words + (f"  {row['words'][:160]}" if row.get("words") else "")


# -- reporting --------------------------------------------------------------------------------


def report(out: Path, gpu: GpuModel) -> None:
    """Print every cell, then the errors over all and the factors that would fit them."""
    rows = done(out)
    peaks, steps, pairs, false_fits = [], [], [], []
    for cell in CELLS:
        row = rows.get(cell["name"])
        if row is None:
            print(f"{cell['name']:<22} not measured")
            continue
        print(summary(row))
        said, setup = predicted(cell["name"]), setup_of(cell)
        best = said.get("trace_gib") or said.get("closed_gib")
        if row["outcome"] == "out of memory":
            fits = estimate(shape_of(cell["model"]), setup, gpu).fits
            false_fits += [cell["name"]] if fits else []
        if not row.get("peak_gib") or not best:
            continue
        peaks.append(best / row["peak_gib"] - 1)
        predicted_step = setup.step_tokens / said["tokens_per_second"]
        steps.append(predicted_step / row["step_seconds"] - 1)
        pairs.append(
            calibration.PlanOutcome(
                gpu.name, best, row["peak_gib"], predicted_step, row["step_seconds"], setup.compile
            )
        )
    if not peaks:
        return
    sizes = sorted(abs(error) for error in peaks)
    close = sum(abs(error) <= 0.15 for error in steps)
    print(
        f"\n{len(peaks)} cells: peak off by {statistics.median(sizes):.2%} in the middle, "
        f"{sizes[-1]:.2%} at worst; step time within 15% for {close} of {len(steps)}; "
        f"false fits: {', '.join(false_fits) or 'none'}"
    )
    print(f"factors that fit: {calibration.refit(calibration.factors(gpu.name), pairs)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--predict", action="store_true", help="write predicted.json")
    parser.add_argument("--closed", action="store_true", help="predict without tracing anew")
    parser.add_argument("--out", type=Path, default=Path("memory.jsonl"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--only", default="", help="names of cells, with commas")
    parser.add_argument("--limit", type=float, default=480, help="seconds in all")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cells = tiny() if args.tiny else CELLS
    names = [name for name in (args.work or args.only).split(",") if name]
    chosen = [cell for cell in cells if not names or cell["name"] in names]
    gpu = find_gpu(args.gpu) if args.gpu else find_gpu("H200")
    if args.report:
        report(args.report, gpu)
    elif args.predict:
        predict(gpu, names, traces=not args.closed)
    elif args.work:
        import torch

        with contextlib.suppress(KeyboardInterrupt):
            work(chosen, "cuda" if torch.cuda.is_available() else "cpu")
    else:
        drive(chosen, args.out, args.limit)
        if not args.tiny:
            report(args.out, gpu)


if __name__ == "__main__":
    main()
