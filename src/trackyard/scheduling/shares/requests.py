"""What a job asks for that states no CPUs or no memory: its queue's defaults, or its GPU share.

Owns DefaultRequests, which fills such requests for the nodes and queues of one snapshot. A job
without GPUs gets one CPU; one with GPUs gets the part of a node's CPUs and memory that its GPUs
are of the node's GPUs: the smallest such part among the nodes that could hold it, so that the
default rules out no node. A little of each node is left out of that, so that neither do jobs
without GPUs keep GPUs idle nor GPU jobs take every CPU. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from trackyard.core.node import Node
from trackyard.core.resources import WHOLE, ResourceRequest
from trackyard.scheduling.snapshot import Queue

#: CPUs of a job without GPUs whose queue says nothing else.
DEFAULT_CPUS = 1.0
#: Part of a node's CPUs and memory that is not shared out among its GPUs; of CPUs at least one,
#: but never more than half.
LEFT_FOR_OTHERS = 8


def shared_cpu_milli(node_milli: int) -> int:
    """Return how much of a node's CPUs its GPUs share."""
    left = max(node_milli // LEFT_FOR_OTHERS, min(WHOLE, node_milli // 2))
    return node_milli - left


def shared_memory_bytes(node_bytes: int) -> int:
    """Return how much of a node's memory its GPUs share."""
    return node_bytes - node_bytes // LEFT_FOR_OTHERS


class _Kind(NamedTuple):
    """Nodes that a default cannot tell apart."""

    gpus: int
    gpu_type: str
    cpu_milli: int
    memory_bytes: int
    labels: tuple[tuple[str, str], ...]


class DefaultRequests:
    """Fills in requests; the answers hold for as long as nodes and queues stay what they are."""

    def __init__(self, nodes: Sequence[Node], queues: Iterable[Queue]) -> None:
        #: one of each kind of node; a large yard has few
        self._kinds = tuple(
            dict.fromkeys(
                _Kind(
                    len(node.gpus), node.gpu_type, node.cpu_milli, node.memory_bytes, node.labels
                )
                for node in nodes
            )
        )
        self._queues = {queue.name: queue for queue in queues}
        self._known: dict[tuple[ResourceRequest, str, bool, bool], ResourceRequest] = {}

    def holds_for(self, other: DefaultRequests) -> bool:
        """Tell whether both fill in the same."""
        return self._kinds == other._kinds and self._queues == other._queues

    def fill(
        self, request: ResourceRequest, queue: str, *, cpus: bool, memory: bool
    ) -> ResourceRequest:
        """Return a request with its open parts filled in: CPUs, memory, both or neither."""
        if not (cpus or memory):
            return request
        key = (request, queue, cpus, memory)
        known = self._known.get(key)
        if known is None:
            rules = self._queues.get(queue, Queue())
            known = self._known[key] = replace(
                request,
                cpu_milli=self._cpu_milli(request, rules) if cpus else request.cpu_milli,
                memory_bytes=(
                    self._memory_bytes(request, rules) if memory else request.memory_bytes
                ),
            )
        return known

    def _cpu_milli(self, request: ResourceRequest, rules: Queue) -> int:
        if not request.gpus:
            stated = DEFAULT_CPUS if rules.default_cpus is None else rules.default_cpus
            # A yard of tiny nodes still runs its jobs.
            most = max((kind.cpu_milli for kind in self._kinds), default=0)
            found = min(round(stated * WHOLE), most) if most else round(stated * WHOLE)
        elif rules.default_cpus_per_gpu is not None:
            found = round(rules.default_cpus_per_gpu * request.gpu_milli_per_node)
        else:
            found = self._share(request, lambda kind: shared_cpu_milli(kind.cpu_milli))
        if rules.max_cpus_per_job is not None:
            found = min(found, round(rules.max_cpus_per_job * WHOLE) // max(request.nodes, 1))
        return found

    def _memory_bytes(self, request: ResourceRequest, rules: Queue) -> int:
        if not request.gpus:
            found = rules.default_memory_bytes or 0
        elif rules.default_memory_per_gpu_bytes is not None:
            found = rules.default_memory_per_gpu_bytes * request.gpu_milli_per_node // WHOLE
        else:
            found = self._share(request, lambda kind: shared_memory_bytes(kind.memory_bytes))
        if rules.max_memory_per_job_bytes is not None:
            found = min(found, rules.max_memory_per_job_bytes // max(request.nodes, 1))
        return found

    def _share(self, request: ResourceRequest, shared: Callable[[_Kind], int]) -> int:
        """The least part of a node that goes with its GPUs, among nodes that could hold it."""
        shares = [
            shared(kind) * request.gpu_milli_per_node // (kind.gpus * WHOLE)
            for kind in self._kinds
            if kind.gpus >= request.gpus
            and (not request.gpu_types or kind.gpu_type in request.gpu_types)
            and all(pair in kind.labels for pair in request.labels)
        ]
        return min(shares, default=0)
