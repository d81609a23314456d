"""Speed and memory of a run: tokens a second, MFU, and what memory is used for.

Owns the clock and the counters. Reads sizes of tensors and the allocator; changes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trackyard.finetune import flops
from trackyard.finetune.training.feed import Step
from trackyard.finetune.training.optimizers import Stepper
from trackyard.finetune.training.sharding import RankPlace

GIB = 1024**3


class Meter:
    """Counts tokens and time since the last reading."""

    def __init__(
        self,
        place: RankPlace,
        config: Any,
        *,
        parameters: int,
        frozen: bool,
        peak_tflops: float,
        epoch_length: int,
    ) -> None:
        self._place = place
        self._layers = int(config.num_hidden_layers)
        self._hidden = int(config.num_attention_heads) * _head_size(config)
        self._parameters = parameters
        self._frozen = frozen
        self._peak = peak_tflops * 1e12 or _device_peak(place.device)
        self._epoch_length = epoch_length
        self._gradient_bytes = 0
        #: tokens trained on in all
        self.tokens = 0
        self._work = 0.0
        self._fresh = 0
        self._steps = 0
        self._since = time.perf_counter()

    def count(self, step: Step) -> None:
        """Count the tokens of a step, on all ranks."""
        self.tokens += step.tokens
        self._fresh += step.tokens
        self._steps += 1
        self._work += step.tokens * flops.per_token(
            parameters=self._parameters,
            layers=self._layers,
            hidden=self._hidden,
            length=step.mean_length,
            frozen=self._frozen,
        )

    def gradients(self, model: nn.Module) -> None:
        """Note the size of the gradients while they are there."""
        if not self._gradient_bytes:
            self._gradient_bytes = sum(
                _local(one.grad).nbytes for one in model.parameters() if one.grad is not None
            )

    def pause(self) -> None:
        """Leave out what has passed: it was not training."""
        self._since, self._fresh, self._work = time.perf_counter(), 0, 0.0
        self._steps = 0

    def restore(self, tokens: int) -> None:
        """Go on counting from a saved number."""
        self.tokens = tokens
        self.pause()

    def epoch(self, position: int) -> float:
        """Return how many times the data has been seen at a position."""
        return position / max(1, self._epoch_length)

    def read(self, model: nn.Module, stepper: Stepper) -> dict[str, float]:
        """Return the numbers since the last reading, and begin anew."""
        now = time.perf_counter()
        passed = max(now - self._since, 1e-9)
        found = {"tokens": float(self.tokens)}
        if self._steps:
            found["step_seconds"] = passed / self._steps
        if self._fresh:
            found["tokens_per_second"] = self._fresh / passed
            if self._peak is not None:
                found["mfu"] = self._work / passed / (self._peak * self._place.world)
        self._since, self._fresh, self._work = now, 0, 0.0
        self._steps = 0
        return found | self.memory(model, stepper)

    def memory(self, model: nn.Module, stepper: Stepper) -> dict[str, float]:
        """Return the peak of memory and what it was used for, in GiB."""
        weights = sum(_local(one).nbytes for one in model.parameters())
        parts = {
            "memory/weights_gib": weights / GIB,
            "memory/gradients_gib": self._gradient_bytes / GIB,
            "memory/optimizer_gib": stepper.bytes() / GIB,
        }
        if self._place.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self._place.device) / GIB
            parts["memory/reserved_gib"] = torch.cuda.max_memory_reserved() / GIB
        else:
            peak = _resident() / GIB
        parts["memory/activations_gib"] = max(0.0, peak - sum(list(parts.values())[:3]))
        return {"memory/peak_gib": peak, **parts}

    def words(self, numbers: Mapping[str, float]) -> str:
        """Return speed and memory in a few words."""
        words = []
        if "tokens_per_second" in numbers:
            words.append(f"{numbers['tokens_per_second']:,.0f} tok/s")
        if "mfu" in numbers:
            words.append(f"MFU {numbers['mfu']:.3f}")
        words.append(f"{numbers['memory/peak_gib']:.1f} GiB")
        return "  ".join(words)


def _local(tensor: Any) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _head_size(config: Any) -> int:
    return int(getattr(config, "head_dim", 0) or config.hidden_size // config.num_attention_heads)


def _device_peak(device: torch.device) -> float | None:
    return flops.peak_of(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
