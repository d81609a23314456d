"""Nodes as the calendar sees them: what they are made of and whether they work.

Owns Machine and how one is told from another. Knows nothing of leases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trackyard.core.node import NodeState
from trackyard.fleet.nodes import NodeRow, load, properties_of
from trackyard.store.database import ReadConnection, Tx


@dataclass(frozen=True, kw_only=True, slots=True)
class LeasableNode:
    """One node with the properties that people choose by."""

    id: str
    state: NodeState = NodeState.READY
    note: str = ""
    #: what its kind is called: the label `class`, else its GPU model, else `cpu`
    node_class: str = "cpu"
    gpu_vendor: str = ""
    gpu_model: str = ""
    gpu_count: int = 0
    #: memory of one GPU
    gpu_memory_bytes: int = 0
    cpus: float = 0.0
    memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether something new may start on it."""
        return self.state.takes_work

    def is_type(self, word: str) -> bool:
        """Say whether people would call it so: `a100` finds `A100-SXM4-80GB`."""
        wanted = word.lower()
        return wanted == self.node_class.lower() or wanted in self.gpu_model.lower()

    def can_stand_in_for(self, other: LeasableNode) -> bool:
        """Say whether a holder of `other` would miss nothing on this one."""
        return (
            self.node_class == other.node_class
            and self.gpu_model == other.gpu_model
            and self.gpu_count >= other.gpu_count
            and self.gpu_memory_bytes >= other.gpu_memory_bytes
            and self.cpus >= other.cpus
            # What firmware keeps for itself differs by a little between equal machines.
            and self.memory_bytes >= other.memory_bytes * 0.97
        )


def by_id(machines: Sequence[LeasableNode]) -> dict[str, LeasableNode]:
    """Return the machines by their ids."""
    return {machine.id: machine for machine in machines}


def machine_of(row: NodeRow) -> LeasableNode:
    """Convert a node of the fleet to the calendar's Machine."""
    facts = row.facts
    labels = {**facts.labels, **row.own_labels}
    found = properties_of(facts, labels)
    return LeasableNode(
        id=row.id,
        state=row.in_force,
        note=row.note,
        node_class=found.node_class,
        gpu_vendor=found.gpu_vendor,
        gpu_model=found.gpu_model,
        gpu_count=found.gpu_count,
        gpu_memory_bytes=found.gpu_memory_bytes,
        cpus=found.cpus,
        memory_bytes=found.memory_bytes,
        labels=labels,
    )


class NodeCache:
    """Reads the fleet's nodes, remembering those whose rows have not changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodeRow, LeasableNode]] = {}

    def load(self, reader: ReadConnection | Tx) -> list[LeasableNode]:
        """Return every node of the fleet."""
        found, known = [], self._known
        fresh: dict[str, tuple[NodeRow, LeasableNode]] = {}
        for row in load(reader):
            kept = known.get(row.id)
            if kept is None or kept[0] != row:
                kept = (row, machine_of(row))
            fresh[row.id] = kept
            found.append(kept[1])
        self._known = fresh
        return found
