"""Cross-entropy over the vocabulary without ever holding all logits.

Owns the chunked loss: hidden states go through the head a chunk of rows at a time, and the
gradients of a chunk are made while its logits are there, so that backward has nothing left to
compute and the logits of one chunk are the peak. Knows no model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

IGNORE = -100
#: rows at a time: large enough for full matrix products, 512 MiB of logits at 128k words in bf16
CHUNK = 2048


def chunked_cross_entropy(
    hidden: torch.Tensor,
    head_weight: torch.Tensor,
    labels: torch.Tensor,
    chunk: int = CHUNK,
    *,
    scale: float | torch.Tensor = 1.0,
) -> torch.Tensor:
    """Return `scale` times the sum of the cross-entropy over all labels that are not -100.

    `hidden` is (…, h), already aligned with `labels` (…). The sum, not the mean: a step divides
    by the tokens of all its micro-batches and ranks, which `scale` is for.
    """
    rows, wanted = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    factor = torch.as_tensor(scale, dtype=torch.float32, device=rows.device)
    kind = _compute_dtype(rows)
    rows, weight = rows.to(kind), head_weight.to(kind)
    if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad):
        loss: torch.Tensor = _Chunked.apply(rows, weight, wanted, factor, chunk)
        return loss
    total = rows.new_zeros((), dtype=torch.float32)
    for start in range(0, rows.shape[0], chunk):
        logits = (rows[start : start + chunk] @ weight.t()).float()
        part = wanted[start : start + chunk]
        total += functional.cross_entropy(logits, part, ignore_index=IGNORE, reduction="sum")
    return total * factor


def plain_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, *, scale: float | torch.Tensor = 1.0
) -> torch.Tensor:
    """Return the same from logits that are all there, in float32."""
    flat = logits.reshape(-1, logits.shape[-1]).float()
    loss = functional.cross_entropy(flat, labels.reshape(-1), ignore_index=IGNORE, reduction="sum")
    return loss * scale


def _compute_dtype(rows: torch.Tensor) -> torch.dtype:
    if torch.is_autocast_enabled(rows.device.type):
        return torch.get_autocast_dtype(rows.device.type)
    return rows.dtype


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        factor: torch.Tensor,
        chunk: int,
    ) -> torch.Tensor:
        grad_rows = torch.empty_like(rows) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        total = rows.new_zeros((), dtype=torch.float32)
        for start in range(0, rows.shape[0], chunk):
            part = rows[start : start + chunk]
            loss, slope = chunk_slope(part @ weight.t(), labels[start : start + chunk], factor)
            total += loss
            slope = slope.to(rows.dtype)
            if grad_rows is not None:
                torch.mm(slope, weight, out=grad_rows[start : start + chunk])
            if grad_weight is not None:
                grad_weight.addmm_(slope.t(), part)
        ctx.save_for_backward(grad_rows, grad_weight)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grad_rows, grad_weight = ctx.saved_tensors
        return (
            None if grad_rows is None else grad_rows.mul_(grad.to(grad_rows.dtype)),
            None if grad_weight is None else grad_weight.mul_(grad.to(grad_weight.dtype)),
            None,
            None,
            None,
        )


def chunk_slope(
    logits: torch.Tensor, labels: torch.Tensor, factor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a chunk's scaled loss and the gradient of its logits."""
    full = logits.float()
    counts = labels != IGNORE
    wanted = labels.clamp_min(0).unsqueeze(1)
    norm = torch.logsumexp(full, dim=-1, keepdim=True)
    picked = full.gather(1, wanted)
    loss = ((norm - picked).squeeze(1) * counts).sum() * factor
    slope = (full - norm).exp_()
    slope.scatter_add_(1, wanted, torch.full_like(picked, -1.0))
    slope *= counts.unsqueeze(1) * factor
    return loss, slope
