"""Is this machine fit for work: GPUs, disk, stuck processes. Each check gives a verdict.

Owns what is looked at and the limits it is judged by; README.md lists them. Decides nothing about
the node: whoever asked does. A check that cannot be made here is left out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from trackyard.runner import processes, records
from trackyard.runner.machine.condition import GpuCondition
from trackyard.runner.machine.gpus import GpuDriver

OK, WARN, FAIL = "ok", "warn", "fail"
DEFAULTS: Dict[str, float] = {
    "disk_warn_gb": 5.0,
    "disk_fail_gb": 1.0,
    "temperature_celsius": 95.0,
    "temperature_margin_celsius": 5.0,
    "ecc_corrected": 10_000.0,
    "stray_warn_mb": 256.0,
    "stray_fail_percent": 50.0,
    "stuck_warn_seconds": 120.0,
    "stuck_fail_seconds": 600.0,
    "xid_seconds": 3600.0,
}
#: Xid numbers that tell of broken hardware; most others are faults of a program.
GRAVE_XIDS = frozenset((48, 64, 74, 79, 92, 95, 119, 120, 140))
_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")
_GIGABYTE, _MEGABYTE = 1_000_000_000, 1_000_000
_KMSG = "/dev/kmsg"
_MOST_KERNEL_LINES = 100_000


class CheckResult(NamedTuple):
    """What one check found."""

    name: str
    verdict: str
    sentence: str
    number: Optional[float] = None
    unit: str = ""


class CheckSubject(NamedTuple):
    """What is to be looked at."""

    #: the folder that attempts work in
    folder: Path
    drivers: List[GpuDriver]
    #: GPUs that count; None for all
    gpus: Optional[Set[int]] = None
    #: attempts that may hold GPU memory; None for any attempt
    live: Optional[Set[str]] = None
    #: where stuck processes are remembered from look to look; None does not look for them
    memory: Optional[Path] = None


def look(subject: CheckSubject, limits: Mapping[str, float]) -> List[Dict[str, Any]]:
    """Make every check that can be made here; JSON-ready."""
    bound = {**DEFAULTS, **limits}
    seen = conditions(subject)
    checks = [
        disk(subject.folder, bound),
        *errors(seen, bound),
        *heat(seen, bound),
        *driver_faults(subject.drivers, bound),
        *strays(seen, subject, bound),
    ]
    now_ms = time.time_ns() // 1_000_000
    return [{**check._asdict(), "at_ms": now_ms} for check in checks]


def conditions(subject: CheckSubject) -> Dict[int, GpuCondition]:
    """Look at every GPU that counts."""
    found: Dict[int, GpuCondition] = {}
    for driver in subject.drivers:
        for facts in driver.facts():
            if subject.gpus is not None and facts.number not in subject.gpus:
                continue
            condition = driver.condition(facts.number)
            if condition is not None:
                found[facts.number] = condition
    return found


# Disk


def disk(folder: Path, bound: Mapping[str, float]) -> CheckResult:
    """Check that the work folder has room and can be written."""
    try:
        facts = os.statvfs(folder)
        free = facts.f_bavail * facts.f_frsize / _GIGABYTE
        _write_probe(folder)
    except OSError as fault:
        why = os.strerror(fault.errno) if fault.errno else str(fault)
        free_gb = 0.0 if fault.errno == errno.ENOSPC else None
        return CheckResult("disk", FAIL, f"{folder} cannot be written: {why}.", free_gb, "GB")
    sentence = f"{free:.1f} GB are free in {folder}."
    if facts.f_files and not facts.f_favail:
        return CheckResult(
            "disk", FAIL, f"No file can be made in {folder}: inodes are used up.", 0.0
        )
    verdict = OK
    if free < bound["disk_fail_gb"]:
        verdict, sentence = FAIL, f"Only {sentence}"
    elif free < bound["disk_warn_gb"]:
        verdict, sentence = WARN, f"Only {sentence}"
    return CheckResult("disk", verdict, sentence, round(free, 3), "GB")


def _write_probe(folder: Path) -> None:
    probe = folder / f".probe-{os.getpid()}"
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        # A disk may be full for data and still take an empty file.
        if os.write(descriptor, b"\0" * 8192) < 8192:
            raise OSError(errno.ENOSPC, "the disk is full")
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            probe.unlink()


# GPUs


def errors(seen: Mapping[int, GpuCondition], bound: Mapping[str, float]) -> List[CheckResult]:
    """Check GPU memory: errors that could not be corrected, rows that could not be replaced."""
    checks = []
    ecc = {index: one for index, one in seen.items() if one.ecc_uncorrected is not None}
    if ecc:
        bad = {index: one.ecc_uncorrected for index, one in ecc.items() if one.ecc_uncorrected}
        many = [i for i, one in ecc.items() if (one.ecc_corrected or 0) >= bound["ecc_corrected"]]
        total = float(sum(count or 0 for count in bad.values()))
        verdict, sentence = OK, "No memory error went uncorrected."
        if bad:
            verdict = FAIL
            sentence = f"{_gpus(bad)} had {total:g} memory errors that could not be corrected."
        elif many:
            verdict, sentence = WARN, f"{_gpus(many)} corrects very many memory errors."
        checks.append(CheckResult("ecc", verdict, sentence, total, "errors"))
    rows = {index: one for index, one in seen.items() if one.remapped is not None}
    if rows:
        failed = [index for index, one in rows.items() if one.remap_failed]
        pending = [index for index, one in rows.items() if one.remap_pending]
        total = float(sum(one.remapped or 0 for one in rows.values()))
        verdict, sentence = OK, f"{total:g} rows of GPU memory were replaced by spare ones."
        if failed:
            verdict, sentence = FAIL, f"{_gpus(failed)} has no spare rows left for broken memory."
        elif pending:
            verdict = WARN
            sentence = f"{_gpus(pending)} needs a reset to replace broken rows of its memory."
        checks.append(CheckResult("remap", verdict, sentence, total, "rows"))
    return checks


def heat(seen: Mapping[int, GpuCondition], bound: Mapping[str, float]) -> List[CheckResult]:
    """Check temperatures, and whether the hardware slows GPUs down."""
    checks = []
    hot = [
        (one.temperature_celsius, index, one)
        for index, one in seen.items()
        if one.temperature_celsius is not None
    ]
    if hot:
        # The one nearest its own limit is the one to speak of.
        left, degrees, index, limit = min(
            (_limit(one, bound) - degrees, degrees, index, _limit(one, bound))
            for degrees, index, one in hot
        )
        verdict = OK
        if left <= 0:
            verdict = FAIL
        elif left <= bound["temperature_margin_celsius"]:
            verdict = WARN
        sentence = f"GPU {index} is at {degrees:g} °C; its limit is {limit:g} °C."
        checks.append(CheckResult("temperature", verdict, sentence, degrees, "°C"))
    told = {index: one.slowed_by for index, one in seen.items() if one.slowed_by is not None}
    if told:
        by_heat = [index for index, why in told.items() if why == "heat"]
        by_power = [index for index, why in told.items() if why == "power"]
        verdict, sentence = OK, "No GPU is slowed down by its hardware."
        if by_heat:
            verdict, sentence = FAIL, f"{_gpus(by_heat)} is slowed down by heat."
        elif by_power:
            verdict, sentence = WARN, f"{_gpus(by_power)} is slowed down for want of power."
        count = float(len(by_heat) + len(by_power))
        checks.append(CheckResult("throttle", verdict, sentence, count, "GPUs"))
    return checks


def _limit(one: GpuCondition, bound: Mapping[str, float]) -> float:
    return one.temperature_limit_celsius or bound["temperature_celsius"]


def _gpus(indexes: Iterable[int]) -> str:
    names = sorted(indexes)
    return f"GPU {', '.join(str(index) for index in names[:8])}"


# The driver's own complaints


def driver_faults(
    drivers: Iterable[GpuDriver],
    bound: Mapping[str, float],
    read: Optional[Callable[[], Optional[List[Tuple[float, str]]]]] = None,
) -> List[CheckResult]:
    """Check the kernel's log for grave faults of the NVIDIA driver."""
    if not any(driver.vendor == "nvidia" for driver in drivers):
        return []
    lines = (read or kernel_lines)()
    if lines is None:
        return []
    found = [
        (match.group(1), int(match.group(2)))
        for age, text in lines
        if age <= bound["xid_seconds"]
        and (match := _XID.search(text)) is not None
        and int(match.group(2)) in GRAVE_XIDS
    ]
    if not found:
        return [CheckResult("xid", OK, "The driver told of no grave fault.", 0.0, "faults")]
    where, number = found[-1]
    sentence = f"The driver told of {len(found)} grave faults, the last Xid {number} on {where}."
    return [CheckResult("xid", FAIL, sentence, float(len(found)), "faults")]


