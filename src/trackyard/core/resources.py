"""What a job asks of the hardware and what it is given.

Owns Request (asked for) and Placement (given). GPUs and CPUs are whole thousandths so that sums
are exact. Knows nothing of queues, time or engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trackyard.core.errors import InvalidInput

#: One whole GPU or CPU in the unit of every share.
WHOLE = 1000
#: The most that one job may ask for; sums over a whole queue of such jobs stay exact.
MAX_NODES = 10_000
MAX_GPUS = 1024
MAX_CPUS = 100_000
MAX_MEMORY_BYTES = 2**50


class Style(StrEnum):
    """Where a job's parts go when several nodes could take them."""

    #: fewest nodes, fullest first
    PACK = "pack"
    #: one part on each node, emptiest first
    SPREAD = "spread"
    #: fill a node to about half, then the next
    BALANCED = "balanced"
    #: whatever leaves the most useful room for the jobs usually seen here
    LEAST_FRAGMENTATION = "least-fragmentation"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceRequest:
    """Nodes times what each node must give, all or nothing."""

    #: nodes in the gang
    nodes: int = 1
    #: GPUs on each node
    gpus: int = 0
    #: share of each GPU in thousandths; under 1000 only for one GPU on one node
    gpu_milli: int = WHOLE
    #: acceptable GPU types, the preferred first; empty: any
    gpu_types: tuple[str, ...] = ()
    #: CPUs on each node in thousandths
    cpu_milli: int = 0
    #: memory on each node
    memory_bytes: int = 0
    #: labels that each node must carry, as (name, value)
    labels: tuple[tuple[str, str], ...] = ()
    #: name of a label whose value all nodes must share (for example "rack"); empty: no matter
    same: str = ""
    #: nobody else on these nodes
    exclusive: bool = False
    #: placement; None leaves it to the queue
    style: Style | None = None
    #: nodes that hold its data already, which win where others serve as well
    near: tuple[str, ...] = ()

    @property
    def gpu_milli_per_node(self) -> int:
        """GPU thousandths on each node."""
        return self.gpus * self.gpu_milli

    @property
    def gpu_milli_total(self) -> int:
        """GPU thousandths over all nodes."""
        return self.nodes * self.gpus * self.gpu_milli

    @property
    def total_gpus(self) -> float:
        """GPUs over all nodes, fractions included."""
        return self.gpu_milli_total / WHOLE

    def fault(self) -> str:
        """Say what makes this request nonsense, or return an empty string."""
        if not 1 <= self.nodes <= MAX_NODES:
            return f"nodes must lie between 1 and {MAX_NODES}, not {self.nodes}"
        if min(self.gpus, self.cpu_milli, self.memory_bytes) < 0:
            return "it asks for a negative amount"
        if self.gpus > MAX_GPUS:
            return f"gpus on one node must be at most {MAX_GPUS}, not {self.gpus}"
        if self.cpu_milli > MAX_CPUS * WHOLE:
            return f"cpus on one node must be at most {MAX_CPUS}, not {self.cpu_milli // WHOLE}"
        if self.memory_bytes > MAX_MEMORY_BYTES:
            return f"memory on one node must be at most {MAX_MEMORY_BYTES} bytes"
        if not 0 < self.gpu_milli <= WHOLE:
            return "a GPU share must lie above 0 and at most 1"
        if self.gpu_milli < WHOLE and (self.nodes != 1 or self.gpus != 1):
            return "a fraction of a GPU is possible only for one GPU on one node"
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeShare:
    """A job's part of one node."""

    #: node id
    node: str
    #: indices of the GPUs on that node
    gpus: tuple[int, ...] = ()
    #: share of each of these GPUs in thousandths
    gpu_milli: int = WHOLE
    #: CPUs in thousandths
    cpu_milli: int = 0
    #: memory
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Exactly where an attempt runs: one share per node, in rank order."""

    #: one entry per node
    shares: tuple[NodeShare, ...]
    #: nobody else may join these nodes
    exclusive: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """Ids of the nodes, in rank order."""
        return tuple(share.node for share in self.shares)

    @property
    def gpu_milli_total(self) -> int:
        """GPU thousandths held over all nodes."""
        return sum(len(share.gpus) * share.gpu_milli for share in self.shares)


def parse_gpus(text: str) -> tuple[int, int]:
    """Read "2" as two whole GPUs and "0.5" as half of one: (gpus, share in thousandths)."""
    try:
        value = round(float(text) * WHOLE)
    except ValueError:
        value = -1
    if value < 0 or (value > WHOLE and value % WHOLE):
        message = f"`{text}` is no number of GPUs: write a whole number, or a fraction below 1"
        raise InvalidInput(message)
    if value % WHOLE:
        return 1, value
    return value // WHOLE, WHOLE
