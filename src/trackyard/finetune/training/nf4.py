"""Weights in four bits (NF4, double quantisation) in plain torch, for where bitsandbytes is not.

Owns the number format and a linear layer over it. Weights are made whole again for each product,
forward and backward, and never kept; on a GPU that is one fused kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

#: weights that share a scale, and scales that share one of theirs
BLOCK, GROUP = 64, 256
#: quantiles of a normal distribution, scaled to [-1, 1] (Dettmers et al., 2023)
LEVELS = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)


class PackedTensor:
    """A weight in four bits: codes, scales in eight bits, and what those are relative to."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.shape = weight.shape
        if weight.shape[-1] % BLOCK:
            raise ValueError(f"{BLOCK} weights share a scale: {weight.shape[-1]} is no multiple")
        levels = torch.tensor(LEVELS, device=weight.device)
        blocks = weight.detach().float().reshape(-1, BLOCK)
        scales = blocks.abs().amax(dim=1).clamp_min(1e-12)
        middle = (levels[1:] + levels[:-1]) / 2
        codes = torch.bucketize(blocks / scales.unsqueeze(1), middle).to(torch.uint8).view(-1, 2)
        #: two weights a byte
        self.codes = (codes[:, 0] << 4) | codes[:, 1]
        self.offset = scales.mean()
        count = scales.numel()
        padded = torch.zeros(-(-count // GROUP) * GROUP, device=weight.device)
        padded[:count] = scales - self.offset
        groups = padded.view(-1, GROUP)
        self.spread = groups.abs().amax(dim=1).clamp_min(1e-12) / 127
        self.scales = (groups / self.spread.unsqueeze(1)).round().to(torch.int8).view(-1)[:count]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return what has to be kept."""
        return self.codes, self.scales, self.spread, self.offset


def restore(
    codes: torch.Tensor,
    scales: torch.Tensor,
    spread: torch.Tensor,
    offset: torch.Tensor,
    levels: torch.Tensor,
    kind: torch.dtype,
) -> torch.Tensor:
    """Return the weights as a flat tensor."""
    of_group = spread.repeat_interleave(GROUP)[: scales.numel()]
    scale = scales.float() * of_group + offset
    high, low = levels[(codes >> 4).int()], levels[(codes & 15).int()]
    values = torch.stack((high, low), dim=-1).view(-1, BLOCK)
    return (values * scale.unsqueeze(1)).to(kind)


@functools.cache
def _restorer(on_gpu: bool) -> Callable[..., torch.Tensor]:
    return torch.compile(restore, dynamic=True) if on_gpu else restore


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, layer: Any) -> torch.Tensor:
        ctx.layer = layer
        return nn.functional.linear(x, layer.whole(x.dtype))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad @ ctx.layer.whole(grad.dtype), None


class Nf4Linear(nn.Linear):
    """A frozen linear layer whose weight is kept in four bits."""

    scales: torch.Tensor
    spread: torch.Tensor
    offset: torch.Tensor
    levels: torch.Tensor
    compute_dtype: torch.dtype
    weight_shape: torch.Size

    @classmethod
    def of(
        cls, weight: torch.Tensor, bias: torch.Tensor | None, compute: torch.dtype
    ) -> Nf4Linear:
        """Return the layer of a weight, on the weight's device."""
        made = cls(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
        packed = PackedTensor(weight)
        for name, tensor in zip(("scales", "spread", "offset"), packed.tensors()[1:], strict=True):
            made.register_buffer(name, tensor, persistent=False)
        made.register_buffer(
            "levels", torch.tensor(LEVELS, device=weight.device), persistent=False
        )
        # A parameter of the layer's name, as the code around it expects; it holds the codes.
        made.weight = nn.Parameter(packed.codes, requires_grad=False)
        made.weight_shape, made.compute_dtype = packed.shape, compute
        if bias is not None:
            made.bias = nn.Parameter(bias.to(weight.device, compute), requires_grad=False)
        return made

    def whole(self, kind: torch.dtype) -> torch.Tensor:
        """Return the weight as it was, but for rounding."""
        make = _restorer(self.weight.is_cuda)
        parts = (self.weight, self.scales, self.spread, self.offset, self.levels)
        return make(*parts, kind).view(self.weight_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product; the gradient goes to the input alone."""
        out: torch.Tensor = _Product.apply(x.to(self.compute_dtype), self)
        return out if self.bias is None else out + self.bias
