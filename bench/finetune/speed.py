"""Training speed and memory on one GPU with random weights, beside plain transformers.

    python bench/finetune/speed.py                 every cell, one JSON line each
    python bench/finetune/speed.py --only 7b-full  cells whose name holds this
    python bench/finetune/speed.py --tiny          tiny shapes on the CPU, to see that it runs

Each cell runs in a process of its own, so that one out of memory spoils no other; a cell that is
in the output file already is not run again. MFU counts 6N (4N with a frozen base) plus
6·layers·hidden·length per token against the GPU's dense bf16 peak.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHAPES: dict[str, dict[str, Any]] = {
    "1.1b": {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
    },
    "7b": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
    },
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "rope_theta": 500000.0,
    },
    "32b": {
        "hidden_size": 5120,
        "intermediate_size": 27648,
        "num_hidden_layers": 64,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "vocab_size": 152064,
    },
    "70b": {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
    },
}
FULL = {"method": "full", "precision": "bf16", "loss": "chunked", "compile": True}
LORA = {"method": "lora", "precision": "bf16", "loss": "chunked", "compile": True}
QLORA = {"method": "qlora", "precision": "bf16", "loss": "chunked", "checkpointing": "full"}
EAGER = {**FULL, "compile": False}
STREAMED = {**FULL, "in_backward": True}


def cells() -> list[dict[str, Any]]:
    """List the cells, the ones that decide first."""
    wide = {"micro_batch": 4, "seq": 2048}
    return [
        _cell("7b-full-streamed-4x2048", "7b", {**STREAMED, **wide}, attention="cudnn"),
        _cell("8b-lora-2x4096-cudnn", "8b", {**LORA, **_size(2, 4096)}, attention="cudnn"),
        _cell("1.1b-full-16x2048", "1.1b", {**FULL, **_size(16, 2048)}, attention="cudnn"),
        _cell(
            "7b-full-streamed-4x2048-selective",
            "7b",
            {**STREAMED, **wide, "checkpointing": "selective"},
            attention="cudnn",
        ),
        _cell(
            "7b-full-streamed-4x2048-4-layers",
            "7b",
            {**STREAMED, **wide, "checkpointing": "full"},
            attention="cudnn",
            checkpoint_layers=4,
        ),
        _cell("7b-full-streamed-3x2048", "7b", {**STREAMED, **_size(3, 2048)}, attention="cudnn"),
        _cell("8b-lora-2x4096-flash", "8b", {**LORA, **_size(2, 4096)}, attention="flash"),
        _cell("packing-1.1b", "1.1b", {**EAGER, **_size(4, 2048)}, kind="packing"),
        _cell("plain-7b-full-8x2048-compiled", "7b", {**FULL, **_size(8, 2048)}, kind="plain"),
        _cell(
            "plain-7b-full-4x2048-checkpointed",
            "7b",
            {**FULL, "compile": False, "checkpointing": "full", **wide},
            kind="plain",
        ),
        _cell(
            "7b-full-1x2048-accumulated-8",
            "7b",
            {**FULL, **_size(1, 2048), "accumulation": 8},
            attention="cudnn",
        ),
        _cell("32b-qlora-1x2048", "32b", {**QLORA, **_size(1, 2048)}),
        _cell("70b-nf4-lora-1x2048", "70b", {**QLORA, **_size(1, 2048)}),
        _cell("1.1b-full-16x2048-flash", "1.1b", {**FULL, **_size(16, 2048)}, attention="flash"),
        _cell("plain-1.1b-full-16x2048", "1.1b", {**FULL, **_size(16, 2048)}, kind="plain"),
        _cell("plain-8b-lora-2x4096-peft", "8b", {**LORA, "compile": False, **_size(2, 4096)},
              kind="plain"),
        _cell("7b-full-4x2048", "7b", {**FULL, **wide}, attention="cudnn"),
        _cell("8b-lora-2x4096-eager", "8b", {**LORA, "compile": False, **_size(2, 4096)}),
    ]  # fmt: skip


def _size(micro: int, seq: int) -> dict[str, int]:
    return {"micro_batch": micro, "seq": seq}


def _cell(name: str, shape: str, setup: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": shape, "setup": setup, "kind": "ours", **more}


def main() -> int:
    """Run the cells that are asked for, or one of them inside its own process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true", help="tiny shapes on the CPU")
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--steps", type=int, default=8, help="steps that are timed")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds for one cell")
    parser.add_argument("--total", type=float, default=480.0, help="seconds in all")
    parser.add_argument("--out", type=Path, default=Path("speed.jsonl"))
    parser.add_argument("--cell", help="one cell as JSON, in this process")
    args = parser.parse_args()
    if args.cell:
        sys.path.insert(0, str(ROOT / "src"))
        print(json.dumps(measure(json.loads(args.cell), args)), flush=True)
        return 0
    done = _known(args.out)
    began = time.monotonic()
    for cell in cells():
        if args.only not in cell["name"] or cell["name"] in done:
            continue
        left = args.total - (time.monotonic() - began)
        if left < 30:
            print(f"{cell['name']}: no time left", file=sys.stderr, flush=True)
            continue
        print(f"{cell['name']} …", file=sys.stderr, flush=True)
        line = run_apart(cell, args, min(args.limit, left))
        with args.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
    return 0


