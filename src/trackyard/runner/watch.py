"""What the supervisor looks out for: requests to stop, limits, siblings, signs of progress.

Owns the reasons to stop and their order. Ends nothing itself.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from trackyard.runner import records
from trackyard.runner.spec import RunnerSpec

SIBLING_SECONDS = 0.25
MEMORY_SECONDS = 1.0
REASONS = frozenset(
    {"preempted", "stopped", "time_limit", "gang", "gang_done", "fenced", "memory", "node_lost"}
)
#: reasons that leave no time to save
AT_ONCE = frozenset({"fenced", "memory", "gang_done"})
#: a greater step is no step: databases could not hold it
MOST_STEPS = 2**53


class StopRequest(NamedTuple):
    """Someone wants the command to end."""

    reason: str
    grace_seconds: float


class StopRequests:
    """Stop requests from any thread, in the order they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: List[StopRequest] = []

    def put(self, reason: str, grace_seconds: float) -> None:
        """Ask for a stop; an unknown reason counts as a plain stop."""
        known = reason if reason in REASONS else "stopped"
        grace = 0.0 if known in AT_ONCE else max(0.0, grace_seconds)
        with self._lock:
            self._waiting.append(StopRequest(known, grace))

    def take(self) -> List[StopRequest]:
        """Return and clear what was asked."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken


class StopFile:
    """`stop.json` in the state folder: how the local engine reaches a runner."""

    def __init__(self, spec: RunnerSpec) -> None:
        self._path = spec.state_dir / "stop.json"
        self._grace = spec.grace_seconds
        self._seen = (0, 0)

    def check(self, requests: StopRequests) -> None:
        """Pass on a request that is new since the last look."""
        try:
            facts = self._path.stat()
        except OSError:
            return
        stamp = (facts.st_mtime_ns, facts.st_ino)
        if stamp == self._seen:
            return
        self._seen = stamp
        data = records.read_json(self._path) or {}
        grace = data.get("grace_seconds")
        requests.put(
            str(data.get("reason", "stopped")),
            float(grace) if isinstance(grace, (int, float)) else self._grace,
        )


class Siblings:
    """The other members of the gang, where their records lie on a shared disk."""

    def __init__(self, spec: RunnerSpec) -> None:
        self._gang = spec.gang
        self._grace = spec.grace_seconds
        self._next = 0.0
        self._told = False

    def check(self, requests: StopRequests) -> None:
        """Ask for a stop when another member failed."""
        if self._told or self._gang.folder is None or self._gang.members == 1:
            return
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SIBLING_SECONDS
        for member in range(self._gang.members):
            if member == self._gang.member:
                continue
            record = records.read_json(self._gang.folder / f"m{member}" / "exit.json")
            if record is not None and record.get("cause") != "succeeded":
                self._told = True
                cause = str(record.get("cause"))
                # A gang that is stopped as a whole keeps the reason it was stopped for.
                whole = cause if cause in ("preempted", "stopped", "time_limit") else "gang"
                requests.put(whole, self._grace)

    def first_is_done(self) -> bool:
        """Tell whether member 0 did its work, for members that only hold their node."""
        if self._gang.folder is None:
            return False
        record = records.read_json(self._gang.folder / "m0" / "exit.json")
        return record is not None and record.get("cause") == "succeeded"


class ProgressFiles:
    """Progress and checkpoints, as files the command writes."""

    def __init__(self, spec: RunnerSpec) -> None:
        self.progress_file = spec.state_dir / "progress.json"
        self._promised = spec.progress_seconds
        self._checkpoints = spec.checkpoint_dir
        self._started = time.time()

    def started(self) -> None:
        """Count the promised interval from now."""
        self._started = time.time()

    def progress(self) -> Dict[str, Any]:
        """Return age and content of the last sign of progress."""
        last = max(self._started, _modified(self.progress_file) or 0.0)
        age = max(0.0, time.time() - last)
        found: Dict[str, Any] = {"age_seconds": round(age, 1)}
        step = (records.read_json(self.progress_file) or {}).get("step")
        if isinstance(step, int) and abs(step) < MOST_STEPS:
            found["step"] = step
        if self._promised is not None:
            found["promised_seconds"] = self._promised
            found["stalled"] = age > self._promised
        return found

    def checkpoint(self) -> Optional[Dict[str, Any]]:
        """Return the job's last complete checkpoint, if there is one."""
        if self._checkpoints is None:
            return None
        return records.read_json(self._checkpoints / "latest.json")


def answers(place: str, seconds: float = 2.0) -> bool:
    """Tell whether something listens at `host:port`."""
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, ValueError):
        return False
    return True


def _modified(path: Path) -> Optional[float]:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
