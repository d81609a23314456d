"""How a demand for so many equal workers becomes nodes times shares. Pure.

Owns Ask (what one worker needs), the words of a declared gang, and the choice among the ways in
which workers can sit on nodes. The queue places equal shares on distinct nodes, all or nothing,
so every way is `n` nodes with the same number of workers on each; where that does not come out
even, the last node keeps room that nobody uses, and it is charged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.core.node import Node
from trackyard.core.resources import WHOLE, ResourceRequest
from trackyard.fleet.nodes import match_types
from trackyard.scheduling import ActiveJob

MAX_WORKERS = 10_000
GIGABYTE = 1024**3
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_GANG = re.compile(r"(?:([0-9]{1,5})\s*x\s*)?(.+)\Z")
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(gpus?|cpus?|gi?b|g)\Z")
_KINDS = {"gpu": "gpu", "gpus": "gpu", "cpu": "cpu", "cpus": "cpu"} | dict.fromkeys(
    ("g", "gb", "gib"), "memory"
)
_ACCELERATOR = "accelerator_type:"
#: Ways tried for one demand: enough for every size that nodes come in.
_MAX_WAYS = 64


class WorkerRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one worker needs, and how workers may share nodes."""

    gpus: float = 0.0
    cpus: float = 0.0
    memory_bytes: int = 0
    gpu_types: list[str] = []
    #: one of Ray's placement strategies
    strategy: str = "PACK"
    #: labels that each node must carry
    labels: dict[str, str] = {}

    def fits_into(self, other: WorkerRequest) -> bool:
        """Tell whether a worker of this kind can sit in the room of another kind."""
        return (
            self.gpus <= other.gpus
            and self.cpus <= (other.cpus or math.inf)
            and self.memory_bytes <= (other.memory_bytes or math.inf)
        )


class GangShape(msgspec.Struct, frozen=True):
    """So many workers, each alike."""

    workers: int
    ask: WorkerRequest


def parse_gang(text: str) -> GangShape:
    """Read `2x1gpu,8cpu`: two workers, each with one GPU and eight CPUs."""
    match = _GANG.match(text.strip().lower())
    amounts: dict[str, float] = {}
    for part in match[2].split(",") if match else [""]:
        found = _AMOUNT.match(part.strip())
        kind = _KINDS[found[2]] if found else ""
        if found is None or kind in amounts:
            raise InvalidInput(
                f"gang {text[:80]!r} is not of the form WORKERSxGPUSgpu,CPUScpu,MEMORYgb,"
                " such as 2x1gpu,8cpu"
            )
        amounts[kind] = float(found[1])
    workers = int(match[1] or 1) if match else 0
    ask = WorkerRequest(
        gpus=amounts.get("gpu", 0.0),
        cpus=amounts.get("cpu", 0.0),
        memory_bytes=int(amounts.get("memory", 0.0) * GIGABYTE),
    )
    return GangShape(workers, check_ask(workers, ask))


def ask_of(
    resources: Mapping[str, float],
    strategy: str = "PACK",
    labels: Mapping[str, str] | None = None,
) -> WorkerRequest:
    """Read what Ray calls resources: GPU, CPU, memory and the type of accelerator."""
    types = [name[len(_ACCELERATOR) :] for name in resources if name.startswith(_ACCELERATOR)]
    return WorkerRequest(
        gpus=float(resources.get("GPU", 0.0)),
        cpus=float(resources.get("CPU", 0.0)),
        memory_bytes=int(resources.get("memory", 0.0)),
        gpu_types=types,
        strategy=strategy,
        labels=dict(labels or {}),
    )


def check_ask(workers: int, ask: WorkerRequest) -> WorkerRequest:
    """Refuse a demand that makes no sense."""
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidInput(f"workers must lie between 1 and {MAX_WORKERS}, not {workers}")
    if ask.strategy not in STRATEGIES:
        raise InvalidInput(f"strategy {ask.strategy[:40]!r} is none of {', '.join(STRATEGIES)}")
    for value in (ask.gpus, ask.cpus, ask.memory_bytes):
        if not (math.isfinite(value) and 0 <= value <= 2**53):
            raise InvalidInput("a worker cannot ask for a negative or endless amount")
    if ask.gpus > 1 and ask.gpus != int(ask.gpus):
        raise InvalidInput("a worker asks for whole GPUs, or for a fraction of one")
    return ask


def words(workers: int, ask: WorkerRequest) -> str:
    """Say a demand as it is declared."""
    parts = [f"{ask.gpus:g}gpu"] if ask.gpus else []
    if ask.cpus:
        parts.append(f"{ask.cpus:g}cpu")
    if ask.memory_bytes:
        parts.append(f"{ask.memory_bytes / GIGABYTE:.3g}gb")
    return f"{workers}x{','.join(parts) or '0gpu'}"


