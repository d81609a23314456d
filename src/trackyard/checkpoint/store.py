"""Checkpoints on disk: complete or absent, whatever kills the writer.

Owns the folder's layout. Parts are written and fsynced in a hidden folder, then the manifest
with sizes and checksums, then the folder gets its name, then `latest.json` moves. A reader
believes only a folder with a manifest that its files match, newest sequence first. Knows
nothing of tensors, frameworks or the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST = "manifest.json"
LATEST = "latest.json"
CHUNK_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"step-(\d{1,12})-[0-9a-f]{8}\Z")
_STALE_SECONDS = 24 * 3600


class CheckpointError(Exception):
    """A checkpoint cannot be written or read; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart:
    """One file of a checkpoint."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One complete checkpoint on disk."""

    name: str
    step: int
    #: grows with each save into the folder, so that going back to an earlier step is possible
    sequence: int
    path: Path
    parts: tuple[CheckpointPart, ...]
    created_ms: int
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Return the size of all parts."""
        return sum(part.size for part in self.parts)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest as it is written."""
        return {
            "version": 1,
            "name": self.name,
            "step": self.step,
            "sequence": self.sequence,
            "created_ms": self.created_ms,
            "metadata": dict(self.metadata),
            "parts": [
                {"name": part.name, "size": part.size, "sha256": part.sha256}
                for part in self.parts
            ],
        }

    def check(self, *, checksums: bool = True) -> str | None:
        """Return what is wrong with the files, or None if all is there."""
        for part in self.parts:
            path = self.path / part.name
            try:
                if path.stat().st_size != part.size:
                    return f"{part.name} has another size"
            except OSError:
                return f"{part.name} is missing"
            if checksums and digest(path) != part.sha256:
                return f"{part.name} is damaged"
        return None