def kernel_lines() -> Optional[List[Tuple[float, str]]]:
    """Return the kernel's log as (seconds ago, text); None where it may not be read."""
    try:
        descriptor = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found: List[Tuple[float, str]] = []
    now = time.monotonic()
    try:
        for _ in range(_MOST_KERNEL_LINES):
            try:
                record = os.read(descriptor, 8192).decode("utf-8", "replace")
            except BrokenPipeError:
                continue
            except OSError:
                break
            head, _, text = record.partition(";")
            fields = head.split(",")
            if len(fields) > 2 and fields[2].isdigit():
                found.append((now - int(fields[2]) / 1_000_000, text.split("\n", 1)[0]))
    finally:
        os.close(descriptor)
    return found


# Processes


def strays(
    seen: Mapping[int, GpuCondition], subject: CheckSubject, bound: Mapping[str, float]
) -> List[CheckResult]:
    """Check for GPU memory that no attempt holds, and for processes stuck in the kernel."""
    told = {index: one for index, one in seen.items() if one.holders is not None}
    if not told and subject.memory is None:
        return []
    worst = CheckResult("processes", OK, "Nobody but attempts holds GPU memory.", 0.0, "MB")
    if not told:
        worst = CheckResult("processes", OK, "No process is stuck.", 0.0, "s")
    for index, one in told.items():
        check = _stray(index, one, subject.live, bound)
        if check is not None and _rank(check) >= _rank(worst):
            worst = check
    stuck = _stuck(subject.memory, bound) if subject.memory is not None else None
    if stuck is not None and _rank(stuck) > _rank(worst):
        worst = stuck
    return [worst]


