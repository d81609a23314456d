"""The GPUs that plans are made for: memory, arithmetic, bandwidth, links and price.

Owns the table (gpus.json: vendors' figures for dense arithmetic, prices with the offer they are
of) and finding a GPU by any of its names. Knows nothing of models.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.setup import suggestion

GIB = 2**30


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One type of GPU. Arithmetic in TFLOP/s, dense; bandwidth and link in GB/s."""

    name: str
    #: what a process can allocate, not what is printed on the box
    memory_gib: float
    bf16: float
    tf32: float
    fp32: float
    fp8: float
    bandwidth: float
    #: to the next GPU of the same node, one direction
    link: float
    price: float | None = None
    offer: str = ""
    fp16: float = 0.0
    aliases: tuple[str, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Memory a process can allocate."""
        return int(self.memory_gib * GIB)

    @property
    def half(self) -> float:
        """The rate of 16-bit products, whichever kind it has."""
        return self.bf16 or self.fp16

    def rate(self, precision: str) -> float:
        """Return the peak rate of matrix products of a precision, 0 where it has none."""
        if precision == "fp32":
            return self.fp32
        if precision == "float8":
            return self.fp8
        return self.half if precision == "fp16" else self.bf16


@cache
def gpu_table() -> dict[str, GpuModel]:
    """Return the known GPUs by name."""
    text = resources.files(__package__).joinpath("gpus.json").read_text()
    rows: list[dict[str, Any]] = json.loads(text)["gpus"]
    return {row["name"]: GpuModel(**{**row, "aliases": tuple(row["aliases"])}) for row in rows}


@cache
def price_note() -> str:
    """Return where the default prices come from."""
    text = resources.files(__package__).joinpath("gpus.json").read_text()
    return str(json.loads(text)["prices"])


def find_gpu(name: str) -> GpuModel:
    """Return a GPU by its name, its other names, or the name its driver gives it."""
    found = match_gpu(name)
    if found is None:
        hint = suggestion(name.upper(), gpu_table()) or f"one of {', '.join(gpu_table())}"
        raise SetupError(f"the GPU {name!r} is not in the table", hint=hint)
    return found


def match_gpu(name: str, memory_bytes: int = 0) -> GpuModel | None:
    """Return the GPU that a name of a user, a driver or a fleet means, or None.

    A driver's name may leave open which memory it has (`A100`): the size decides then.
    """
    plain = _plain(name)
    named = [gpu for gpu in gpu_table().values() if plain in _names(gpu)]
    if not named:
        named = [gpu for gpu in gpu_table().values() if any(one in plain for one in _names(gpu))]
        named.sort(key=lambda gpu: -max(len(one) for one in _names(gpu) if one in plain))
        named = named[:1]
    if memory_bytes and named:
        family = named[0].name.partition("-")[0]
        kin = [gpu for gpu in gpu_table().values() if gpu.name.partition("-")[0] == family]
        fits = [gpu for gpu in kin if abs(gpu.memory_bytes / memory_bytes - 1) < 0.15]
        if named[0] not in fits and fits:
            return fits[0]
    return named[0] if named else None


def with_price(gpu: GpuModel, price: float | None) -> GpuModel:
    """Return the GPU at another price."""
    return gpu if price is None else dataclasses.replace(gpu, price=price, offer="your price")


def _names(gpu: GpuModel) -> list[str]:
    return [_plain(name) for name in (gpu.name, *gpu.aliases)]


def _plain(name: str) -> str:
    words = name.lower().replace("_", " ").replace("-", " ").split()
    return " ".join(word for word in words if word not in ("nvidia", "amd", "tesla", "geforce"))
