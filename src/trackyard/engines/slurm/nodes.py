"""Maps Slurm's nodes and other users' jobs to the engine port's types.

Owns how a node's state is read and which GPUs are charged to whom. Does not talk to Slurm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from trackyard.core.node import NodeState
from trackyard.core.ports import ForeignUse, GpuReport, NodeGrant, NodeReport
from trackyard.engines.slurm.parse import SlurmJob, SlurmNode

_DOWN = frozenset(
    {
        "DOWN",
        "ERROR",
        "FAIL",
        "FAILING",
        "UNKNOWN",
        "FUTURE",
        "NOT_RESPONDING",
        "INVAL",
        "INVALID_REG",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "REBOOT_ISSUED",
    }
)
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINTENANCE", "MAINT"})
#: separates a node's name from the number of a place in Slurm's queue behind it
PLACE = ".wait"


def describe(
    node: SlurmNode, held: Sequence[NodeGrant], foreign: Sequence[ForeignUse]
) -> NodeReport:
    """Report a node: its totals, minus what our attempts and others hold."""
    used: dict[int, float] = {}
    for share in held:
        for gpu in share.gpus:
            # Slurm allocates whole GPUs, even if a part of one was requested.
            used[gpu.index] = 1.0
    others = [_charged(use, used, node.gpu_count) for use in foreign]
    taken: list[NodeGrant | ForeignUse] = [*held, *others]
    return NodeReport(
        node_id=node.name,
        hostname=node.hostname or node.name,
        address=node.address or node.name,
        state=state_of(node),
        cpus=float(node.cpus),
        memory_bytes=node.memory_bytes,
        gpus=tuple(
            GpuReport(
                index=index,
                vendor=vendor_of(node.gpu_type),
                model=node.gpu_type or "gpu",
                memory_bytes=0,
                free=1.0 - used.get(index, 0.0),
            )
            for index in range(node.gpu_count)
        ),
        free_cpus=max(0.0, node.cpus - sum(one.cpus for one in taken)),
        free_memory_bytes=max(0, node.memory_bytes - sum(one.memory_bytes for one in taken)),
        labels=_labels(node),
        notes=_notes(node, others),
        foreign=tuple(others),
    )


def places(node: SlurmNode, count: int) -> list[SlurmNode]:
    """Return a node and the places in Slurm's queue behind it, each as large as the node.

    Slurm decides where and when a job runs; the queue submits as much as these places hold.
    """
    more = [
        replace(node, name=f"{node.name}{PLACE}{number}", reason="a place in Slurm's queue")
        for number in range(1, count)
    ]
    return [node, *more]


def foreign_use(jobs: Iterable[SlurmJob]) -> dict[str, list[ForeignUse]]:
    """Return what other users' jobs hold, by node."""
    found: dict[str, list[ForeignUse]] = {}
    for job in jobs:
        if job.waits or job.has_ended or not job.nodes:
            continue
        for name in job.nodes:
            found.setdefault(name, []).append(
                ForeignUse(
                    name=f"slurm {job.job_id} {job.name} ({job.user})",
                    gpus=job.gpus.get(name, ()),
                    cpus=job.cpus / len(job.nodes),
                    memory_bytes=job.memory_bytes // len(job.nodes),
                )
            )
    return found


def state_of(node: SlurmNode) -> NodeState:
    """Return whether a node takes work."""
    if node.states & _DOWN:
        return NodeState.DOWN
    return NodeState.DRAINED if node.states & _DRAINED else NodeState.READY


def vendor_of(kind: str) -> str:
    """Return the vendor of a GPU type."""
    lowered = kind.lower()
    if lowered.startswith(("mi1", "mi2", "mi3", "amd", "instinct", "radeon", "gfx")):
        return "amd"
    return "nvidia" if kind else "declared"


def _charged(use: ForeignUse, used: dict[int, float], count: int) -> ForeignUse:
    """Charge as many GPUs as a job holds; ours are counted by number, not Slurm's index."""
    order = sorted(range(count), key=lambda index: (used.get(index, 0.0), -index))
    chosen = tuple(sorted(order[: len(use.gpus)]))
    for index in chosen:
        used[index] = 1.0
    return replace(use, gpus=chosen)


def _labels(node: SlurmNode) -> Mapping[str, str]:
    labels = {"slurm-version": node.version, "architecture": node.architecture}
    labels["operating-system"] = node.system[:60].replace(" ", "-").replace("#", "")
    for name in node.partitions:
        labels[f"partition/{name}"] = "yes"
    for name in node.features:
        labels[f"feature/{name}"] = "yes"
    return {name: value for name, value in labels.items() if value}


def _notes(node: SlurmNode, others: Sequence[ForeignUse]) -> tuple[str, ...]:
    notes = [f"Job {use.name} runs here past the queue." for use in others]
    if node.reason:
        notes.append(f"Slurm: {node.reason[:300]}")
    return tuple(notes)
