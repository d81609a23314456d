"""Small JSON files that survive a power cut: written beside, fsynced, renamed, folder fsynced.

Owns durable reads and writes in the attempt's state folder. Knows nothing of their meaning.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Dict, Optional, Union

RESERVED_BYTES = 64 * 1024


def write_json(path: Path, data: Dict[str, Any], *, mode: int = 0o600) -> None:
    """Write `data` so that a reader sees the old file or the whole new one, also after a crash."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, encode(data))
        os.fsync(descriptor)
    except OSError:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    os.close(descriptor)
    beside.replace(path)
    sync_folder(path.parent)


def read_json(path: Path) -> Optional[Dict[str, Any]]:
    """Return the file's object, or None if there is none or it cannot be read as one."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def reserve(path: Path) -> None:
    """Take disk space now, so that the exit record can be written on a disk filled later."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _allocate(descriptor)
    finally:
        os.close(descriptor)


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
        return
    os.pwrite(descriptor, b"\n" * RESERVED_BYTES, 0)
    os.fsync(descriptor)


def write_reserved(reserved: Path, path: Path, data: Dict[str, Any]) -> None:
    """Write `data` into space taken by `reserve`, then move it to `path`."""
    body = encode(data)
    if not reserved.exists() or len(body) > RESERVED_BYTES:
        write_json(path, data)
        return
    descriptor = os.open(reserved, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, body, 0)
        # Cutting off the rest needs no new blocks.
        os.ftruncate(descriptor, len(body))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    reserved.replace(path)
    sync_folder(path.parent)


def encode(data: Dict[str, Any]) -> bytes:
    """Return one line of JSON."""
    return (
        json.dumps(data, sort_keys=True, ensure_ascii=False).encode("utf-8", "backslashreplace")
        + b"\n"
    )


def write_all(descriptor: int, data: Union[bytes, memoryview]) -> None:
    """Write every byte, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
