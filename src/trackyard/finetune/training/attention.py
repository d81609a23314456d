"""Attention for training: causal, and causal within each row of a packed sequence.

Owns the function that models of transformers call by the name `yard`, and the choice of kernel:
flash or cuDNN through SDPA for whole sequences, the variable-length kernel for packed ones on a
GPU, a block-diagonal mask elsewhere. A packed row never sees its neighbours.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch.nn import functional

NAME = "yard"


def register() -> None:
    """Make the function known to transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, lambda *_args, **_kwargs: None)


def has_varlen(device: torch.device, compute: torch.dtype) -> bool:
    """Tell whether rows of a packed sequence can be computed without a mask: the kernel is for
    16 bits, on a GPU.
    """
    if device.type != "cuda" or compute not in (torch.bfloat16, torch.float16):
        return False
    try:
        from torch.nn.attention import varlen
    except ImportError:
        return False
    return varlen is not None


def prefer(kernel: str) -> None:
    """Choose which of SDPA's kernels on the GPU is tried first: `auto`, `flash` or `cudnn`."""
    if kernel == "auto" or not torch.cuda.is_available():
        return
    from torch.nn.attention import SDPBackend

    fast = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    if kernel == "cudnn":
        fast.reverse()
        torch.backends.cuda.enable_cudnn_sdp(True)
    order = [*fast, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    torch._C._set_sdp_priority_order([int(one) for one in order])


def no_mask(device: torch.device) -> torch.Tensor:
    """Return what is passed as a mask where there is none: four dimensions are left alone.

    Without it transformers looks into the positions for packed rows, which waits for the GPU.
    """
    return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)


def block_mask(segments: torch.Tensor) -> torch.Tensor:
    """Return the mask of packed sequences: causal, within a row."""
    width = segments.shape[-1]
    same = segments.unsqueeze(-1) == segments.unsqueeze(-2)
    causal = torch.ones(width, width, dtype=torch.bool, device=segments.device).tril()
    return (same & causal).unsqueeze(1)


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention as transformers asks for it: heads first in, heads third out."""
    if more.get("softcap") is not None:
        raise ValueError("this model caps its attention scores, which no fast kernel does")
    window = sliding_window if sliding_window and sliding_window < query.shape[2] else None
    if cu_seq_lens_q is not None:
        lengths = (cu_seq_lens_q, max_length_q or query.shape[2])
        return _varlen(query, key, value, lengths, scaling, window), None
    mask = attention_mask if attention_mask is not None and attention_mask.shape[-1] > 1 else None
    if window is not None:
        near = _window_mask(query.shape[2], window, query.device)
        mask = near if mask is None else mask & near
    groups = query.shape[1] // key.shape[1]
    shares = groups > 1 and mask is None and query.is_cuda
    if groups > 1 and not shares:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    out = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout if module.training else 0.0,
        is_causal=mask is None,
        scale=scaling,
        enable_gqa=shares,
    )
    return out.transpose(1, 2), None


def _window_mask(width: int, window: int, device: torch.device) -> torch.Tensor:
    at = torch.arange(width, device=device)
    back = at.unsqueeze(1) - at.unsqueeze(0)
    return ((back >= 0) & (back < window)).view(1, 1, width, width)


def _varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: tuple[torch.Tensor, int],
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    batch, heads, width, size = query.shape
    # Rotated in 32 bits under autocast, which does not know this kernel.
    query, key = query.to(value.dtype), key.to(value.dtype)
    options: dict[str, Any] = {}
    # The kernel shares keys among groups of heads; newer releases of torch want to be told.
    if heads > key.shape[1] and "enable_gqa" in _OPTIONS:
        options["enable_gqa"] = True
    if "scale" in _OPTIONS:
        options["scale"] = scaling
    elif scaling is not None:
        query = query * (scaling * math.sqrt(size))
    if "window_size" in _OPTIONS:
        options["window_size"] = (-1 if window is None else window - 1, 0)
    else:
        options["is_causal"] = True
    flat = [part.transpose(1, 2).flatten(0, 1) for part in (query, key, value)]
    starts, longest = lengths
    out = varlen_attn(*flat, starts, starts, longest, longest, **options)
    return out.view(batch, width, heads, size)


def _options() -> frozenset[str]:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return frozenset()
    return frozenset(inspect.signature(varlen_attn).parameters)


_OPTIONS = _options()
