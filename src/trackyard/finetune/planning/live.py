"""The tracker of live storages: bytes in use, by what they are for, and the peak of each moment.

Owns the counting alone; what is run under it, and what the moments are, trace.py says. Needs
torch.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: The caching allocator hands out blocks of this many bytes.
BLOCK = 512


class Live(TorchDispatchMode):  # type: ignore[misc]
    """Counts every storage that operators make, from its birth to its death."""

    def __init__(self, categories: tuple[str, ...], vocab: int) -> None:
        super().__init__()
        self._categories = categories
        self._vocab = vocab
        #: storage to its size and category
        self._seen: dict[int, tuple[int, str]] = {}
        self._now = dict.fromkeys(categories, 0.0)
        self._total = self._highest = 0.0
        self._at_peak = dict(self._now)
        self._kind, self._name = "buffers", ""
        self.moments: dict[str, dict[str, float]] = {}

    def moment(self, name: str, kind: str) -> None:
        """Begin another part of the step, in which new storages are of a kind."""
        self.close()
        self._name, self._kind = name, kind
        self._highest, self._at_peak = self._total, dict(self._now)

    def close(self) -> None:
        """Note the peak of the part that ends."""
        known = self.moments.get(self._name)
        if self._name and (known is None or sum(known.values()) < self._highest):
            self.moments[self._name] = self._at_peak

    def relabel(self, kind: str) -> None:
        """Call everything that is there now of one kind."""
        self._seen = {key: (size, kind) for key, (size, _) in self._seen.items()}
        self._now = dict.fromkeys(self._categories, 0.0) | {kind: self._total}

    def tag(self, tensor: torch.Tensor, kind: str) -> None:
        """Call one storage of another kind."""
        key = _key(tensor)
        if key in self._seen:
            size, old = self._seen[key]
            self._seen[key] = size, kind
            self._now[old] -= size
            self._now[kind] += size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count what it made."""
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf)
        return out

    def _add(self, tensor: torch.Tensor) -> None:
        key = _key(tensor)
        if key in self._seen:
            return
        storage = tensor.untyped_storage()
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        kind = "logits" if tensor.shape[-1:] == (self._vocab,) else self._kind
        self._seen[key] = size, kind
        self._now[kind] += size
        self._total += size
        if self._total > self._highest:
            self._highest, self._at_peak = self._total, dict(self._now)
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        size, kind = self._seen.pop(key, (0, "buffers"))
        self._now[kind] -= size
        self._total -= size


def _key(tensor: torch.Tensor) -> int:
    """Return what names a storage while it lives."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001