class CheckpointFolder:
    """A folder of checkpoints, shared by a job's attempts."""

    def __init__(self, path: Path, *, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError("keep must be at least 1: the last checkpoint is never removed")
        self.path = path
        self._keep = keep
        path.mkdir(parents=True, exist_ok=True)
        self._remove_stale()

    def write(
        self,
        fill: Callable[[Path], None],
        *,
        step: int,
        metadata: Mapping[str, Any] | None = None,
        name: str | None = None,
        blocked_ms: Callable[[], int] = lambda: 0,
    ) -> Checkpoint:
        """Have `fill` write files into a new folder and commit them as one checkpoint.

        `blocked_ms` is asked at the end for how long training has waited for it.
        """
        if step < 0:
            raise ValueError("a step cannot be negative")
        name = name or f"step-{step:08d}-{secrets.token_hex(4)}"
        hidden = self.path / f".{name}.{_writer()}.part"
        hidden.mkdir()
        try:
            fill(hidden)
            checkpoint = self._commit(hidden, name, step, metadata or {}, blocked_ms)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        self.prune()
        return checkpoint

    def complete(self) -> list[Checkpoint]:
        """Return every checkpoint with a manifest and all its files, oldest first."""
        found = []
        for path in self.path.iterdir():
            if _NAME.match(path.name):
                checkpoint = read_manifest(path)
                if checkpoint is not None and checkpoint.check(checksums=False) is None:
                    found.append(checkpoint)
        return sorted(found, key=lambda checkpoint: (checkpoint.sequence, checkpoint.created_ms))

    def latest(self, *, checksums: bool = True) -> Checkpoint | None:
        """Return the newest checkpoint whose files are whole, going back as far as needed."""
        for checkpoint in reversed(self.complete()):
            if not checksums or checkpoint.check() is None:
                return checkpoint
        return None

    def prune(self) -> list[str]:
        """Remove all but the newest few; return the names removed."""
        gone = []
        for checkpoint in self.complete()[: -self._keep]:
            # Renamed first: a reader never sees a checkpoint that loses its files one by one.
            hidden = self.path / f".{checkpoint.name}.{_writer()}.gone"
            with contextlib.suppress(OSError):
                checkpoint.path.rename(hidden)
                shutil.rmtree(hidden, ignore_errors=True)
                gone.append(checkpoint.name)
        return gone

    def _commit(
        self,
        hidden: Path,
        name: str,
        step: int,
        metadata: Mapping[str, Any],
        blocked_ms: Callable[[], int],
    ) -> Checkpoint:
        parts = tuple(_seal(path, hidden) for path in _files(hidden))
        if not parts:
            raise CheckpointError("the checkpoint holds no file: nothing was saved")
        known = self.complete()
        checkpoint = Checkpoint(
            name=name,
            step=step,
            sequence=known[-1].sequence + 1 if known else 1,
            path=self.path / name,
            parts=parts,
            created_ms=time.time_ns() // 1_000_000,
            metadata=dict(metadata),
        )
        write_durably(hidden / MANIFEST, json.dumps(checkpoint.manifest(), indent=1).encode())
        _sync_folders(hidden)
        hidden.rename(checkpoint.path)
        _sync_folder(self.path)
        self._move_latest(checkpoint, blocked_ms())
        return checkpoint

    def _move_latest(self, checkpoint: Checkpoint, blocked_ms: int) -> None:
        pointer = {
            "name": checkpoint.name,
            "step": checkpoint.step,
            "sequence": checkpoint.sequence,
            "size_bytes": checkpoint.size_bytes,
            "created_ms": checkpoint.created_ms,
            "blocked_ms": blocked_ms,
        }
        beside = self.path / f".{LATEST}.{_writer()}"
        write_durably(beside, json.dumps(pointer).encode())
        beside.replace(self.path / LATEST)
        _sync_folder(self.path)

    def _remove_stale(self) -> None:
        """Remove what dead writers left; on a shared disk others' by age alone."""
        for path in self.path.glob(".*"):
            with contextlib.suppress(OSError):
                if not _is_stale(path):
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()


def _is_stale(path: Path) -> bool:
    writer = path.name.removesuffix(".part").removesuffix(".gone").rpartition(".")[2]
    host, _, pid = writer.rpartition("-")
    if host == _host() and pid.isdigit():
        return not _lives(int(pid))
    return time.time() - path.stat().st_mtime > _STALE_SECONDS


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def read_manifest(path: Path) -> Checkpoint | None:
    """Return the checkpoint a folder's manifest tells of, or None if it tells of none."""
    try:
        data = json.loads((path / MANIFEST).read_bytes())
        return parse_manifest(data, path)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def parse_manifest(data: Mapping[str, Any], path: Path) -> Checkpoint:
    """Read a manifest; names that would leave the folder are refused."""
    parts = tuple(
        CheckpointPart(
            name=_safe(item["name"]), size=int(item["size"]), sha256=str(item["sha256"])
        )
        for item in data["parts"]
    )
    if not _NAME.match(str(data["name"])) or not parts:
        raise ValueError("not a manifest of a checkpoint")
    return Checkpoint(
        name=str(data["name"]),
        step=int(data["step"]),
        sequence=int(data["sequence"]),
        path=path,
        parts=parts,
        created_ms=int(data["created_ms"]),
        metadata=dict(data.get("metadata") or {}),
    )


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            total.update(chunk)
    return total.hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    """Write and fsync one file."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _seal(path: Path, base: Path) -> CheckpointPart:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return CheckpointPart(
        name=path.relative_to(base).as_posix(), size=path.stat().st_size, sha256=digest(path)
    )


def _files(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise CheckpointError(f"{path.name} is a link or device; a checkpoint holds files")
        if path.is_file() and path.name != MANIFEST:
            found.append(path)
    return found


def _safe(name: Any) -> str:
    parts = PurePosixPath(str(name)).parts
    if not parts or str(name).startswith("/") or ".." in parts or "\0" in str(name):
        raise ValueError(f"{name!r} is no name of a part")
    return str(name)


def _sync_folders(folder: Path) -> None:
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        _sync_folder(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", socket.gethostname())


def _writer() -> str:
    return f"{_host()}-{os.getpid()}"
