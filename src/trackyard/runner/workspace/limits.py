"""CPU and memory limits for the command: cgroup v2 or v1 where writable, else systemd-run.

Owns the attempt's cgroup from making to removal. Where none is allowed, the supervisor watches
memory itself and the note says so. RLIMIT_AS is not used: CUDA maps far more than it uses.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional, Set

from trackyard.runner.spec import RunnerSpec

CGROUP_ROOT = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 100_000
NOTHING_ALLOWED = (
    "CPU and memory limits are not enforced by the kernel here (no writable cgroup, no "
    "systemd-run); the runner watches memory and ends a job that goes over"
)


class Cgroup:
    """One attempt's cgroup: a single folder in v2, one per controller in v1."""

    def __init__(self, folders: Dict[str, Path], *, version: int) -> None:
        self._folders = folders
        self._version = version
        self._memory = folders.get("memory")

    @classmethod
    def make(cls, name: str, *, root: Path = CGROUP_ROOT) -> Optional[Cgroup]:
        """Make a cgroup below our own, or return None where that is not allowed."""
        try:
            if (root / "cgroup.controllers").exists():
                return cls._make_v2(name, root)
            return cls._make_v1(name, root)
        except OSError:
            return None

    @classmethod
    def _make_v2(cls, name: str, root: Path) -> Optional[Cgroup]:
        parent = root / own_cgroups().get("", "/").lstrip("/")
        if "memory" not in (parent / "cgroup.controllers").read_text().split():
            return None
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            (parent / "cgroup.subtree_control").write_text("+memory +cpu")
        folder = parent / name
        folder.mkdir(exist_ok=True)
        if not (folder / "memory.max").exists():
            folder.rmdir()
            return None
        return cls({"memory": folder, "cpu": folder}, version=2)

    @classmethod
    def _make_v1(cls, name: str, root: Path) -> Optional[Cgroup]:
        own = own_cgroups()
        folders: Dict[str, Path] = {}
        for controller, probe in (("memory", "memory.limit_in_bytes"), ("cpu", "cpu.shares")):
            folder = root / controller / own.get(controller, "/").lstrip("/") / name
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                if os.access(folder / probe, os.W_OK):
                    folders[controller] = folder
        return cls(folders, version=1) if "memory" in folders else None

    def limit(self, *, memory_bytes: int, cpus: float) -> List[str]:
        """Set the limits; return a sentence for each that the kernel refused."""
        refused = []
        if memory_bytes and not self._limit_memory(memory_bytes):
            refused.append("the kernel refused the memory limit")
        if cpus and not self._limit_processor(cpus):
            refused.append("the kernel refused the CPU limit")
        return refused

    def _limit_memory(self, count: int) -> bool:
        if self._version == 2:
            # A job that swaps is as good as dead; without swap files this one is absent.
            self._set("memory", "memory.swap.max", "0")
            return self._set("memory", "memory.max", str(count))
        done = self._set("memory", "memory.limit_in_bytes", str(count))
        self._set("memory", "memory.memsw.limit_in_bytes", str(count))
        return done

    def _limit_processor(self, cpus: float) -> bool:
        quota = max(1000, int(cpus * _PERIOD_MICROSECONDS))
        if self._version == 2:
            return self._set("cpu", "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
        self._set("cpu", "cpu.cfs_period_us", str(_PERIOD_MICROSECONDS))
        return self._set("cpu", "cpu.cfs_quota_us", str(quota))

    def _set(self, controller: str, name: str, value: str) -> bool:
        folder = self._folders.get(controller)
        if folder is None:
            return False
        try:
            (folder / name).write_text(value)
        except OSError:
            return False
        return True

    def open_doors(self) -> List[int]:
        """Open the files by which a process joins; writing `0` to each joins the writer."""
        return [
            os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            for folder in set(self._folders.values())
        ]

    def members(self) -> Set[int]:
        """Return the processes inside."""
        found: Set[int] = set()
        for folder in set(self._folders.values()):
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
        return found

    def oom_kills(self) -> int:
        """Return how often the kernel killed inside for want of memory."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        with contextlib.suppress(OSError, AttributeError):
            for line in (self._folders["memory"] / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def peak_bytes(self) -> int:
        """Return the most memory used inside, or 0 where the kernel does not tell."""
        name = "memory.peak" if self._version == 2 else "memory.max_usage_in_bytes"
        try:
            return int((self._folders["memory"] / name).read_text())
        except (OSError, ValueError):
            return 0

    def remove(self) -> None:
        """Remove the emptied cgroup; the kernel may need a moment."""
        for folder in set(self._folders.values()):
            for _ in range(20):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)


def own_cgroups() -> Dict[str, str]:
    """Return our path per controller; the empty name is cgroup v2."""
    found: Dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                found[controller] = path
    return found


def systemd_prefix(name: str, *, memory_bytes: int, cpus: float) -> Optional[List[str]]:
    """Return the words that put a command into a systemd scope, or None where that fails."""
    program = shutil.which("systemd-run")
    if program is None:
        return None
    scope = [program, "--scope", "--quiet", "--collect", f"--unit={name}"]
    if os.geteuid() != 0:
        scope.insert(1, "--user")
    if not _systemd_works(user=os.geteuid() != 0):
        return None
    if memory_bytes:
        scope += ["-p", f"MemoryMax={memory_bytes}", "-p", "MemorySwapMax=0"]
    if cpus:
        scope += ["-p", f"CPUQuota={max(1, round(cpus * 100))}%"]
    return [*scope, "--"]


def cgroup_for(spec: RunnerSpec, unit: str, notes: List[str]) -> Optional[Cgroup]:
    """Make the cgroup of an attempt that is limited, where that is allowed."""
    if not (spec.memory_bytes or spec.cpus) or not spec.kernel_limits:
        return None
    made = Cgroup.make(unit)
    if made is not None:
        notes += made.limit(memory_bytes=spec.memory_bytes, cpus=spec.cpus)
    return made


def prefix_for(
    spec: RunnerSpec, unit: str, cgroup: Optional[Cgroup], notes: List[str]
) -> List[str]:
    """Return what stands before a limited command that has no cgroup of ours."""
    if cgroup is not None or not (spec.memory_bytes or spec.cpus):
        return []
    if spec.kernel_limits:
        prefix = systemd_prefix(unit, memory_bytes=spec.memory_bytes, cpus=spec.cpus)
        if prefix is not None:
            return prefix
    notes.append(NOTHING_ALLOWED)
    return []


def _systemd_works(*, user: bool) -> bool:
    program = shutil.which("systemctl")
    if program is None:
        return False
    line = [program, *(["--user"] if user else []), "is-system-running"]
    try:
        answer = subprocess.run(line, capture_output=True, timeout=3, check=False, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() in ("running", "degraded", "starting")


def describe() -> Dict[str, str]:
    """Say how limits would be kept on this machine."""
    probe = Cgroup.make(f"yard-probe-{os.getpid()}")
    if probe is not None:
        probe.remove()
        return {"kind": "cgroup", "note": ""}
    if systemd_prefix("yard-probe", memory_bytes=0, cpus=0) is not None:
        return {"kind": "systemd", "note": ""}
    return {"kind": "watch", "note": NOTHING_ALLOWED}