def _rank(check: CheckResult) -> int:
    return (OK, WARN, FAIL).index(check.verdict)


def _stray(
    index: int, one: GpuCondition, live: Optional[Set[str]], bound: Mapping[str, float]
) -> Optional[CheckResult]:
    held = {pid: size for pid, size in (one.holders or {}).items() if _is_stray(pid, live)}
    megabytes = sum(held.values()) / _MEGABYTE
    if megabytes < bound["stray_warn_mb"]:
        return None
    share = 100 * sum(held.values()) / one.memory_bytes if one.memory_bytes else 0.0
    verdict = FAIL if share >= bound["stray_fail_percent"] else WARN
    biggest = max(held, key=lambda pid: held[pid])
    sentence = (
        f"{megabytes:.0f} MB of GPU {index} are held by no attempt,"
        f" most by process {biggest} ({_name(biggest)})."
    )
    return CheckResult("processes", verdict, sentence, round(megabytes, 1), "MB")


def _is_stray(pid: int, live: Optional[Set[str]]) -> bool:
    """Tell whether a process that can be seen from here belongs to no live attempt."""
    try:
        variables = (processes.PROC / str(pid) / "environ").read_bytes()
    except FileNotFoundError:
        # Another container's, or just gone: nothing can be said of it.
        return False
    except OSError:
        return True
    for line in variables.split(b"\0"):
        if line.startswith(b"YARD_ATTEMPT_ID="):
            name = line.partition(b"=")[2].decode("utf-8", "replace")
            return live is not None and name not in live
    return True


def _name(pid: int) -> str:
    try:
        return (processes.PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"


def _stuck(memory: Path, bound: Mapping[str, float]) -> Optional[CheckResult]:
    now = time.time()
    before = _recall(memory)
    found: Dict[str, float] = {}
    for process in processes.table().values():
        if process.state == "D" and _has_command(process.pid):
            key = f"{process.pid}:{process.start_ticks}"
            found[key] = min(now, before.get(key, now))
    if found != before:
        with contextlib.suppress(OSError):
            records.write_json(memory, found)
    if not found:
        return None
    key = min(found, key=lambda one: found[one])
    seconds = now - found[key]
    verdict = WARN if seconds >= bound["stuck_warn_seconds"] else OK
    if seconds >= bound["stuck_fail_seconds"]:
        verdict = FAIL
    pid = int(key.partition(":")[0])
    sentence = f"Process {pid} ({_name(pid)}) hangs in the kernel for {seconds:.0f} s."
    return CheckResult("processes", verdict, sentence, round(seconds, 1), "s")


def _has_command(pid: int) -> bool:
    """Tell a process from a thread of the kernel's own, which may sleep so for ever."""
    try:
        return bool((processes.PROC / str(pid) / "cmdline").read_bytes())
    except OSError:
        return False


def _recall(memory: Path) -> Dict[str, float]:
    try:
        found = json.loads(memory.read_bytes())
        return {str(key): float(value) for key, value in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
