"""Reads what Slurm prints: jobs, nodes, host lists, resources, times. Pure.

Slurm 22.05 writes numbers and words; 23.11 and later write objects with `set` and `number`, and
lists of states. Both are read here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MEGABYTE = 1024**2
_UNITS = {"": MEGABYTE, "K": 1024, "M": MEGABYTE, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_GRES = re.compile(r"gpu(?::([A-Za-z][\w.-]*))?(?::(\d+))?(?:\((?:IDX|S):[^)]*\))?\Z")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
#: states of a job that has not ended
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
LIVE = frozenset(
    {
        "RUNNING",
        "CONFIGURING",
        "COMPLETING",
        "SUSPENDED",
        "STOPPED",
        "SIGNALING",
        "STAGE_OUT",
        "RESIZING",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job as squeue lists it."""

    job_id: int
    name: str = ""
    comment: str = ""
    user: str = ""
    partition: str = ""
    #: its first state word, such as PENDING
    state: str = ""
    #: further words, such as COMPLETING or REQUEUED
    flags: frozenset[str] = frozenset()
    reason: str = ""
    #: seconds since 1970; expected for a job that waits; 0: unknown
    start: int = 0
    end: int = 0
    #: how often Slurm has put it back into its queue
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    memory_bytes: int = 0
    #: indices of GPUs by node
    gpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    exit_code: int | None = None
    reservation: str = ""

    @property
    def waits(self) -> bool:
        """Tell whether it stands in Slurm's queue."""
        return self.state in WAITING or bool(self.flags & {"REQUEUED", "REQUEUE_HOLD"})

    @property
    def has_ended(self) -> bool:
        """Tell whether it is over and its processes are gone."""
        return not self.waits and self.state not in LIVE and "COMPLETING" not in self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as scontrol lists it."""

    name: str
    hostname: str = ""
    address: str = ""
    states: frozenset[str] = frozenset()
    cpus: int = 0
    memory_bytes: int = 0
    gpu_type: str = ""
    gpu_count: int = 0
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    reason: str = ""
    version: str = ""
    architecture: str = ""
    system: str = ""


def read_job(row: Mapping[str, Any]) -> SlurmJob:
    """Read one job of `squeue --json`."""
    states = [str(word).upper() for word in _listed(row.get("job_state"))]
    nodes = expand(str(row.get("nodes") or ""))
    allocated = amounts(str(row.get("tres_alloc_str") or row.get("tres_req_str") or ""))
    return SlurmJob(
        job_id=int(number(row.get("job_id")) or 0),
        name=str(row.get("name") or ""),
        comment=_comment(row.get("comment")),
        user=str(row.get("user_name") or number(row.get("user_id")) or ""),
        partition=str(row.get("partition") or ""),
        state=states[0] if states else "",
        flags=frozenset(states[1:]),
        reason=str(row.get("state_reason") or ""),
        start=int(number(row.get("start_time")) or 0),
        end=int(number(row.get("end_time")) or 0),
        restarts=int(number(row.get("restart_cnt")) or 0),
        nodes=tuple(nodes),
        cpus=int(number(row.get("cpus")) or allocated.get("cpu", 0)),
        memory_bytes=int(allocated.get("mem", 0)),
        gpus=_gpus_by_node(row, nodes, allocated),
        exit_code=_exit_code(row.get("exit_code")),
        reservation=str(row.get("resv_name") or ""),
    )


def read_node(row: Mapping[str, str]) -> SlurmNode:
    """Read one node of `scontrol --oneliner show nodes`, a form that all versions share."""
    kind, count = gpus_of(row.get("Gres", ""))
    states = re.split(r"[+*~#$@^!%-]+", row.get("State", "").upper())
    silent = {"NOT_RESPONDING"} if "*" in row.get("State", "") else set()
    return SlurmNode(
        name=row.get("NodeName", ""),
        hostname=row.get("NodeHostName", ""),
        address=row.get("NodeAddr", ""),
        states=frozenset({*states, *silent} - {""}),
        cpus=int(row.get("CPUTot") or 0),
        memory_bytes=int(row.get("RealMemory") or 0) * MEGABYTE,
        gpu_type=kind,
        gpu_count=count,
        partitions=tuple(_words(row.get("Partitions"))),
        features=tuple(_words(row.get("ActiveFeatures"))),
        reason=row.get("Reason", ""),
        version=row.get("Version", ""),
        architecture=row.get("Arch", ""),
        system=row.get("OS", ""),
    )


def number(value: Any) -> float | None:
    """Return a number in either form; None where it is not set."""
    if isinstance(value, Mapping):
        if value.get("infinite") or value.get("set") is False:
            return None
        value = value.get("number")
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def expand(hosts: str) -> list[str]:
    """Return the names in a host list such as `n[1-3,05],m7`."""
    found: list[str] = []
    for part in _split(hosts):
        prefix, bracket, rest = part.partition("[")
        if not bracket:
            found += [part] if part else []
            continue
        inside, _, suffix = rest.partition("]")
        for piece in inside.split(","):
            low, dash, high = piece.partition("-")
            last = int(high) if dash else int(low)
            for index in range(int(low), last + 1):
                name = f"{prefix}{index:0{len(low)}d}"
                found += [f"{name}{tail}" for tail in (expand(suffix) or [""])]
    return found


def amounts(text: str) -> dict[str, float]:
    """Read Slurm's `cpu=2,mem=8000M,gres/gpu=1`; memory in bytes."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        match = _AMOUNT.match(value)
        if match:
            unit = _UNITS[match[2]] if name == "mem" else 1
            found[name] = float(match[1]) * unit
    return found


