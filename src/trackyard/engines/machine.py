"""This machine as nodes: what was detected by the runner's inventory, or what was declared.

Owns totals and the sums of what attempts hold. Knows nothing of processes.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trackyard.core.health import CheckReport
from trackyard.core.ports import EngineError, GpuReport, LaunchRefused, NodeGrant, NodeReport
from trackyard.engines import wrapper

INVENTORY_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the operator says this machine has, over what is detected; None: as detected."""

    #: how many GPUs to offer; on a machine without any they are offered all the same
    gpus: int | None = None
    gpu_model: str = "declared"
    gpu_memory_bytes: int = 0
    cpus: float | None = None
    memory_bytes: int | None = None
    #: several names make this one machine look like several nodes, for trying out gangs
    node_ids: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChecking:
    """How this machine's health is looked at."""

    every_seconds: float = 60.0
    #: what checks are judged by, over the runner's defaults; the keys of core.health.LIMITS
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachine:
    """One machine, offered as one node or, if so declared, as several alike."""

    node_ids: tuple[str, ...]
    hostname: str
    cpus: float
    memory_bytes: int
    gpus: tuple[GpuReport, ...]
    labels: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def gpu_vendor(self) -> str:
        """Return the vendor whose variable picks GPUs here."""
        return self.gpus[0].vendor if self.gpus else "nvidia"

    def check(self, share: NodeGrant) -> None:
        """Refuse a share this machine does not have at all."""
        if share.node_id not in self.node_ids:
            raise LaunchRefused(f"there is no node {share.node_id!r} here")
        known = {gpu.index for gpu in self.gpus}
        missing = sorted(gpu.index for gpu in share.gpus if gpu.index not in known)
        if missing:
            raise LaunchRefused(f"node {share.node_id} has no GPU {missing[0]}")

    def reports(
        self,
        held: Iterable[NodeGrant],
        *,
        checks: tuple[CheckReport, ...] = (),
        expected_gpus: int | None = None,
    ) -> list[NodeReport]:
        """Describe every node, less what is held, with the last look at its health."""
        shares = list(held)
        return [
            replace(
                self._report(node, [share for share in shares if share.node_id == node]),
                checks=checks,
                expected_gpus=expected_gpus,
            )
            for node in self.node_ids
        ]

    def _report(self, node_id: str, shares: list[NodeGrant]) -> NodeReport:
        used: dict[int, float] = {}
        for share in shares:
            for gpu in share.gpus:
                used[gpu.index] = used.get(gpu.index, 0.0) + gpu.fraction
        return NodeReport(
            node_id=node_id,
            hostname=self.hostname,
            address="127.0.0.1",
            cpus=self.cpus,
            memory_bytes=self.memory_bytes,
            gpus=tuple(
                GpuReport(
                    index=gpu.index,
                    vendor=gpu.vendor,
                    model=gpu.model,
                    memory_bytes=gpu.memory_bytes,
                    uuid=gpu.uuid,
                    free=round(max(0.0, 1.0 - used.get(gpu.index, 0.0)), 6),
                )
                for gpu in self.gpus
            ),
            free_cpus=max(0.0, self.cpus - sum(share.cpus for share in shares)),
            free_memory_bytes=max(
                0, self.memory_bytes - sum(share.memory_bytes for share in shares)
            ),
            labels=self.labels,
            notes=self.notes,
        )


def detect(options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Ask the runner what this machine has and, with options, how it is doing."""
    try:
        answer = subprocess.run(
            wrapper.command("--inventory", json.dumps(options or {})),
            capture_output=True,
            timeout=INVENTORY_SECONDS,
            check=True,
        )
        found = json.loads(answer.stdout)
    except subprocess.CalledProcessError as fault:
        words = fault.stderr.decode("utf-8", "replace").strip().splitlines()
        why = words[-1] if words else str(fault)
        raise EngineError(f"this machine's inventory could not be taken: {why}") from fault
    except (OSError, subprocess.SubprocessError, ValueError) as fault:
        raise EngineError(f"this machine's inventory could not be taken: {fault}") from fault
    if not isinstance(found, dict):
        raise EngineError("this machine's inventory could not be read")
    return found


def describe(found: Mapping[str, Any], declared: Declared) -> LocalMachine:
    """Combine what was detected with what was declared."""
    gpus = tuple(
        GpuReport(
            index=int(gpu["index"]),
            vendor=str(gpu["vendor"]),
            model=str(gpu["model"]),
            memory_bytes=int(gpu["memory_bytes"]),
            uuid=gpu.get("uuid"),
        )
        for gpu in found.get("gpus", ())
    )
    note = str(found.get("limits", {}).get("note", ""))
    hostname = str(found.get("hostname") or "localhost")
    return LocalMachine(
        node_ids=declared.node_ids or (_node_name(hostname),),
        hostname=hostname,
        cpus=declared.cpus if declared.cpus is not None else float(found.get("cpus", 1)),
        memory_bytes=(
            declared.memory_bytes
            if declared.memory_bytes is not None
            else int(found.get("memory_bytes", 0))
        ),
        gpus=_declared_gpus(gpus, declared),
        labels={**found.get("labels", {}), **declared.labels},
        notes=(note,) if note else (),
    )


def _declared_gpus(gpus: tuple[GpuReport, ...], declared: Declared) -> tuple[GpuReport, ...]:
    if declared.gpus is None:
        return gpus
    if gpus:
        # Fewer than there are may be offered; more than there are would only fail later.
        return gpus[: declared.gpus]
    return tuple(
        GpuReport(
            index=index,
            vendor="declared",
            model=declared.gpu_model,
            memory_bytes=declared.gpu_memory_bytes,
        )
        for index in range(declared.gpus)
    )


def _node_name(hostname: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", hostname).strip("-._")[:63] or "local"
