"""What a run hands over: weights that stock transformers or peft load, and merging the two.

Owns writing the final model, and the merge that goes through the base a tensor at a time, so that
its memory is bounded by the largest tensor. Model cards and the registry lie elsewhere.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trackyard.core.errors import SetupError
from trackyard.finetune.locate import model_folder
from trackyard.finetune.recipe import Recipe
from trackyard.finetune.training import adapters
from trackyard.finetune.training.adapters import full
from trackyard.finetune.training.sharding import RankPlace, barrier
from trackyard.finetune.training.tensorfile import KINDS, SHARD_BYTES, ShardedWriter, TensorEntry
from trackyard.finetune.training.weights import WeightFolder

#: files beside the weights that belong to a model
_BESIDE = (
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
    "*.model",
    "chat_template*",
    "added_tokens.json",
)


def export(model: nn.Module, recipe: Recipe, folder: Path, place: RankPlace) -> None:
    """Write what was learned; call it on every rank, the first one writes."""
    if recipe.setup().is_adapter:
        _export_adapter(model, recipe, folder, place)
    else:
        _export_full(model, recipe, folder, place)
    barrier(place)


def _export_adapter(model: nn.Module, recipe: Recipe, folder: Path, place: RankPlace) -> None:
    from safetensors.torch import save_file

    kept = {}
    for name, tensor in adapters.tensors(model):
        if place.is_first:
            kept[name] = tensor.detach().to("cpu").contiguous().clone()
    if not place.is_first:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_file(kept, folder / adapters.WEIGHTS, metadata={"format": "pt"})
    settings = adapters.config(
        base=recipe.model,
        rank=recipe.lora.rank,
        alpha=recipe.lora.alpha,
        dropout=recipe.lora.dropout,
        targets=adapters.target_names(model),
        rslora=recipe.lora.rslora,
        dora=recipe.method == "dora",
    )
    (folder / adapters.CONFIG).write_text(json.dumps(settings, indent=2) + "\n")
    copy_beside(model_folder(recipe.model), folder, weights_config=False)


def _export_full(model: nn.Module, recipe: Recipe, folder: Path, place: RankPlace) -> None:
    kind = _stored_kind(recipe)
    named = list(model.named_parameters())
    entries = [TensorEntry(name, tuple(one.shape), kind) for name, one in named]
    writer = ShardedWriter(folder, entries) if place.is_first else None
    for name, one in named:
        tensor = full(one.detach())
        if writer is not None:
            writer.write(name, tensor)
    if writer is None:
        return
    writer.close()
    source = model_folder(recipe.model)
    copy_beside(source, folder)
    config = json.loads((source / "config.json").read_text())
    config.pop("torch_dtype", None)
    config["dtype"] = str(kind).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _stored_kind(recipe: Recipe) -> torch.dtype:
    return torch.bfloat16 if recipe.precision == "bf16" else torch.float32


def copy_beside(source: Path, target: Path, *, weights_config: bool = True) -> None:
    """Copy tokenizer and configuration of a model."""
    target.mkdir(parents=True, exist_ok=True)
    for pattern in _BESIDE:
        if not weights_config and "config.json" in pattern:
            continue
        for path in source.glob(pattern):
            if path.is_file() and path.resolve() != (target / path.name).resolve():
                shutil.copyfile(path, target / path.name)


def merge(
    adapter: Path, target: Path, *, base: Path | None = None, shard_bytes: int = SHARD_BYTES
) -> dict[str, int]:
    """Write the base with an adapter added into it; return how many tensors were changed.

    Goes through the base tensor by tensor, each multiplied in float32 and stored in its own type.
    """
    settings = adapters.read_config(adapter)
    if settings.get("use_dora"):
        raise SetupError(
            "a DoRA adapter is not merged here", hint="peft's merge_and_unload() does it"
        )
    folder = base or model_folder(str(settings["base_model_name_or_path"]))
    if target.resolve() == folder.resolve():
        raise SetupError("the merged model would overwrite its base", hint="name another folder")
    source = WeightFolder(folder)
    scale = _scale(settings)
    from safetensors import safe_open

    with safe_open(adapter / adapters.WEIGHTS, framework="pt") as file:
        pairs = _pairs(list(file.keys()))
        unknown = sorted(set(pairs) - set(source.names()))
        if unknown:
            raise SetupError(
                f"the base in {folder} has no {unknown[0]}",
                hint="the adapter was made for another model: name its base with --base",
            )
        entries = [_entry(folder, source, name) for name in source.names()]
        writer = ShardedWriter(target, entries, shard_bytes=shard_bytes)
        for entry in entries:
            tensor = source.read(entry.name)
            if entry.name in pairs:
                low_a, low_b = (file.get_tensor(name) for name in pairs[entry.name])
                added = torch.addmm(tensor.float(), low_b.float(), low_a.float(), alpha=scale)
                tensor = added.to(entry.dtype)
            writer.write(entry.name, tensor)
        writer.close()
    copy_beside(folder, target)
    return {"merged": len(pairs), "tensors": len(entries)}


def _scale(settings: dict[str, Any]) -> float:
    rank, alpha = int(settings["r"]), float(settings["lora_alpha"])
    return alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)


def _pairs(names: list[str]) -> dict[str, tuple[str, str]]:
    found = {}
    for name in names:
        if name.endswith(".lora_A.weight"):
            stem = name.removesuffix(".lora_A.weight")
            weight = f"{stem.removeprefix(adapters.PREFIX)}.weight"
            found[weight] = (name, f"{stem}.lora_B.weight")
    return found


def _entry(folder: Path, source: WeightFolder, name: str) -> TensorEntry:
    from safetensors import safe_open

    with safe_open(folder / source.file_of(name), framework="pt") as file:
        part = file.get_slice(name)
        return TensorEntry(name, tuple(part.get_shape()), KINDS[part.get_dtype()])