def gpus_of(gres: str) -> tuple[str, int]:
    """Return type and number of the GPUs in a list of generic resources."""
    kind, count = "", 0
    for part in _split(gres):
        match = _GRES.match(part.removeprefix("gres:").replace("gres/", "").strip())
        if match:
            kind = kind or (match[1] or "")
            count += int(match[2] or 1)
    return kind, count


def indices(text: str) -> tuple[int, ...]:
    """Return the GPU indices in `gpu:h100:2(IDX:0-1)`; none where there are none."""
    found: list[int] = []
    for part in re.findall(r"gpu[^(]*\(IDX:([^)]*)\)", text):
        for piece in part.split(","):
            low, dash, high = piece.partition("-")
            if low.isdigit():
                found += range(int(low), int(high if dash else low) + 1)
    return tuple(found)


def seconds(text: str) -> float | None:
    """Read Slurm's `2-00:00:00`, `1:30:00`, `30:00` or `30` (minutes); None: no limit.

    As sbatch does: without days and hours, what stands alone is minutes.
    """
    text = text.strip()
    if not text or text.upper() in ("UNLIMITED", "INFINITE", "NONE", "N/A", "-1"):
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, secs = [*parts, 0, 0][:3]
        return int(days) * 86400 + hours * 3600 + minutes * 60 + secs
    if len(parts) == 1:
        return parts[0] * 60
    if len(parts) == 2:
        return parts[0] * 60 + parts[1]
    return parts[0] * 3600 + parts[1] * 60 + parts[2]


def records(text: str) -> list[dict[str, str]]:
    """Read `scontrol --oneliner show …`: one `Key=Value` list a line."""
    found = []
    for line in text.splitlines():
        words = re.findall(r"(\w[\w/:]*)=(.*?)(?=\s+\w[\w/:]*=|\s*\Z)", line.strip())
        if words:
            found.append({key: value.strip() for key, value in words})
    return found


def _gpus_by_node(
    row: Mapping[str, Any], nodes: list[str], allocated: Mapping[str, float]
) -> dict[str, tuple[int, ...]]:
    detail = [str(one) for one in _listed(row.get("gres_detail"))]
    if len(detail) == len(nodes) and detail:
        return {
            name: found for name, one in zip(nodes, detail, strict=True) if (found := indices(one))
        }
    total = int(allocated.get("gres/gpu", 0))
    if not total or not nodes:
        return {}
    each = max(1, total // len(nodes))
    return {name: tuple(range(each)) for name in nodes}


def _comment(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("job") or "")
    return str(value or "")


def _exit_code(value: Any) -> int | None:
    if isinstance(value, Mapping):
        return None if (code := number(value.get("return_code"))) is None else int(code)
    found = number(value)
    # A wait status, as the kernel has it.
    return None if found is None else int(found) >> 8 if found > 255 else int(found)


def _listed(value: Any) -> Iterable[Any]:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    return [word for word in str(value or "").split(",") if word and word != "(null)"]


def _split(text: str) -> list[str]:
    """Split at commas that are in no brackets."""
    return [part for part in re.split(r",(?![^\[(]*[\])])", text) if part]
