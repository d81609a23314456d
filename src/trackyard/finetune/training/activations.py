"""Activations: which are kept for backward, which are computed again, which wait in host memory.

Owns the policy per decoder layer and compiling the layers. Changes a layer's forward in place, so
that names of modules and weights stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

#: kept by `selective`: what is dear to compute; the cheap rest is computed again
_KEPT = (
    "mm",
    "addmm",
    "bmm",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """Return the decoder's layers: the longest list of modules, whatever it is called."""
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part)]
    if not lists:
        raise ValueError("the model has no list of layers")
    return max(lists, key=len)


def apply_policy(model: nn.Module, policy: str, *, layers: int = 0) -> None:
    """Have layers keep, recompute or offload their activations; `layers` of them, or all."""
    if policy == "none":
        return
    every = decoder_layers(model)
    for layer in every[: layers or len(every)]:
        layer.forward = _wrapped(layer.forward, policy)


def _wrapped(forward: Callable[..., Any], policy: str) -> Callable[..., Any]:
    options: dict[str, Any] = {"use_reentrant": False}
    if policy == "selective":
        options["context_fn"] = functools.partial(
            create_selective_checkpoint_contexts, _keep_products
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        if policy == "offload":
            on_gpu = torch.cuda.is_available()
            with torch.autograd.graph.save_on_cpu(pin_memory=on_gpu):
                return checkpoint(forward, *args, **options, **kwargs)
        return checkpoint(forward, *args, **options, **kwargs)

    return functools.wraps(forward)(call)


def _keep_products(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    if operator in _kept_operators():
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


@functools.cache
def _kept_operators() -> frozenset[Any]:
    return frozenset(_find_operators())


def _find_operators() -> Iterator[Any]:
    for name in _KEPT:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            yield packet.default
    varlen = getattr(torch.ops.torch_attn, "_varlen_attn", None) if _has_varlen() else None
    if varlen is not None:
        yield varlen.default


def _has_varlen() -> bool:
    try:
        import torch.nn.attention.varlen
    except ImportError:
        return False
    return hasattr(torch.ops, "torch_attn") and hasattr(torch.ops.torch_attn, "_varlen_attn")


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Compile each decoder layer by itself: one small graph for all, quick to build."""
    # Layers differ in an index alone; the limit is on graphs of one function.
    torch._dynamo.config.recompile_limit = max(  # type: ignore[attr-defined]
        64, 2 * len(decoder_layers(model))
    )
    for layer in decoder_layers(model):
        layer.compile(backend=backend, dynamic=False)
