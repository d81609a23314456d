"""Writing safetensors as tensors come, one at a time, in files of bounded size.

Owns the file format and the index beside it. Names, shapes and types are known before the first
tensor is, so a model of any size is written with one tensor in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

SHARD_BYTES = 5 * 1024**3
_NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
KINDS = {name: kind for kind, name in _NAMES.items()}


@dataclass(frozen=True)
class TensorEntry:
    """One tensor to come."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        count = 1
        for length in self.shape:
            count *= length
        return count * self.dtype.itemsize


class ShardedWriter:
    """Writes the entries in order, then the index."""

    def __init__(
        self,
        folder: Path,
        entries: Iterable[TensorEntry],
        *,
        stem: str = "model",
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._stem = stem
        self._shards = _divide(list(entries), shard_bytes)
        self._next = [(number, one) for number, shard in enumerate(self._shards) for one in shard]
        self._at = 0
        self._file: Any = None

    def write(self, name: str, tensor: torch.Tensor) -> None:
        """Write the next tensor."""
        number, entry = self._next[self._at]
        if entry.name != name or tuple(tensor.shape) != entry.shape:
            raise ValueError(f"{name} comes where {entry.name} was announced")
        if self._file is None or entry is self._shards[number][0]:
            self._open(number)
        flat = tensor.detach().to("cpu", entry.dtype).contiguous().view(-1)
        if flat.numel():
            self._file.write(memoryview(flat.view(torch.uint8).numpy()))
        self._at += 1

    def close(self) -> None:
        """Finish the last file and write the index where there are several."""
        if self._at != len(self._next):
            raise ValueError(
                f"{len(self._next) - self._at} tensors were announced and not written"
            )
        if self._file is not None:
            self._file.close()
        if len(self._shards) > 1:
            total = sum(one.size for _, one in self._next)
            places = {one.name: self._name(number) for number, one in self._next}
            index = {"metadata": {"total_size": total}, "weight_map": places}
            path = self._folder / f"{self._stem}.safetensors.index.json"
            path.write_text(json.dumps(index, indent=1))

    def _open(self, number: int) -> None:
        if self._file is not None:
            self._file.close()
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        at = 0
        for one in self._shards[number]:
            header[one.name] = {
                "dtype": _NAMES[one.dtype],
                "shape": list(one.shape),
                "data_offsets": [at, at + one.size],
            }
            at += one.size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._file = (self._folder / self._name(number)).open("wb")
        self._file.write(len(text).to_bytes(8, "little") + text)

    def _name(self, number: int) -> str:
        if len(self._shards) == 1:
            return f"{self._stem}.safetensors"
        return f"{self._stem}-{number + 1:05d}-of-{len(self._shards):05d}.safetensors"


def _divide(entries: list[TensorEntry], most: int) -> list[list[TensorEntry]]:
    shards: list[list[TensorEntry]] = [[]]
    size = 0
    for one in entries:
        if shards[-1] and size + one.size > most:
            shards.append([])
            size = 0
        shards[-1].append(one)
        size += one.size
    return shards
