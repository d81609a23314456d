"""The cluster's nodes in the engine port's words, and who else uses them.

Owns how a Ray node is named and what it has. Asks nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trackyard.core.node import NodeState
from trackyard.core.ports import NODE_ID, ForeignUse, GpuReport, NodeGrant, NodeReport

#: a label of this name, set by `ray start --labels`, is what a node is called here
NAME_LABEL = "yard.name"
_AUTOMATIC = re.compile(r"node:|accelerator_type:|bundle|.*_group_")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
_OWN = frozenset({"CPU", "GPU", "memory", "object_store_memory"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """One node as the cluster lists it."""

    #: what we call it
    node_id: str
    #: what Ray calls it in this life; it changes when the node is started again
    ray_id: str
    address: str
    hostname: str
    is_alive: bool
    resources: Mapping[str, float]
    labels: Mapping[str, str]
    message: str = ""

    @property
    def gpu_count(self) -> int:
        """Return how many GPUs it offers."""
        return int(self.resources.get("GPU", 0))

    @property
    def takes_work(self) -> bool:
        """Tell whether it offers anything; a head often offers nothing."""
        return self.resources.get("CPU", 0) > 0 or self.gpu_count > 0


@dataclass(slots=True)
class ForeignHold:
    """What one foreign job holds on one node."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory_bytes: float = 0.0
    #: what it runs
    line: str = ""


#: foreign jobs on one node, by name
Foreign = dict[str, ForeignHold]


def read_nodes(rows: Iterable[Mapping[str, Any]]) -> list[RayNode]:
    """Read the cluster's list; of nodes with one name the live one counts."""
    found = [_read(row) for row in rows]
    names: dict[str, int] = {}
    for node in found:
        if node.is_alive:
            names[node.node_id] = names.get(node.node_id, 0) + 1
    chosen: dict[str, RayNode] = {}
    for listed in found:
        # Where two live nodes share a name, only Ray's own id tells them apart.
        is_double = names.get(listed.node_id, 0) > 1
        node = replace(listed, node_id=listed.ray_id) if is_double else listed
        before = chosen.get(node.node_id)
        if before is None or (node.is_alive and not before.is_alive):
            chosen[node.node_id] = node
    return sorted(chosen.values(), key=lambda node: node.node_id)


def _read(row: Mapping[str, Any]) -> RayNode:
    ray_id = str(row["node_id"])
    labels = {str(k): str(v) for k, v in (row.get("labels") or {}).items()}
    name = labels.get(NAME_LABEL, "")
    address = str(row.get("node_ip") or "")
    return RayNode(
        node_id=name if NODE_ID.match(name) else ray_id,
        ray_id=ray_id,
        address=address,
        hostname=str(row.get("node_name") or address),
        is_alive=row.get("state") == "ALIVE",
        resources={str(k): float(v) for k, v in (row.get("resources_total") or {}).items()},
        labels=labels,
        message=str(row.get("state_message") or ""),
    )


def dead(node: RayNode, message: str) -> RayNode:
    """Return a node as it was, but dead."""
    return replace(node, is_alive=False, message=message)


