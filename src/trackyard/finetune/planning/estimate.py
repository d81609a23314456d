"""One plan's figures: peak memory by part, step time, tokens a second, and whether it fits.

Owns how a closed form or a trace, the factors of a GPU and the margin for what neither sees become
one Estimate. Knows nothing of searching, servers or command lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trackyard.finetune.planning import memory
from trackyard.finetune.planning.calibration import Factors
from trackyard.finetune.planning.gpus import GIB, GpuModel
from trackyard.finetune.planning.memory import MemoryParts
from trackyard.finetune.planning.speed import StepTime, mfu, step_time
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

#: What a prediction may miss: fragments of the allocator, and the CUDA context and libraries.
FRAGMENTS = 1.04
CONTEXT = 1.5 * GIB
#: What a trace needs of a setup: its parts on one GPU, or None where it cannot be traced.
Tracer = Callable[[ModelShape, TrainingSetup], MemoryParts | None]


@dataclass(frozen=True, slots=True)
class SetupEstimate:
    """What one setup needs and how fast it goes on one type of GPU."""

    shape: ModelShape
    setup: TrainingSetup
    gpu: GpuModel
    parts: MemoryParts
    time: StepTime
    host_bytes: float
    #: "trace" or "closed form"
    source: str

    @property
    def peak_gib(self) -> float:
        """Predicted peak of allocated memory."""
        return self.parts.total / GIB

    @property
    def needed_bytes(self) -> float:
        """What the GPU must have for the run to be safe."""
        return self.parts.total * FRAGMENTS + CONTEXT

    @property
    def fits(self) -> bool:
        """Whether the GPU has that much, and the arithmetic the setup asks for."""
        return self.needed_bytes <= self.gpu.memory_bytes and self.obstacle is None

    @property
    def obstacle(self) -> str | None:
        """What this GPU cannot do, whatever its memory."""
        if self.setup.precision == "float8" and not self.gpu.fp8:
            return f"{self.gpu.name} has no float8 arithmetic"
        if self.setup.precision in ("bf16", "mixed") and not self.gpu.bf16:
            return f"{self.gpu.name} has no bfloat16 arithmetic: use fp16 or fp32"
        return None

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second over all GPUs."""
        return self.setup.step_tokens / self.time.total

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation, by the convention in speed.py."""
        return mfu(self.shape, self.setup, self.gpu, self.tokens_per_second)

    def gpu_hours(self, tokens: float) -> float:
        """Return GPU-hours for that many tokens."""
        return tokens / self.tokens_per_second * self.setup.world / 3600

    def price(self, tokens: float) -> float | None:
        """Return what that many tokens cost, or None where no price is known."""
        return None if self.gpu.price is None else self.gpu_hours(tokens) * self.gpu.price

    def json(self, tokens: float) -> dict[str, Any]:
        """Return all figures as plain values."""
        price = self.price(tokens)
        return {
            "setup": self.setup.json(),
            "gpu": self.gpu.name,
            "fits": self.fits,
            "memory_bytes": self.parts.json(),
            "needed_bytes": int(self.needed_bytes),
            "host_bytes": int(self.host_bytes),
            "step_seconds": self.time.json(),
            "tokens_per_second": round(self.tokens_per_second, 1),
            "mfu": round(self.mfu, 4),
            "gpu_hours": round(self.gpu_hours(tokens), 4),
            "price": None if price is None else round(price, 2),
            "source": self.source,
        }


def estimate(
    shape: ModelShape,
    setup: TrainingSetup,
    gpu: GpuModel,
    factors: Factors | None = None,
    tracer: Tracer | None = None,
) -> SetupEstimate:
    """Estimate one setup; a tracer that cannot trace it leaves the closed form."""
    known = factors or Factors()
    parts = tracer(shape, setup) if tracer is not None else None
    source = "closed form" if parts is None else "trace"
    if parts is None:
        parts = memory.peak(shape, setup)
    if known.memory != 1.0:
        parts = _scaled(parts, known.memory)
    time = step_time(shape, setup, gpu).scaled(known.time(is_compiled=setup.compile))
    return SetupEstimate(shape, setup, gpu, parts, time, memory.host_bytes(shape, setup), source)


def _scaled(parts: MemoryParts, factor: float) -> MemoryParts:
    """Put what runs have taught into the buffers: weights and state are known exactly."""
    more = parts.total * (factor - 1)
    return MemoryParts(
        parts.weights,
        parts.gradients,
        parts.optimizer,
        parts.activations,
        parts.logits,
        max(0.0, parts.buffers + more),
    )
