"""A site's partitions and QOS as queues: which limits Slurm sets, in its own words.

Owns how a partition and its QOS become a queue's settings. Reads Slurm's configuration, changes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trackyard.core.ports import EngineError
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.parse import amounts, records, seconds

QOS_FIELDS = ("Name", "MaxWall", "MaxTRES", "MaxTRESPU", "MaxJobsPU", "MaxSubmitPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition with what it and its QOS allow."""

    name: str
    is_default: bool = False
    is_up: bool = True
    nodes: int = 0
    max_seconds: float | None = None
    max_nodes: int | None = None
    whole_nodes: bool = False
    qos: str = ""
    max_gpus: float | None = None
    max_user_gpus: float | None = None
    max_user_jobs: int | None = None
    #: limit of a queue -> the site's own rule
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        """Return the queue's name: ours are lower case."""
        return re.sub(r"[^a-z0-9_-]", "-", self.name.lower())[:63].strip("-") or "slurm"

    def settings(self) -> dict[str, Any]:
        """Return the queue's settings that mirror it."""
        limits: dict[str, Any] = {
            "max_wall_seconds": self.max_seconds,
            "max_nodes_per_job": self.max_nodes,
            "max_gpus_per_job": self.max_gpus,
            "max_gpus_per_user": self.max_user_gpus,
            "max_running_per_user": self.max_user_jobs,
        }
        found = {name: value for name, value in limits.items() if value is not None}
        found["slurm"] = {"partition": self.name, "rules": dict(self.rules)}
        return found


def read_partitions(commands: Commands) -> list[Partition]:
    """Ask Slurm for its partitions and, where there is accounting, their QOS."""
    rows = records(commands.run("scontrol", "--oneliner", "show", "partition"))
    qos = _read_qos(commands)
    return [partition(row, qos.get(row.get("QoS", ""), {})) for row in rows]


def partition(row: Mapping[str, str], qos: Mapping[str, str]) -> Partition:
    """Say one partition's limits; the QOS's come on top, the tighter of two holds."""
    name, rules = row["PartitionName"], {}
    most = seconds(row.get("MaxTime", ""))
    if most is not None:
        rules["max_wall_seconds"] = f"MaxTime={row['MaxTime']} of partition {name}"
    nodes = _count(row.get("MaxNodes", ""))
    if nodes is not None:
        rules["max_nodes_per_job"] = f"MaxNodes={nodes} of partition {name}"
    whole = row.get("OverSubscribe", "") == "EXCLUSIVE" or row.get("ExclusiveUser") == "YES"
    if row.get("OverSubscribe", "") == "EXCLUSIVE":
        rules["whole_nodes"] = f"OverSubscribe=EXCLUSIVE of partition {name}: whole nodes alone"
    of = f"of QOS {qos.get('Name', '')}"
    wall = seconds(qos.get("MaxWall", ""))
    if wall is not None and (most is None or wall < most):
        most = wall
        rules["max_wall_seconds"] = f"MaxWall={qos['MaxWall']} {of}"
    each, user = amounts(qos.get("MaxTRES", "")), amounts(qos.get("MaxTRESPU", ""))
    if "node" in each and (nodes is None or each["node"] < nodes):
        nodes = int(each["node"])
        rules["max_nodes_per_job"] = f"MaxTRES node={nodes} {of}"
    if "gres/gpu" in each:
        rules["max_gpus_per_job"] = f"MaxTRES gres/gpu={each['gres/gpu']:g} {of}"
    jobs = _count(qos.get("MaxJobsPU", ""))
    if jobs is not None:
        rules["max_running_per_user"] = f"MaxJobsPU={jobs} {of}"
    if "gres/gpu" in user:
        rules["max_gpus_per_user"] = f"MaxTRESPU gres/gpu={user['gres/gpu']:g} {of}"
    return Partition(
        name=name,
        is_default=row.get("Default") == "YES",
        is_up=row.get("State", "UP") == "UP",
        nodes=_count(row.get("TotalNodes", "")) or 0,
        max_seconds=most,
        max_nodes=nodes,
        whole_nodes=whole,
        qos=qos.get("Name", ""),
        max_gpus=each.get("gres/gpu"),
        max_user_gpus=user.get("gres/gpu"),
        max_user_jobs=jobs,
        rules=rules,
    )


def _read_qos(commands: Commands) -> dict[str, dict[str, str]]:
    """Ask for QOS; a site without accounting has none."""
    try:
        text = commands.run(
            "sacctmgr",
            "--noheader",
            "--parsable2",
            "show",
            "qos",
            f"format={','.join(QOS_FIELDS)}",
        )
    except EngineError:
        return {}
    rows = (line.split("|") for line in text.splitlines() if "|" in line)
    found = (dict(zip(QOS_FIELDS, row, strict=False)) for row in rows)
    return {row["Name"]: row for row in found}


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None