def describe(
    node: RayNode,
    held: Sequence[NodeGrant],
    *,
    foreign: Foreign,
    gpus: Sequence[GpuReport],
    ray_version: str,
) -> NodeReport:
    """Report a node: totals, less what our attempts and others hold."""
    cpus = node.resources.get("CPU", 0.0)
    memory = int(node.resources.get("memory", 0))
    used: dict[int, float] = {}
    for share in held:
        for gpu in share.gpus:
            used[gpu.index] = used.get(gpu.index, 0.0) + gpu.fraction
    others = [use for name, one in foreign.items() for use in _uses(name, one, used, len(gpus))]
    taken: list[NodeGrant | ForeignUse] = [*held, *others]
    free_cpus = cpus - sum(one.cpus for one in taken)
    free_memory = memory - sum(one.memory_bytes for one in taken)
    notes = [
        f"The Ray job {name}{f' ({one.line[:80]})' if one.line else ''} runs here past the queue."
        for name, one in foreign.items()
    ]
    if not node.is_alive and node.message:
        notes.append(node.message[:300])
    return NodeReport(
        node_id=node.node_id,
        hostname=node.hostname,
        address=node.address,
        state=NodeState.READY if node.is_alive else NodeState.DOWN,
        cpus=cpus,
        memory_bytes=memory,
        gpus=tuple(
            GpuReport(
                index=gpu.index,
                vendor=gpu.vendor,
                model=gpu.model,
                memory_bytes=gpu.memory_bytes,
                uuid=gpu.uuid,
                free=round(max(0.0, 1.0 - used.get(gpu.index, 0.0)), 6),
            )
            for gpu in gpus
        ),
        free_cpus=max(0.0, free_cpus),
        free_memory_bytes=max(0, free_memory),
        labels=node_labels(node, ray_version),
        notes=tuple(notes),
        foreign=tuple(others),
    )


def _uses(name: str, one: ForeignHold, used: dict[int, float], count: int) -> list[ForeignUse]:
    """Say what a foreign job holds; which GPUs Ray does not tell, so the emptiest are charged."""
    whole, part = int(one.gpus + 1e-6), round(one.gpus % 1, 4)
    order = sorted(range(count), key=lambda index: (used.get(index, 0.0), -index))
    chosen = tuple(order[:whole])
    found = [ForeignUse(name=name, gpus=chosen, cpus=one.cpus, memory_bytes=int(one.memory_bytes))]
    for index in chosen:
        used[index] = used.get(index, 0.0) + 1.0
    rest = order[whole : whole + 1]
    if part and rest:
        found.append(ForeignUse(name=name, gpus=tuple(rest), fraction=part))
        used[rest[0]] = used.get(rest[0], 0.0) + part
    return found


def node_labels(node: RayNode, ray_version: str) -> dict[str, str]:
    """Return Ray's labels and, so that jobs can ask for them, the custom resources."""
    labels = {k: v for k, v in node.labels.items() if k != "ray.io/node-id"}
    for name, total in sorted(node.resources.items()):
        if name in _OWN or total <= 0 or _AUTOMATIC.match(name) or not _PLAIN_NAME.match(name):
            continue
        labels[f"resource/{name}"] = "yes"
        labels[f"resource-total/{name}"] = f"{total:g}"
    labels["ray-version"] = ray_version
    labels["ray-node-id"] = node.ray_id
    return labels


def declared_gpus(node: RayNode) -> list[GpuReport]:
    """Return a node's GPUs as far as labels and resources tell."""
    model = node.labels.get("ray.io/accelerator-type", "")
    if not model:
        kinds = [name for name in node.resources if name.startswith("accelerator_type:")]
        model = kinds[0].partition(":")[2] if kinds else ""
    vendor = vendor_of(model) if model else "declared"
    return [
        GpuReport(index=index, vendor=vendor, model=model or "declared", memory_bytes=0)
        for index in range(node.gpu_count)
    ]


def real_gpus(node: RayNode, detail: Mapping[str, Any]) -> list[GpuReport]:
    """Return a node's GPUs with name and memory from its own report."""
    plain = declared_gpus(node)
    listed = [gpu for gpu in detail.get("gpus") or () if isinstance(gpu, dict)]
    if len(listed) < len(plain):
        return plain
    return [
        GpuReport(
            index=gpu.index,
            vendor=gpu.vendor,
            model=str(one.get("name") or gpu.model),
            memory_bytes=int(float(one.get("memoryTotal") or 0) * 1024**2),
            uuid=str(one["uuid"]) if one.get("uuid") else None,
        )
        for gpu, one in zip(plain, listed, strict=False)
    ]


def vendor_of(model: str) -> str:
    """Return who makes an accelerator of this name."""
    lowered = model.lower()
    if lowered.startswith(("amd", "mi1", "mi2", "mi3", "instinct", "radeon")):
        return "amd"
    return "intel" if lowered.startswith("intel") else "nvidia"
