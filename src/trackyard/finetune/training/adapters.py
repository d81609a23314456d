"""Adapters on disk, in peft's own format: written here and loaded there, and the other way round.

Owns the names and the configuration file. Knows nothing of how an adapter is trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trackyard.core.errors import SetupError
from trackyard.finetune.training.lora import adapted, local_rows

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."


def full(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whole; where it is spread, all ranks must ask."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what has been learned under the names that peft uses. Call it on every rank."""
    if getattr(model, "peft_config", None):
        from peft import get_peft_model_state_dict

        for name, tensor in get_peft_model_state_dict(model).items():
            yield f"{PREFIX}{name.removeprefix(PREFIX)}", tensor
        return
    for name, layer in adapted(model):
        yield f"{PREFIX}{name}.lora_A.weight", full(layer.lora_a)
        yield f"{PREFIX}{name}.lora_B.weight", full(layer.lora_b)


def config(
    *,
    base: str,
    rank: int,
    alpha: float,
    dropout: float,
    targets: list[str],
    rslora: bool,
    dora: bool,
) -> dict[str, Any]:
    """Return the configuration that stands beside an adapter's weights."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": sorted(targets),
        "use_rslora": rslora,
        "use_dora": dora,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }


def target_names(model: nn.Module) -> list[str]:
    """Return the last parts of the names of adapted layers."""
    found = {name.rpartition(".")[2] for name, _ in adapted(model)}
    if not found:
        found = {
            name.partition(".lora_A")[0].rpartition(".")[2]
            for name, _ in model.named_modules()
            if name.endswith("lora_A")
        }
    return sorted(found)


def load(model: nn.Module, folder: Path) -> None:
    """Fill a model's adapters from a folder in peft's format."""
    from safetensors import safe_open

    path = folder / WEIGHTS
    if not path.is_file():
        raise SetupError(f"{folder} holds no adapter", hint=f"it needs {CONFIG} and {WEIGHTS}")
    found = read_config(folder)
    with safe_open(path, framework="pt") as file, torch.no_grad():
        names = set(file.keys())
        for name, layer in adapted(model):
            for part, key in ((layer.lora_a, "lora_A"), (layer.lora_b, "lora_B")):
                wanted = f"{PREFIX}{name}.{key}.weight"
                if wanted not in names:
                    raise SetupError(
                        f"the adapter in {folder} has nothing for {name}",
                        hint=f"it was made for {', '.join(found.get('target_modules', []))}",
                    )
                tensor = file.get_tensor(wanted)
                if tuple(tensor.shape) != tuple(part.shape):
                    raise SetupError(
                        f"the adapter in {folder} has rank {found.get('r')}",
                        hint="set lora.rank to that",
                    )
                local, rows = local_rows(part)
                local.copy_(tensor if rows is None else tensor[rows])


def read_config(folder: Path) -> dict[str, Any]:
    """Return an adapter's configuration."""
    try:
        found: dict[str, Any] = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError) as fault:
        raise SetupError(f"{folder} holds no adapter: {fault}", hint="name its folder") from fault
    return found
