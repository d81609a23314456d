"""Optimizers: AdamW in several sizes of state, SGD, and stepping while gradients still come.

Owns making them, setting their rate, and naming their state by parameter, so that it can be saved
and found again under any sharding. Knows nothing of checkpoints or of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from trackyard.core.errors import SetupError
from trackyard.finetune.recipe import OptimizerPart


def rate_at(step: int, total: int, part: OptimizerPart) -> float:
    """Return the learning rate of a step, counted from 0."""
    if step < part.warmup_steps:
        return part.lr * (step + 1) / part.warmup_steps
    if part.schedule == "constant":
        return part.lr
    done = min(1.0, (step - part.warmup_steps) / max(1, total - part.warmup_steps))
    share = 1 - done if part.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return part.min_lr + (part.lr - part.min_lr) * share


class Stepper:
    """One optimizer over all parameters that learn, or one for each, stepping in backward."""

    def __init__(self, model: nn.Module, part: OptimizerPart) -> None:
        self.names = {one: name for name, one in model.named_parameters() if one.requires_grad}
        self._in_backward = part.in_backward
        if not part.in_backward:
            self._all = [_make(list(self.names), part)]
            return
        self._all = []
        for parameter in self.names:
            optimizer = _make([parameter], part)
            self._all.append(optimizer)
            parameter.register_post_accumulate_grad_hook(_step_and_free(optimizer))

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step."""
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def step(self, scaler: Any = None) -> None:
        """Take the step, unless backward took it already."""
        if self._in_backward:
            return
        if scaler is None:
            self._all[0].step()
        else:
            scaler.step(self._all[0])

    def unscale(self, scaler: Any) -> None:
        """Take the loss scale out of the gradients."""
        scaler.unscale_(self._all[0])

    def clear(self) -> None:
        """Forget the gradients."""
        for parameter in self.names:
            parameter.grad = None

    def state(self) -> dict[str, torch.Tensor]:
        """Return all state as tensors, named by parameter."""
        found = {}
        for parameter, key, value in self._items():
            found[f"{self.names[parameter]}/{key}"] = torch.as_tensor(value)
        return found

    def allocate(self, known: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Make room for a saved state, given the size and type of each of its tensors."""
        by_name = {name: one for one, name in self.names.items()}
        owner = {
            one: optimizer
            for optimizer in self._all
            for group in optimizer.param_groups
            for one in group["params"]
        }
        found: dict[str, torch.Tensor] = {}
        for full, (size, kind) in known.items():
            name, _, key = full.rpartition("/")
            parameter = by_name.get(name)
            if parameter is None:
                continue
            room = _room(parameter, tuple(size), kind)
            owner[parameter].state[parameter][key] = room
            found[full] = room
        return found

    def restore_plain(self) -> None:
        """Turn counters back into the plain numbers that some optimizers keep."""
        for optimizer in self._all:
            for state in optimizer.state.values():
                if type(optimizer).__module__.startswith("bitsandbytes") and "step" in state:
                    state["step"] = int(state["step"])

    def bytes(self) -> int:
        """Return the size of the state on this process."""
        total = 0
        for _, _, value in self._items():
            if isinstance(value, torch.Tensor):
                local = value.to_local() if hasattr(value, "to_local") else value
                total += local.nbytes
        return total

    def _items(self) -> Iterator[tuple[nn.Parameter, str, Any]]:
        for optimizer in self._all:
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor | int | float):
                        yield parameter, key, value


def _room(parameter: nn.Parameter, size: tuple[int, ...], kind: torch.dtype) -> torch.Tensor:
    if size == tuple(parameter.shape):
        return torch.zeros_like(parameter, dtype=kind, requires_grad=False)
    device = "cpu" if not size else parameter.device
    return torch.zeros(size, dtype=kind, device=device)


def _step_and_free(optimizer: torch.optim.Optimizer) -> Any:
    def hook(parameter: nn.Parameter) -> None:
        optimizer.step()
        parameter.grad = None

    return hook


def _make(parameters: list[nn.Parameter], part: OptimizerPart) -> torch.optim.Optimizer:
    betas = (part.beta1, part.beta2)
    shared: dict[str, Any] = {"lr": part.lr, "weight_decay": part.weight_decay}
    if part.name == "sgd":
        return torch.optim.SGD(parameters, momentum=part.momentum, **shared)
    shared |= {"betas": betas, "eps": part.eps}
    if part.name == "adamw8bit":
        try:
            from bitsandbytes.optim import AdamW8bit
        except ImportError as fault:
            raise SetupError(
                "8-bit AdamW needs bitsandbytes", hint="pip install 'trackyard[train]'"
            ) from fault
        return AdamW8bit(parameters, **shared)
    is_small = all(one.dtype == torch.bfloat16 for one in parameters)
    if part.name == "adamw_bf16" and not is_small:
        return AdamW16(parameters, **shared)
    on_gpu = all(one.is_cuda for one in parameters)
    return torch.optim.AdamW(parameters, fused=on_gpu, foreach=False, **shared)


class AdamW16(torch.optim.Optimizer):
    """AdamW whose two moments are kept in bfloat16 while the weights are in 32 bits."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(parameters, defaults)

    def step(self, closure: Any = None) -> None:
        """Take one step; arithmetic is in 32 bits, storage in 16."""
        assert closure is None
        with torch.no_grad():
            for group in self.param_groups:
                for one in group["params"]:
                    if one.grad is not None:
                        self._step_one(one, group)

    def _step_one(self, one: nn.Parameter, group: Mapping[str, Any]) -> None:
        state = self.state[one]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(one, dtype=torch.bfloat16)
            state["exp_avg_sq"] = torch.zeros_like(one, dtype=torch.bfloat16)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        gradient = one.grad.float()
        mean = state["exp_avg"].float().lerp_(gradient, 1 - beta1)
        square = (
            state["exp_avg_sq"].float().mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        )
        state["exp_avg"].copy_(mean)
        state["exp_avg_sq"].copy_(square)
        count = float(state["step"])
        spread = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
        one.mul_(1 - group["lr"] * group["weight_decay"])
        one.addcdiv_(mean, spread, value=-group["lr"] / (1 - beta1**count))
