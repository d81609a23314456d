"""Stand-ins for what only a GPU has: attention kernels, and the compiler's choice of what to keep.

Owns what the CUDA kernels of attention allocate and keep (flash for 16 bits, the variable-length
one for packed rows, the plain formula where 32 bits meet grouped heads), and the partitioner run
on one decoder layer. Imported by trace.py alone, where torch is known to be there.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_unflatten

from trackyard.finetune.planning.memory import FLASH_ALIGNMENT

_LIBRARY = "trackyard_plan"


def _heads_third(query: torch.Tensor) -> torch.Tensor:
    batch, heads, width, size = query.shape
    return query.new_empty(batch, width, heads, size).transpose(1, 2)


def _flash_shapes(
    query: torch.Tensor,
    key: torch.Tensor,  # noqa: ARG001 - the operator's signature
    value: torch.Tensor,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, heads, width, _ = query.shape
    out = _heads_third(query)
    return out, query.new_empty(batch, heads, width, dtype=torch.float32)


def _flash_backward_shapes(
    grad: torch.Tensor,  # noqa: ARG001
    *kept: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    query, key, value = kept[:3]
    # The kernel sums queries' gradients in 32 bits.
    _summed = query.new_empty(query.shape, dtype=torch.float32)
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _operators() -> Any:
    """Define the two operators once, with what they allocate and how they differentiate."""
    if hasattr(torch.ops, _LIBRARY) and hasattr(getattr(torch.ops, _LIBRARY), "flash"):
        return getattr(torch.ops, _LIBRARY)
    flash = torch.library.custom_op(
        f"{_LIBRARY}::flash",
        _flash_shapes,
        mutates_args=(),
        schema="(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor)",
    )
    backward = torch.library.custom_op(
        f"{_LIBRARY}::flash_backward",
        _flash_backward_shapes,
        mutates_args=(),
        schema="(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor out, Tensor sums)"
        " -> (Tensor, Tensor, Tensor)",
    )
    flash.register_fake(_flash_shapes)
    backward.register_fake(_flash_backward_shapes)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, *output)

    def differentiate(ctx: Any, grad: torch.Tensor, _sums: Any) -> Any:
        return backward(grad, *ctx.saved_tensors)

    flash.register_autograd(differentiate, setup_context=keep)
    return getattr(torch.ops, _LIBRARY)


def _plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention by its formula, scores in full, as SDPA computes it where no kernel serves."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scale = query.shape[-1] ** -0.25
    query, key = (query * scale).contiguous(), (key * scale).contiguous()
    scores = torch.softmax(query @ key.transpose(-2, -1), dim=-1)
    return scores @ value.contiguous()


def _attention(
    _module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: Any = None,
    **_more: Any,
) -> tuple[torch.Tensor, None]:
    if torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(kind), key.to(kind), value.to(kind)
    if query.dtype == torch.float32 and query.shape[1] != key.shape[1]:
        return _plain(query, key, value).transpose(1, 2).contiguous(), None
    size = query.shape[-1]
    spare = -size % FLASH_ALIGNMENT if query.dtype != torch.float32 else 0
    if spare:
        query, key, value = (functional.pad(one, (0, spare)) for one in (query, key, value))
    out, _ = _operators().flash(query, key, value)
    return out[..., :size].transpose(1, 2).contiguous(), None


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    """Have models of transformers attend by the stand-in, and put the real one back."""
    from transformers import AttentionInterface

    from trackyard.finetune.training import activations, attention

    own = _operators().flash.default
    names = vars(activations)
    kept = names["_kept_operators"]
    AttentionInterface.register(attention.NAME, _attention)
    # What the policy keeps of the real kernels it keeps of this one.
    names["_kept_operators"] = lambda: kept() | {own}
    try:
        yield
    finally:
        names["_kept_operators"] = kept
        attention.register()


def partitioned(layers: Any) -> None:
    """Have alike layers run as the compiler's partitioner cuts them into forward and backward.

    One layer is cut, with its weights as arguments, and serves for all whose inputs need
    gradients alike.
    """
    from torch._functorch.aot_autograd import aot_function, make_boxed_func
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table
    from torch.func import functional_call

    first = copy.copy(layers[0])
    names = [name for name, _ in first.named_parameters()]
    cut: dict[tuple[bool, ...], Callable[..., Any]] = {}

    def as_is(graph: Any, _examples: Any) -> Any:
        return make_boxed_func(graph.forward)

    def forward_of(layer: torch.nn.Module) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            leaves, form = tree_flatten((args, kwargs))
            where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

            def flat(*values: torch.Tensor) -> Any:
                whole = list(leaves)
                for place, value in zip(where, values, strict=False):
                    whole[place] = value
                inner_args, inner_kwargs = tree_unflatten(whole, form)
                weights = dict(zip(names, values[len(where) :], strict=True))
                return functional_call(first, weights, inner_args, inner_kwargs)

            inputs = [leaves[place] for place in where]
            key = tuple(one.requires_grad for one in inputs)
            if key not in cut:
                cut[key] = aot_function(
                    flat,
                    fw_compiler=as_is,
                    bw_compiler=as_is,
                    partition_fn=min_cut_rematerialization_partition,
                    decompositions=select_decomp_table(),
                )
            return cut[key](*inputs, *(value for _, value in layer.named_parameters()))

        return call

    for layer in layers:
        layer.forward = forward_of(layer)
