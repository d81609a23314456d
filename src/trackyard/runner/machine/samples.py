"""Samples of the machine under MLflow's names for system metrics.

Owns reading /proc and the GPU drivers into one flat dict. Knows nothing of when or where the
values go.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from trackyard.runner.machine.gpus import GpuDriver, GpuUse
from trackyard.runner.machine.gpus import drivers as open_drivers
from trackyard.runner.spec import RunnerSpec

_MEGABYTE = 1_000_000
_SKIPPED_INTERFACES = ("lo", "docker", "veth", "br-", "virbr")


def sampler_of(spec: RunnerSpec) -> Sampler:
    """Return what samples the machine for one member of an attempt."""
    gpu_file = spec.health.gpu_file if spec.health else None
    return Sampler(
        disk=spec.state_dir,
        drivers=list if spec.gpus == () else lambda: _drivers(gpu_file),
        gpus=None if spec.gpus is None else [gpu.index for gpu in spec.gpus],
        prefix="system/" if spec.gang.members == 1 else f"system/{spec.gang.member}/",
    )


def _drivers(gpu_file: Optional[Path]) -> List[GpuDriver]:
    try:
        return open_drivers(gpu_file)
    except ValueError:  # health checks report a file that cannot be read
        return open_drivers()


class Sampler:
    """Reads the machine; rates and sums count from its making."""

    def __init__(
        self,
        *,
        disk: Path,
        drivers: Callable[[], List[GpuDriver]],
        gpus: Optional[Iterable[int]],
        prefix: str,
    ) -> None:
        self._disk = disk
        # Opened at the first reading: a driver may take longer than a short job does.
        self._open_drivers = drivers
        self._drivers: Optional[List[GpuDriver]] = None
        self._gpus = None if gpus is None else set(gpus)
        self._prefix = prefix
        self._processor = processor_times()
        self._network = network_bytes()
        self._job_ticks: Optional[Tuple[int, float]] = None

    def read(self, *, job_memory_bytes: int = 0, job_cpu_ticks: int = 0) -> Dict[str, float]:
        """Return one sample; what cannot be read is left out."""
        values: Dict[str, float] = {}
        values.update(self._read_processor())
        values.update(_read_memory())
        values.update(self._read_disk())
        values.update(self._read_network())
        values.update(self._read_job(job_memory_bytes, job_cpu_ticks))
        if self._drivers is None:
            self._drivers = self._open_drivers()
        for driver in self._drivers:
            values.update(self._read_gpus(driver))
        return {f"{self._prefix}{name}": round(value, 3) for name, value in values.items()}

    def _read_processor(self) -> Dict[str, float]:
        now = processor_times()
        if now is None or self._processor is None:
            return {}
        busy, total = now[0] - self._processor[0], now[1] - self._processor[1]
        self._processor = now
        return {} if total <= 0 else {"cpu_utilization_percentage": 100 * busy / total}

    def _read_disk(self) -> Dict[str, float]:
        try:
            facts = os.statvfs(self._disk)
        except OSError:
            return {}
        size = facts.f_blocks * facts.f_frsize
        available = facts.f_bavail * facts.f_frsize
        used = size - facts.f_bfree * facts.f_frsize
        return {
            "disk_usage_percentage": 100 * used / (used + available) if used + available else 0.0,
            "disk_usage_megabytes": used / _MEGABYTE,
            "disk_available_megabytes": available / _MEGABYTE,
        }

    def _read_network(self) -> Dict[str, float]:
        now = network_bytes()
        if now is None or self._network is None:
            return {}
        return {
            "network_receive_megabytes": max(0, now[0] - self._network[0]) / _MEGABYTE,
            "network_transmit_megabytes": max(0, now[1] - self._network[1]) / _MEGABYTE,
        }

    def _read_job(self, memory_bytes: int, ticks: int) -> Dict[str, float]:
        values = {"job_memory_usage_megabytes": memory_bytes / _MEGABYTE}
        now = time.monotonic()
        if self._job_ticks is not None and now > self._job_ticks[1]:
            used = max(0, ticks - self._job_ticks[0]) / os.sysconf("SC_CLK_TCK")
            values["job_cpu_utilization_percentage"] = 100 * used / (now - self._job_ticks[1])
        self._job_ticks = (ticks, now)
        return values

    def _read_gpus(self, driver: GpuDriver) -> Dict[str, float]:
        values: Dict[str, float] = {}
        for facts in driver.facts():
            if self._gpus is not None and facts.number not in self._gpus:
                continue
            use = driver.use(facts.number)
            if use is not None:
                told = _gpu_values(use)
                values.update({f"gpu_{facts.number}_{name}": told[name] for name in told})
        return values


def _gpu_values(use: GpuUse) -> Dict[str, float]:
    """Return the readings of one GPU by name; what its driver does not tell is left out."""
    used = use.memory_used_bytes
    values = {
        "utilization_percentage": use.utilization_percentage,
        "memory_usage_megabytes": None if used is None else used / _MEGABYTE,
        "memory_usage_percentage": _percentage(used, use.memory_total_bytes),
        "power_usage_watts": use.power_watts,
        "power_usage_percentage": _percentage(use.power_watts, use.power_limit_watts),
        "temperature_celsius": use.temperature_celsius,
        "clock_megahertz": use.clock_megahertz,
    }
    return {name: value for name, value in values.items() if value is not None}


def _percentage(part: Optional[float], whole: Optional[float]) -> Optional[float]:
    return None if part is None or not whole else 100 * part / whole


def processor_times() -> Optional[Tuple[int, int]]:
    """Return busy and total ticks of all processors since boot."""
    line = _first_line("/proc/stat")
    if line is None or not line.startswith("cpu "):
        return None
    fields = [int(field) for field in line.split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def network_bytes() -> Optional[Tuple[int, int]]:
    """Return bytes received and sent by the machine's own interfaces since boot."""
    text = _text("/proc/net/dev")
    if text is None:
        return None
    received = sent = 0
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name.strip().startswith(_SKIPPED_INTERFACES) or len(fields) < 9:
            continue
        received += int(fields[0])
        sent += int(fields[8])
    return received, sent


def memory_bytes() -> Tuple[int, int]:
    """Return total and available main memory; zeros where it cannot be read."""
    values: Dict[str, int] = {}
    for line in (_text("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            values[name] = int(fields[0]) * 1024
    if "MemTotal" not in values and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return total, total
    return values.get("MemTotal", 0), values.get("MemAvailable", 0)


def oom_kills() -> int:
    """Return how often the kernel's out-of-memory killer struck since boot."""
    for line in (_text("/proc/vmstat") or "").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def _read_memory() -> Dict[str, float]:
    total, available = memory_bytes()
    if not total:
        return {}
    used = total - available
    return {
        "system_memory_usage_megabytes": used / _MEGABYTE,
        "system_memory_usage_percentage": 100 * used / total,
    }


def _first_line(path: str) -> Optional[str]:
    text = _text(path)
    return text.split("\n", 1)[0] if text else None


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return None