def ways(workers: int, ask: WorkerRequest, types: set[str]) -> list[ResourceRequest]:
    """Return the ways in which these workers can sit on nodes, the preferred first."""
    found = {}
    for nodes in _node_counts(workers, ask.strategy):
        each = math.ceil(workers / nodes)
        found[nodes] = (each * nodes - workers, nodes, each)
    spread = ask.strategy.endswith("SPREAD")
    order = sorted(found.values(), key=lambda way: (way[0] > 0, -way[1] if spread else way[1]))
    return [_request(nodes, each, ask, types) for _, nodes, each in order[:_MAX_WAYS]]


class GangChoice(NamedTuple):
    """How many workers are asked for, and as what."""

    workers: int
    request: ResourceRequest
    #: whether there is room for it at this moment
    fits_now: bool


def choose(
    workers: int,
    least: int,
    ask: WorkerRequest,
    nodes: Sequence[Node],
    running: Sequence[ActiveJob],
    *,
    most_gpus: float = math.inf,
) -> GangChoice:
    """Choose how many workers, and on how many nodes: what fits now, else what ever could.

    An elastic demand takes the most that fits now within `most_gpus`, and otherwise waits for
    its least.
    """
    types = {node.gpu_type for node in nodes if node.gpus}
    room = _Room(nodes, running)
    fewest = min(workers, least)
    for count in _counts(workers, fewest):
        for request in ways(count, ask, types):
            if request.total_gpus > most_gpus and count > fewest:
                continue
            if room.holds_now(request):
                return GangChoice(count, request, fits_now=True)
    possible = ways(fewest, ask, types)
    ever = next((one for one in possible if room.holds_ever(one)), possible[0])
    return GangChoice(fewest, ever, fits_now=False)


def _counts(workers: int, low: int) -> Iterator[int]:
    step = max(1, (workers - low) // _MAX_WAYS)
    yield from range(workers, low, -step)
    yield low


def _node_counts(workers: int, strategy: str) -> set[int]:
    if strategy == "STRICT_PACK":
        return {1}
    if strategy == "STRICT_SPREAD":
        return {workers}
    return {math.ceil(workers / each) for each in range(1, min(workers, 1024) + 1)} | {1}


def _request(nodes: int, each: int, ask: WorkerRequest, types: set[str]) -> ResourceRequest:
    gpus = round(each * ask.gpus * WHOLE)
    whole, milli = math.ceil(gpus / WHOLE), WHOLE
    if nodes == 1 and 0 < gpus < WHOLE:
        whole, milli = 1, gpus
    return ResourceRequest(
        nodes=nodes,
        gpus=whole,
        gpu_milli=milli,
        gpu_types=match_types(tuple(ask.gpu_types), types) if ask.gpu_types else (),
        cpu_milli=round(each * ask.cpus * WHOLE),
        memory_bytes=each * ask.memory_bytes,
        labels=tuple(sorted(ask.labels.items())),
    )


class _Room:
    """What nodes have and what is free of it, roughly: the queue itself decides."""

    def __init__(self, nodes: Sequence[Node], running: Sequence[ActiveJob]) -> None:
        self._nodes = [node for node in nodes if node.state.takes_work]
        self._gpus: dict[str, dict[int, int]] = {
            node.id: {gpu.index: WHOLE for gpu in node.gpus} for node in self._nodes
        }
        self._rest = {node.id: [node.cpu_milli, node.memory_bytes] for node in self._nodes}
        for held in running:
            for share in held.placement.shares:
                if share.node not in self._rest:
                    continue
                for index in share.gpus:
                    left = self._gpus[share.node].get(index, 0) - share.gpu_milli
                    self._gpus[share.node][index] = left
                self._rest[share.node][0] -= share.cpu_milli
                self._rest[share.node][1] -= share.memory_bytes

    def holds_now(self, request: ResourceRequest) -> bool:
        """Tell whether enough nodes are free for it."""
        return self._count(request, free=True) >= request.nodes

    def holds_ever(self, request: ResourceRequest) -> bool:
        """Tell whether enough nodes could hold it if nothing else ran."""
        return self._count(request, free=False) >= request.nodes

    def _count(self, request: ResourceRequest, *, free: bool) -> int:
        return sum(self._fits(node, request, free=free) for node in self._nodes)

    def _fits(self, node: Node, request: ResourceRequest, *, free: bool) -> bool:
        if request.gpu_types and node.gpu_type not in request.gpu_types:
            return False
        if any(node.label(name) != value for name, value in request.labels):
            return False
        cpu, memory = self._rest[node.id] if free else (node.cpu_milli, node.memory_bytes)
        if cpu < request.cpu_milli or memory < request.memory_bytes:
            return False
        have = self._gpus[node.id].values() if free else [WHOLE] * len(node.gpus)
        return sum(left >= request.gpu_milli for left in have) >= request.gpus
