"""An attempt's folder on this machine: what the engine wrote, what the runners wrote.

Owns reading and writing these files. The runner's lock tells who lives: it is held by the
kernel for as long as the runner or its guard does, so no pid is ever trusted.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from trackyard.core.ports import ExitCause, ExitRecord, GpuShare, LaunchSpec, NodeGrant

#: No file of ours is longer; what a job leaves in its place may be.
MOST_JSON = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What the engine noted when it was asked to launch."""

    attempt_id: str
    epoch: int
    job_id: str
    placement: tuple[NodeGrant, ...]


class MemberFolder:
    """The state folder of one member's runner."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exit_record(self) -> ExitRecord | None:
        """Return the runner's word on the end, if it has spoken."""
        data = read_json(self.path / "exit.json")
        if data is None:
            return None
        try:
            return ExitRecord.from_json(data)
        except ValueError:
            return None

    def has_started(self) -> bool:
        """Tell whether a runner ever claimed this member."""
        return (self.path / "started.json").exists()

    def is_held(self) -> bool:
        """Tell whether a runner or its guard lives."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def processes(self) -> list[int]:
        """Return the pids of runner and guard as they noted them."""
        data = read_json(self.path / "started.json") or {}
        pids = (data.get("runner_pid"), data.get("guard_pid"))
        return [pid for pid in pids if isinstance(pid, int) and pid > 1]

    def ask_to_stop(self, request: dict[str, Any]) -> None:
        """Leave a stop request for the runner."""
        if self.path.is_dir():
            write_json(self.path / "stop.json", after(self.path / "stop.json", request))

    def read_log(self, offset: int, limit: int) -> bytes:
        """Return bytes of the log."""
        try:
            with open_plain(self.path / "log") as file:
                file.seek(max(0, offset))
                return file.read(max(0, limit))
        except OSError:
            return b""


class AttemptFolder:
    """The folder of one attempt with its members' folders below."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def launched(self) -> Launched | None:
        """Return what was asked for, or None if nothing was."""
        data = read_json(self.path / "launch.json")
        if data is None:
            return None
        try:
            return Launched(
                attempt_id=data["attempt_id"],
                epoch=int(data["epoch"]),
                job_id=data["job_id"],
                placement=tuple(_share(share) for share in data["placement"]),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def note_launch(self, spec: LaunchSpec) -> None:
        """Write down what is about to be started."""
        placement = [
            {
                "node_id": share.node_id,
                "gpus": [{"index": gpu.index, "fraction": gpu.fraction} for gpu in share.gpus],
                "cpus": share.cpus,
                "memory_bytes": share.memory_bytes,
            }
            for share in spec.placement
        ]
        write_json(
            self.path / "launch.json",
            {
                "attempt_id": spec.attempt_id,
                "epoch": spec.epoch,
                "job_id": spec.job_id,
                "placement": placement,
            },
        )

    def member(self, number: int) -> MemberFolder:
        """Return one member's folder."""
        return MemberFolder(self.path / f"m{number}")

    def spec(self, number: int) -> Path:
        """Return where a member's spec lies: not in its own folder, which may be its user's."""
        place = self.path / f"m{number}.spec.json"
        earlier = self.path / f"m{number}" / "spec.json"
        # What an earlier release started keeps its spec where that one put it.
        return earlier if not place.exists() and earlier.exists() else place

    def meeting(self) -> tuple[int, str]:
        """Return port and secret by which the members meet: the same for each, whenever asked."""
        known = read_json(self.path / "meeting.json")
        if known is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            known = {"port": port, "secret": secrets.token_hex(16)}
            write_json(self.path / "meeting.json", known)
        return int(known["port"]), str(known["secret"])

    def is_stopped(self) -> bool:
        """Tell whether a stop was asked for."""
        return (self.path / "stop.json").exists()

    def ask_to_stop(self, request: dict[str, Any], members: int) -> None:
        """Leave a stop request: first where a launch looks, then where the runners look."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(self.path / "stop.json", request)
        for number in range(members):
            self.member(number).ask_to_stop(request)


def after(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return a stop request as it stands after an earlier one, which the runner may not have seen.

    The earlier reason stays, unless the attempt is fenced off, and the grace never grows.
    """
    earlier = read_json(path)
    if earlier is None or request["reason"] == ExitCause.FENCED:
        return request
    left = earlier["grace_seconds"] - (request["at_ms"] - earlier["at_ms"]) / 1000
    grace = min(request["grace_seconds"], max(0.0, left))
    return {**request, "reason": earlier["reason"], "grace_seconds": grace}


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a file that is there whole or not at all.

    Not synced: a power cut ends all that runs here, and what it leaves of a file reads as none.
    """
    write_private(path, json.dumps(data, sort_keys=True))


def write_private(path: Path, text: str) -> None:
    """Write a file of this user alone, whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    beside.unlink(missing_ok=True)
    # Folders of attempts may belong to another user, who must not choose what we write to.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        owner = path.parent.stat()
        if owner.st_uid != os.geteuid():
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        file.write(text)
    beside.replace(path)


def open_plain(path: Path) -> BinaryIO:
    """Open a file to read that a job may have put there: no link, pipe or device."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the file's object, or None."""
    try:
        with open_plain(path) as file:
            data = json.loads(file.read(MOST_JSON))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _share(data: dict[str, Any]) -> NodeGrant:
    return NodeGrant(
        node_id=data["node_id"],
        gpus=tuple(GpuShare(index=gpu["index"], fraction=gpu["fraction"]) for gpu in data["gpus"]),
        cpus=data["cpus"],
        memory_bytes=data["memory_bytes"],
    )
