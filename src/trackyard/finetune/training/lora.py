"""LoRA on linear layers: y = xWᵀ + scale · (xAᵀ)Bᵀ in one autograd function that keeps x once.

Owns the adapter parameters and the arithmetic; knows neither files nor how a model is sharded.
A linear layer becomes an adapted one by changing its class, so that `weight` keeps its name and
base weights are read as if there were no adapter.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

ALL_LINEAR = "all-linear"
#: never adapted by `all-linear`: its gradient would need the logits' input as well
HEAD = "lm_head"


class _Fused(torch.autograd.Function):
    """The adapted product. Saves x, the weights and the small xAᵀ; nothing else."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        lora_a: torch.Tensor,
        lora_b: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        low = rows @ lora_a.t()
        out = torch.addmm(functional.linear(rows, weight, bias), low, lora_b.t(), alpha=scale)
        ctx.save_for_backward(rows, weight, lora_a, lora_b, low)
        ctx.scale, ctx.shape = scale, x.shape
        return out.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, lora_a, lora_b, low = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        grad_low = (flat @ lora_b) * ctx.scale
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.addmm(flat @ weight, grad_low, lora_a).view(ctx.shape)
        grad_bias = flat.sum(0) if ctx.needs_input_grad[2] else None
        grad_b = (flat.t() @ low) * ctx.scale
        return grad_x, None, grad_bias, grad_low.t() @ rows, grad_b, None


class Adapter:
    """What every adapted layer has: the two small matrices and their scale."""

    lora_a: nn.Parameter
    lora_b: nn.Parameter
    lora_scale: float
    lora_dropout: float

    def low_rank(self, x: torch.Tensor) -> torch.Tensor:
        """Return the adapter's part of the product, by itself."""
        if self.lora_dropout and self.training:  # type: ignore[attr-defined]
            x = functional.dropout(x, self.lora_dropout)
        x = x.to(self.lora_a.dtype)
        return functional.linear(functional.linear(x, self.lora_a), self.lora_b) * self.lora_scale

    def delta(self) -> torch.Tensor:
        """Return what the adapter adds to the weight, in float32."""
        return self.lora_b.float() @ self.lora_a.float() * self.lora_scale


class LoraLinear(nn.Linear, Adapter):
    """A linear layer with an adapter; its own weight is frozen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's product with the adapter's part added."""
        if self.lora_dropout and self.training:
            base = functional.linear(x, self.weight, self.bias)
            return base + self.low_rank(x).to(base.dtype)
        kind = _compute_dtype(x)
        weights = [
            _cast(part, kind) for part in (self.weight, self.bias, self.lora_a, self.lora_b)
        ]
        if torch.compiler.is_compiling():
            # The compiler keeps x once by itself, and fuses more than a closed function lets it.
            return _product(x.to(kind), *weights, self.lora_scale)
        out: torch.Tensor = _Fused.apply(x.to(kind), *weights, self.lora_scale)
        return out


def _product(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    weight, bias, lora_a, lora_b, scale = rest
    low = functional.linear(x, lora_a).flatten(0, -2)
    base = functional.linear(x, weight, bias)
    return torch.addmm(base.flatten(0, -2), low, lora_b.t(), alpha=scale).view_as(base)


def _compute_dtype(x: torch.Tensor) -> torch.dtype:
    # A custom function's backward runs outside autocast, so the cast is made here.
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


def _cast(part: torch.Tensor | None, kind: torch.dtype) -> torch.Tensor | None:
    return part if part is None or part.dtype == kind else part.to(kind)


def apply_lora(
    model: nn.Module,
    rank: int,
    alpha: float,
    targets: Sequence[str] = (ALL_LINEAR,),
    dtype: torch.dtype | None = None,
    *,
    dropout: float = 0.0,
    rslora: bool = False,
    seed: int = 0,
) -> list[str]:
    """Freeze the model, give the targeted linear layers adapters, and return their names.

    A target is `all-linear`, the last part of a layer's name (`q_proj`) or a pattern over the
    whole name. Adapters are bf16 where the weights are, unless `dtype` says otherwise.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    names = [name for name, _ in targeted(model, targets)]
    if not names:
        linear = sorted({name.rpartition(".")[2] for name, _ in _linear_layers(model)})
        raise ValueError(
            f"no linear layer matches {', '.join(targets)}: the model has {', '.join(linear)}"
        )
    scale = alpha / (math.sqrt(rank) if rslora else rank)
    for name in names:
        _adapt(model.get_submodule(name), rank, scale, dropout, dtype)
    reset_lora(model, seed)
    return names


def targeted(model: nn.Module, targets: Sequence[str]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the linear layers that the targets name."""
    for name, layer in _linear_layers(model):
        last = name.rpartition(".")[2]
        named = any(last == target or fnmatch.fnmatchcase(name, target) for target in targets)
        if named or (ALL_LINEAR in targets and last != HEAD):
            yield name, layer


def adapted(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the layers that have adapters."""
    for name, layer in model.named_modules():
        if isinstance(layer, Adapter):
            yield name, layer


def reset_lora(model: nn.Module, seed: int) -> None:
    """Give adapters their first values: A uniform, B zero. The same on every rank and layout."""
    for name, layer in adapted(model):
        if layer.lora_a.is_meta:
            continue
        first = first_a(name, layer.lora_a.shape, seed)
        with torch.no_grad():
            local, rows = local_rows(layer.lora_a)
            local.copy_(first if rows is None else first[rows])
            layer.lora_b.zero_()


def first_a(name: str, shape: Sequence[int], seed: int) -> torch.Tensor:
    """Return A's first values, which depend on the layer's name and the seed alone."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    bound = 1 / math.sqrt(shape[1])
    return torch.empty(tuple(shape)).uniform_(-bound, bound, generator=generator)


def local_rows(parameter: Any) -> tuple[torch.Tensor, slice | None]:
    """Return the part of a parameter that this process holds, and which rows they are."""
    from torch.distributed.tensor import DTensor

    if not isinstance(parameter, DTensor):
        return parameter.data, None
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements
    )
    return parameter.to_local(), slice(offset[0], offset[0] + shape[0])


def _linear_layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            yield name, layer


def _adapt(
    layer: nn.Module, rank: int, scale: float, dropout: float, dtype: torch.dtype | None
) -> None:
    assert isinstance(layer, nn.Linear)
    kind = dtype or _adapter_dtype(layer)
    device = layer.weight.device
    layer.__class__ = _adapted_class(type(layer))
    layer.lora_a = nn.Parameter(torch.empty(rank, layer.in_features, dtype=kind, device=device))
    layer.lora_b = nn.Parameter(torch.empty(layer.out_features, rank, dtype=kind, device=device))
    layer.lora_scale, layer.lora_dropout = scale, dropout  # type: ignore[assignment]


def _adapter_dtype(layer: nn.Linear) -> torch.dtype:
    if layer.weight.dtype.is_floating_point:
        return layer.weight.dtype
    return getattr(layer, "compute_dtype", None) or torch.bfloat16


def _adapted_class(kind: type[nn.Module]) -> type[nn.Module]:
    if kind is nn.Linear:
        return LoraLinear
    if kind not in _SUBCLASSES:
        # Quantised layers multiply in their own way; the adapter's part is added to it.
        def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
            base = kind.forward(self, x)
            return base + self.low_rank(x).to(base.dtype)  # type: ignore[no-any-return]

        _SUBCLASSES[kind] = type(f"Lora{kind.__name__}", (kind, Adapter), {"forward": forward})
    return _SUBCLASSES[kind]


_SUBCLASSES: dict[type[nn.Module], type[nn.Module]] = {}
