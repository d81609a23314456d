"""A machine as the scheduler sees it: its GPUs, CPUs, memory, labels and health.

Owns Node, Gpu and NodeState. Knows nothing of what runs there or of how the engine reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeState(StrEnum):
    """Whether a node takes work."""

    #: takes work
    READY = "ready"
    #: finishes what runs, takes nothing new; someone asked for it
    DRAINED = "drained"
    #: taken out by a failed health check
    QUARANTINED = "quarantined"
    #: not answering
    DOWN = "down"

    @property
    def takes_work(self) -> bool:
        """Whether something new may start here."""
        return self is NodeState.READY


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeGpu:
    """One accelerator of a node."""

    #: position on the node, as in CUDA_VISIBLE_DEVICES
    index: int
    #: model name, for example "A100-80GB"
    type: str = "gpu"
    #: memory of the device
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One machine."""

    #: stable id
    id: str
    #: name that people use; the id when empty
    name: str = ""
    #: devices, by index
    gpus: tuple[NodeGpu, ...] = ()
    #: CPUs in thousandths
    cpu_milli: int = 0
    #: memory
    memory_bytes: int = 0
    #: labels as (name, value), for example ("rack", "r1")
    labels: tuple[tuple[str, str], ...] = ()
    #: health
    state: NodeState = NodeState.READY
    #: why it is not ready, in words
    state_note: str = ""

    @property
    def gpu_type(self) -> str:
        """The type of its GPUs, empty without any; a node carries one type."""
        return self.gpus[0].type if self.gpus else ""

    @property
    def state_words(self) -> str:
        """Its state, with why it is so where that is known."""
        return f"{self.state}: {self.state_note}" if self.state_note else self.state.value

    def label(self, name: str) -> str:
        """Return a label's value, empty when absent."""
        return next((value for key, value in self.labels if key == name), "")