def _known(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {line["name"] for line in lines if "error" not in line}


def run_apart(cell: dict[str, Any], args: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Run one cell in a process of its own; what goes wrong becomes its line."""
    command = [sys.executable, __file__, "--cell", json.dumps(cell), "--steps", str(args.steps)]
    if args.tiny:
        command.append("--tiny")
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    began = time.monotonic()
    try:
        made = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return {"name": cell["name"], "error": f"not done after {seconds:.0f} s"}
    took = round(time.monotonic() - began, 1)
    last = made.stdout.strip().splitlines()[-1:] or [""]
    if made.returncode == 0 and last[0].startswith("{"):
        return {**json.loads(last[0]), "wall_s": took}
    words = " ".join(made.stderr.strip().splitlines()[-3:])[-600:]
    return {"name": cell["name"], "error": words, "wall_s": took}


def measure(cell: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Measure one cell in this process."""
    import torch

    from trackyard.finetune.setup import TrainingSetup

    values = dict(cell["setup"])
    if args.tiny:
        values |= {"seq": 128, "compile": False, "precision": "fp32"}
    setup = TrainingSetup(**values)
    device = torch.device("cpu" if args.tiny else "cuda")
    config = make_config("tiny" if args.tiny else cell["shape"], setup.seq)
    torch.manual_seed(0)
    work = {"ours": ours, "plain": plain, "packing": packing}[cell["kind"]]
    found = work(cell, config, setup, device, args.steps)
    return {"name": cell["name"], "shape": cell["shape"], **found}


def make_config(shape: str, seq: int) -> Any:
    """Return the configuration of a shape."""
    from transformers import LlamaConfig

    return LlamaConfig(max_position_embeddings=max(seq, 2048), use_cache=False, **SHAPES[shape])


def ours(cell: dict[str, Any], config: Any, setup: Any, device: Any, steps: int) -> dict[str, Any]:
    """Train with the parts of `yard finetune`."""
    from trackyard.finetune.training import activations, attention
    from trackyard.finetune.training.build import build_model

    attention.prefer(cell.get("attention", "auto"))
    if setup.method == "qlora":
        model = quantised_model(config, setup, device)
    else:
        layers = cell.get("checkpoint_layers", 0)
        model = build_model(config, setup, device, checkpoint_layers=layers)
    if setup.compile:
        activations.compile_layers(model)
    model.train()
    stepper = make_stepper(model, setup)

    def step(ids: Any, labels: Any) -> Any:
        total = None
        for _ in range(setup.accumulation):
            loss = model(ids, labels, scale=1 / (labels.numel() * setup.accumulation))
            loss.backward()
            total = loss
        stepper.step()
        stepper.clear()
        return total

    return timed(step, config, setup, device, steps, parameters=_count(model))


def make_stepper(model: Any, setup: Any) -> Any:
    """Return the optimizer of a setup."""
    from trackyard.finetune.recipe import OptimizerPart
    from trackyard.finetune.training.optimizers import Stepper

    part = OptimizerPart(name=setup.optimizer, in_backward=setup.in_backward, clip=0.0, lr=1e-5)
    return Stepper(model, part)


def quantised_model(config: Any, setup: Any, device: Any) -> Any:
    """Build a model whose 4-bit weights are noise, a layer at a time."""
    import torch

    from trackyard.finetune.training import build, weights
    from trackyard.finetune.training.assemble import _on_meta

    build.prepare_config(config)
    kind = build.dtypes(setup.precision).compute
    model = _on_meta(config, kind)
    shapes = {name: one.shape for name, one in model.named_parameters()}

    class Noise:
        def __contains__(self, name: str) -> bool:
            return name in shapes

        def read(self, name: str) -> Any:
            return torch.randn(shapes[name], dtype=kind, device=device) * 0.02

    weights.quantise(model, Noise(), device, kind)
    weights.fill_rest(model, Noise(), device, kind)
    return build.finish(model, setup)


def plain(
    _cell: dict[str, Any], config: Any, setup: Any, device: Any, steps: int
) -> dict[str, Any]:
    """Train with transformers as its users do, and peft where the method is LoRA."""
    import torch
    from transformers import AutoModelForCausalLM

    kind = torch.float32 if setup.precision == "fp32" else torch.bfloat16
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=kind, attn_implementation="sdpa")
    parameters = _count(model)
    if setup.checkpointing == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if setup.method == "lora":
        from peft import LoraConfig, get_peft_model

        options = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
    model.train()
    learned = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-5, fused=device.type == "cuda")
    run = torch.compile(model) if setup.compile else model

    def step(ids: Any, _labels: Any) -> Any:
        loss = run(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return timed(step, config, setup, device, steps, parameters=parameters)


def timed(
    step: Any, config: Any, setup: Any, device: Any, steps: int, *, parameters: int
) -> dict[str, Any]:
    """Time steps on random tokens."""
    import torch

    shape = (setup.micro_batch, setup.seq)
    ids = torch.randint(0, config.vocab_size, shape, device=device)
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -100
    for _ in range(3):
        loss = step(ids, labels)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    for _ in range(steps):
        loss = step(ids, labels)
    if on_gpu:
        torch.cuda.synchronize()
    passed = (time.perf_counter() - began) / steps
    rate = setup.micro_batch * setup.seq * setup.accumulation / passed
    return {
        "tokens_per_second": round(rate, 1),
        "step_s": round(passed, 4),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if on_gpu else None,
        "reserved_gib": round(torch.cuda.max_memory_reserved() / 2**30, 2) if on_gpu else None,
        "mfu": share_of_peak(rate, config, setup, device, parameters),
        "loss": round(float(loss), 4),
    }


def share_of_peak(rate: float, config: Any, setup: Any, device: Any, parameters: int) -> Any:
    """Return MFU, or None off the GPU."""
    import torch

    from trackyard.finetune import flops

    peak = flops.peak_of(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    if peak is None:
        return None
    work = flops.per_token(
        parameters=parameters,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        length=setup.seq,
        frozen=setup.is_adapter,
    )
    return round(rate * work / peak, 4)


def packing(
    cell: dict[str, Any], config: Any, setup: Any, device: Any, steps: int
) -> dict[str, Any]:
    """Compare packed with padded batches on rows of Alpaca-like lengths."""
    from trackyard.finetune.training import attention
    from trackyard.finetune.training.build import build_model

    attention.prefer(cell.get("attention", "auto"))
    model = build_model(config, setup, device)
    model.train()
    stepper = make_stepper(model, setup)
    rates = {
        name: data_rate(model, stepper, setup, device, steps, packed=name == "packed")
        for name in ("padded", "packed")
    }
    return {
        "padded_tokens_per_second": round(rates["padded"], 1),
        "packed_tokens_per_second": round(rates["packed"], 1),
        "ratio": round(rates["packed"] / rates["padded"], 2),
    }


def data_rate(
    model: Any, stepper: Any, setup: Any, device: Any, steps: int, *, packed: bool
) -> float:
    """Return real tokens a second, padding not counted."""
    import torch

    from trackyard.finetune.data.stream import SequenceStream
    from trackyard.finetune.training.build import dtypes
    from trackyard.finetune.training.feed import BatchFeed

    stream = SequenceStream(
        alpaca_like(setup.seq), seq=setup.seq, packing=packed, seed=1, pad_to_seq=packed
    )
    feed = BatchFeed(
        stream,
        batch=setup.micro_batch,
        micro=setup.micro_batch,
        rank=0,
        world=1,
        limit=10**9,
        device=device,
        packed=packed,
        seq=setup.seq,
        compute=dtypes(setup.precision).compute,
    )
    tokens, began = 0, 0.0
    for number in range(steps + 3):
        if number == 3:
            if device.type == "cuda":
                torch.cuda.synchronize()
            tokens, began = 0, time.perf_counter()
        one = feed.at(number * setup.micro_batch)
        model(**feed.tensors(one.batches[0]), scale=1 / one.learned).backward()
        stepper.step()
        stepper.clear()
        tokens += one.tokens
    if device.type == "cuda":
        torch.cuda.synchronize()
    feed.close()
    return tokens / (time.perf_counter() - began)


def alpaca_like(seq: int) -> Any:
    """Return rows of noise whose lengths are spread as Alpaca's are: median 110, a long tail."""
    import numpy as np

    from trackyard.finetune.data.prepared import Prepared

    chance = np.random.default_rng(0)
    drawn = chance.lognormal(mean=4.7, sigma=0.55, size=4000)
    lengths = np.clip(drawn, 24, seq).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    return Prepared(
        tokens=chance.integers(0, 500, total).astype(np.int32),
        learned=np.ones(total, dtype=bool),
        offsets=offsets,
        digest="noise",
        truncated=0,
    )


def _count(model: Any) -> int:
    from trackyard.finetune.training.run import count_parameters

    return count_parameters(model)


if __name__ == "__main__":
    sys.exit(main())
