"""What the server takes of its machine: a home folder with one owner at a time, private to its
user, with the admin token inside; a port; and enough open files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import resource
import socket
from pathlib import Path
from typing import IO

from trackyard.core.errors import SetupError

log = logging.getLogger(__name__)

#: Open files that serve some ten thousand callers at once.
MANY_FILES = 65_536
#: Open files that are not for callers: the database, artifacts, logs of jobs.
OWN_FILES = 256


class HomeLock:
    """Holds the home folder for one server process; the kernel lets go when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the folder or name the process that has it."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = self._path.open("a+")
        except OSError as fault:
            raise SetupError(
                f"cannot use {self._path.parent} as home folder: {fault.strerror}",
                hint="choose another with --home DIR or YARD_HOME",
            ) from fault
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as busy:
            handle.seek(0)
            owner = handle.read().strip() or "unknown"
            handle.close()
            raise SetupError(
                f"another server (pid {owner}) uses {self._path.parent} already",
                hint=f"stop it with `kill {owner}`, or start this one with --home DIR",
            ) from busy
        handle.seek(0)
        handle.truncate()
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        self._file = handle

    def release(self) -> None:
        """Let the folder go."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_secret(path: Path, text: str) -> None:
    """Write a file only its owner can read, whole or not at all."""
    beside = path.with_name(path.name + ".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(path)


def note_address(path: Path, url: str, *, pid: int) -> None:
    """Note for this user's `yard` where the server listens; pid 0 says that it ended."""
    try:
        write_secret(path, json.dumps({"url": url, "pid": pid}) + "\n")
    except OSError as fault:
        # A full disk must not keep the server from serving or from ending.
        log.warning("cannot note the address in %s: %s", path, fault.strerror)


def free_port(host: str, port: int) -> int:
    """Return the port to listen on, or say that it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            raise SetupError(
                f"cannot listen on {host}:{port}: {fault.strerror}",
                hint="another program may use it; choose another with --port N",
            ) from fault
        bound: int = probe.getsockname()[1]
        return bound


def allow_many_sockets() -> None:
    """Raise the limit on open files as far as the system lets us: each caller holds one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_sockets() -> int | None:
    """Return how many callers there are files for beside the server's own, or None if endless."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    return max(soft - OWN_FILES, soft // 2)
