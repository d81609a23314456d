"""Setup: everything about a fine-tuning run that its memory and its speed depend on, apart from
the model's shape and the GPU. Owns the allowed values and which of them go together; knows
neither torch nor how any of it is carried out.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trackyard.core.errors import SetupError

Method = Literal["full", "lora", "qlora", "dora"]
Precision = Literal["fp32", "mixed", "bf16", "fp16", "float8"]
Checkpointing = Literal["none", "selective", "full", "offload"]
Optimizer = Literal["adamw", "adamw8bit", "adamw_bf16", "sgd"]
Loss = Literal["plain", "chunked"]
Sharding = Literal["none", "ddp", "zero2", "zero3", "hsdp"]

METHODS: tuple[str, ...] = get_args(Method)
PRECISIONS: tuple[str, ...] = get_args(Precision)
CHECKPOINTINGS: tuple[str, ...] = get_args(Checkpointing)
OPTIMIZERS: tuple[str, ...] = get_args(Optimizer)
LOSSES: tuple[str, ...] = get_args(Loss)
SHARDINGS: tuple[str, ...] = get_args(Sharding)

#: Adapters on every linear layer of the decoder, the head left out.
ALL_LINEAR = ("all-linear",)
#: Fields with few allowed values; `yard plan` has a flag of the same name for each.
CHOICES = {
    "method": METHODS,
    "precision": PRECISIONS,
    "checkpointing": CHECKPOINTINGS,
    "optimizer": OPTIMIZERS,
    "loss": LOSSES,
    "sharding": SHARDINGS,
}
_COUNTS = ("micro_batch", "seq", "accumulation", "gpus", "nodes", "lora_rank")


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the known word nearest to a misspelt one, or None."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]}?" if close else None


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """One way to train a model. `gpus` counts the GPUs of one node; `world` counts all of them.

    `precision` says what is stored and what is computed in:

    fp32     weights, gradients, optimizer state and arithmetic in 32 bits (TF32 off)
    mixed    weights, gradients and state in 32 bits, arithmetic in bfloat16 (autocast)
    bf16     everything in bfloat16
    fp16     as mixed, with float16 and loss scaling
    float8   as bf16, matrix products of the decoder in float8

    With LoRA and its kin the base model is frozen, and stored in 16 bits for every precision but
    fp32 (qlora: in 4 bits); the adapters are of the precision's own type.
    """

    method: Method = "full"
    precision: Precision = "bf16"
    micro_batch: int = 1
    seq: int = 2048
    accumulation: int = 1
    checkpointing: Checkpointing = "none"
    optimizer: Optimizer = "adamw"
    #: apply the optimizer to each gradient as soon as it is there, and free it
    in_backward: bool = False
    loss: Loss = "plain"
    packing: bool = False
    compile: bool = False
    sharding: Sharding = "none"
    #: keep optimizer state and weights of the shard in host memory
    offload: bool = False
    gpus: int = 1
    nodes: int = 1
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = ALL_LINEAR

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                hint = suggestion(str(value), allowed) or f"one of {', '.join(allowed)}"
                raise SetupError(f"{name} cannot be {value!r}", hint=hint)
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise SetupError(f"{name} must be at least 1, not {getattr(self, name)}")
        for problem in self._problems():
            raise SetupError(problem)

    def _problems(self) -> list[str]:
        found = []
        if self.world == 1 and self.sharding in ("ddp", "hsdp"):
            found.append(f"sharding {self.sharding} needs more than one GPU")
        if self.sharding == "none" and self.world > 1:
            found.append(f"{self.world} GPUs need a sharding: ddp, zero2, zero3 or hsdp")
        if self.sharding == "hsdp" and self.nodes == 1:
            found.append("hsdp shards within a node and replicates between nodes: it needs two")
        if self.in_backward and self.accumulation > 1:
            found.append("in_backward frees each gradient at once: accumulation must be 1")
        if self.in_backward and self.sharding not in ("none",):
            found.append("in_backward is for a single GPU")
        if self.offload and self.sharding not in ("none", "zero2", "zero3", "hsdp"):
            found.append(f"offload does not go with sharding {self.sharding}")
        return found

    @property
    def world(self) -> int:
        """All GPUs of the run."""
        return self.gpus * self.nodes

    @property
    def shards(self) -> int:
        """Over how many GPUs the state is spread."""
        if self.sharding in ("none", "ddp"):
            return 1
        return self.gpus if self.sharding == "hsdp" else self.world

    @property
    def is_adapter(self) -> bool:
        """Whether the base model is frozen and only adapters learn."""
        return self.method != "full"

    @property
    def micro_tokens(self) -> int:
        """Tokens of one forward and backward pass on one GPU."""
        return self.micro_batch * self.seq

    @property
    def step_tokens(self) -> int:
        """Tokens between two optimizer steps, over all GPUs."""
        return self.micro_tokens * self.accumulation * self.world

    def but(self, **changes: Any) -> TrainingSetup:
        """Return a copy with some values changed."""
        return dataclasses.replace(self, **changes)

    def json(self) -> dict[str, Any]:
        """Return the setup as plain values, in the order of the fields."""
        return dataclasses.asdict(self) | {"lora_targets": list(self.lora_targets)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingSetup:
        """Read what json() wrote; a key that is not known is an error."""
        known = {field.name for field in dataclasses.fields(cls)}
        for key in values:
            if key not in known:
                raise SetupError(f"a setup has no {key!r}", hint=suggestion(key, known))
        targets = tuple(values.get("lora_targets", ALL_LINEAR))
        return cls(**{**values, "lora_targets": targets})
