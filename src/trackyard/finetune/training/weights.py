"""Weights from a model's folder, read straight into where they are trained.

Owns reading safetensors a tensor at a time: each rank reads only the rows of its own shard, and a
layer that is stored in 4 bits is quantised as it arrives, so that no process ever holds the whole
model. Knows neither optimizers nor the loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from trackyard.core.errors import SetupError
from trackyard.finetune.training.lora import local_rows, targeted
from trackyard.finetune.training.nf4 import Nf4Linear

#: makes a 4-bit layer of a weight and a bias
Maker = Callable[[torch.Tensor, "torch.Tensor | None", torch.dtype], nn.Module]
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


class WeightFolder:
    """The tensors of a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = _files(folder)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self) -> list[str]:
        """Return the names of all tensors."""
        return list(self._files)

    def file_of(self, name: str) -> str:
        """Return the file a tensor lies in."""
        return self._files[name]

    def read(self, name: str, rows: slice | None = None) -> torch.Tensor:
        """Return a tensor, or some of its rows."""
        from safetensors import safe_open

        with safe_open(self._folder / self._files[name], framework="pt") as file:
            if rows is None:
                return file.get_tensor(name)
            return file.get_slice(name)[rows]


def has_weights(folder: Path) -> bool:
    """Tell whether a folder holds weights in safetensors."""
    return (folder / INDEX).is_file() or (folder / SINGLE).is_file()


def _files(folder: Path) -> dict[str, str]:
    from safetensors import safe_open

    if (folder / INDEX).is_file():
        found: dict[str, str] = json.loads((folder / INDEX).read_text())["weight_map"]
        return found
    if not (folder / SINGLE).is_file():
        raise SetupError(
            f"{folder} holds no weights in safetensors",
            hint="download them there, or try the setup out with `weights: random`",
        )
    with safe_open(folder / SINGLE, framework="pt") as file:
        return dict.fromkeys(file.keys(), SINGLE)


def load_into(model: nn.Module, source: WeightFolder | MemoryWeights) -> None:
    """Fill every weight of the model, sharded or whole, from a source."""
    missing = []
    tied = _tied_names(model)
    with torch.no_grad():
        for name, parameter in base_parameters(model):
            if name in source:
                fill(parameter, source, name)
            elif name not in tied:
                missing.append(name)
    if missing:
        raise SetupError(
            f"the model's folder has no weights for {', '.join(missing[:3])}"
            f"{' …' if len(missing) > 3 else ''}",
            hint="its names differ from the model's: open and save it once with transformers",
        )


def base_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the weights that a model's folder holds: all but adapters."""
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            yield name, parameter


def _tied_names(model: nn.Module) -> set[str]:
    if not getattr(model.config, "tie_word_embeddings", False):
        return set()
    head = model.get_output_embeddings()
    return {f"{name}.weight" for name, module in model.named_modules() if module is head}


def fill(parameter: nn.Parameter, source: WeightFolder | MemoryWeights, name: str) -> None:
    """Copy a tensor of the source into a parameter, or this rank's rows of it."""
    local, rows = local_rows(parameter)
    if local.numel():
        local.copy_(source.read(name, rows).view(local.shape))


class MemoryWeights:
    """Tensors of a model in memory, read as those of a folder are."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = tensors

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def read(self, name: str, rows: slice | None = None) -> torch.Tensor:
        """Return a tensor, or some of its rows."""
        tensor = self._tensors[name]
        return tensor if rows is None else tensor[rows]


def quantise(
    model: nn.Module,
    source: WeightFolder | None,
    device: torch.device,
    compute: torch.dtype,
    *,
    make: Maker | None = None,
) -> None:
    """Make every linear layer of the decoder one of 4 bits (NF4, double quantisation).

    With a source, the model is on meta and its weights are read and quantised one by one;
    without, the weights it has are. bitsandbytes does it where it is installed.
    """
    make = make or _best_maker()
    for name, layer in list(targeted(model, ("all-linear",))):
        weight = layer.weight.data if source is None else source.read(f"{name}.weight")
        bias = None
        if layer.bias is not None:
            bias = layer.bias.data if source is None else source.read(f"{name}.bias")
        made = make(weight.to(device, compute), bias, compute)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, made)


def _best_maker() -> Maker:
    try:
        import bitsandbytes
    except (ImportError, RuntimeError, OSError):
        # Absent, or built for another driver.
        return Nf4Linear.of
    return _of_bitsandbytes if bitsandbytes is not None else Nf4Linear.of


def _of_bitsandbytes(
    weight: torch.Tensor, bias: torch.Tensor | None, compute: torch.dtype
) -> nn.Module:
    from bitsandbytes.nn import Linear4bit, Params4bit

    made = Linear4bit(
        weight.shape[1],
        weight.shape[0],
        bias=bias is not None,
        compute_dtype=compute,
        compress_statistics=True,
        quant_type="nf4",
        device="meta",
    )
    made.weight = Params4bit(
        weight.to("cpu").contiguous(),
        requires_grad=False,
        quant_type="nf4",
        compress_statistics=True,
    ).to(weight.device)
    if bias is not None:
        made.bias = nn.Parameter(bias.to(weight.device, compute), requires_grad=False)
    return made


def fill_rest(
    model: nn.Module, source: WeightFolder, device: torch.device, kind: torch.dtype
) -> None:
    """Give what is still on meta its weights: embeddings, norms, the head."""
    tied = _tied_names(model)
    for name, parameter in list(model.named_parameters()):
        if not parameter.is_meta or name in tied:
            continue
        tensor = source.read(name).to(device=device, dtype=kind)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, nn.Parameter(tensor, requires_grad=False))
    if tied:
        model.tie_weights()
    for module in model.modules():
        for key, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, key, buffer.to(device))
