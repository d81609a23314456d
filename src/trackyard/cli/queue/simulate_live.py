"""`yard simulate --from live`: the past month's jobs replayed on other nodes or by another policy.

Owns what the server's answer becomes as a trace and a cluster, and what `--add` and `--remove`
mean. The replay is in trackyard.simulate.
"""

from __future__ import annotations

import re
from typing import Any

from trackyard.client.api import Api
from trackyard.core.errors import InvalidInput
from trackyard.core.node import Node, NodeGpu
from trackyard.simulate.trace import JobTrace, TraceJob

_NODES = re.compile(r"(?:(\d{1,4})\*)?(\d{1,4})[xX](.+)")


def read_live(days: int, limit: int | None) -> tuple[JobTrace, tuple[Node, ...]]:
    """Fetch past jobs and present nodes from the server."""
    query = {"days": days, "limit": min(limit or 20_000, 20_000)}
    found = Api.from_environment().get("/api/v1/fleet/trace", query)
    nodes = tuple(
        _node(one["id"], one["gpus"], one["type"], one["cpu_milli"], one["memory_bytes"])
        for one in found["nodes"]
        if one["gpus"]
    )
    if not nodes:
        raise InvalidInput("no node with a GPU is ready; give the cluster by --nodes instead")
    return trace_of(found["jobs"], days), nodes


def trace_of(jobs: list[dict[str, Any]], days: int) -> JobTrace:
    """Turn past jobs into a trace that begins with the first of them."""
    wanted = [one for one in jobs if one["gpus"]]
    if not wanted:
        raise InvalidInput(f"no job with a GPU ended in the last {days} days; give more --days")
    start = min(one["submitted_at"] for one in wanted)
    found = [
        TraceJob(
            id=one["id"],
            submitted_at=one["submitted_at"] - start,
            duration=max(one["duration"], 0.001),
            gpus=one["gpus"],
            gpu_milli=one["gpu_milli"],
            gpu_types=tuple(one["gpu_types"]),
            cpu_milli=one["cpu_milli"],
            memory_bytes=one["memory_bytes"],
            user=one["user"],
            team=one["team"],
            name=one["name"],
        )
        for one in wanted
    ]
    found.sort(key=lambda one: one.submitted_at)
    return JobTrace(name=f"the last {days} days", format="live", jobs=tuple(found))


def changed(nodes: tuple[Node, ...], add: list[str], remove: list[str]) -> tuple[Node, ...]:
    """Return a cluster with nodes added (`8xH100`, `4*8xH100` for four) or taken away."""
    left = [node for node in nodes if node.id not in remove]
    unknown = [name for name in remove if all(node.id != name for node in nodes)]
    if unknown:
        raise InvalidInput(f"there is no ready node {unknown[0]!r} to take away")
    for number, text in enumerate(add, 1):
        left += _added(text, number, nodes)
    return tuple(left)


def _added(text: str, number: int, nodes: tuple[Node, ...]) -> list[Node]:
    found = _NODES.fullmatch(text)
    if found is None:
        raise InvalidInput(f"`{text}` describes no node: write 8xH100, or 4*8xH100 for four")
    count, gpus, wanted = int(found[1] or 1), int(found[2]), found[3]
    # A name as people say it finds the type that nodes report, so that jobs asking for it fit.
    like = next((node for node in nodes if wanted.lower() in node.gpu_type.lower()), None)
    cpu = like.cpu_milli if like else max((node.cpu_milli for node in nodes), default=0)
    memory = like.memory_bytes if like else max((node.memory_bytes for node in nodes), default=0)
    kind = like.gpu_type if like else wanted
    return [_node(f"added-{number}-{one}", gpus, kind, cpu, memory) for one in range(1, count + 1)]


def _node(name: str, gpus: int, kind: str, cpu_milli: int, memory_bytes: int) -> Node:
    return Node(
        id=name,
        gpus=tuple(NodeGpu(index=index, type=kind) for index in range(gpus)),
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
    )
