"""Starting, watching and stopping the servers under test.

Each server gets its own folder on the same file system, SQLite, and the settings a user gets
without asking for any. This module knows how to start them, not how to load them.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
ENVS = Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")
PEERS = ("mlflow", "fasttrackml", "trackyard")


class BenchError(Exception):
    """A server did not do what the measurement needs; the message says which and what."""


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def process_tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        tree.append(current)
        waiting.extend(children.get(current, []))
    return tree


def memory(pid: int) -> tuple[int, int, int]:
    """Return processes, resident bytes and proportional bytes of a process tree."""
    resident = shared = count = 0
    for member in process_tree(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        count += 1
        for line in text.splitlines():
            if line.startswith("Rss:"):
                resident += int(line.split()[1]) * 1024
            elif line.startswith("Pss:"):
                shared += int(line.split()[1]) * 1024
    return count, resident, shared


@dataclass(slots=True)
class Server:
    """A running server: where it listens, where its files lie, how long it took to be ready."""

    name: str
    port: int
    home: Path
    process: subprocess.Popen[bytes]
    ready_seconds: float
    token: str | None = None
    version: str = ""
    log: IO[bytes] | None = None
    host: str = "127.0.0.1"
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def head(self, method: str, path: str) -> bytes:
        """Return the request head up to the content length, ready for a body."""
        auth = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Content-Type: application/json\r\n{auth}Content-Length: "
        ).encode()

    def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Do one call on a kept connection and return status and raw body."""
        sent = {"Content-Type": "application/json", **headers}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        for attempt in (0, 1):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
            try:
                self._connection.request(method, path, body, sent)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                self._connection = None
                if attempt:
                    raise
        raise AssertionError("unreachable")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Do one call of the tracking API, insist on 200 and return the parsed answer."""
        data = None if body is None else json.dumps(body).encode()
        status, raw = self.request(method, f"/api/2.0/mlflow/{path}", data)
        if status != 200:
            raise BenchError(f"{self.name}: {method} {path} answered {status}: {raw[:300]!r}")
        return json.loads(raw or b"{}")

    def memory(self) -> tuple[int, int, int]:
        """Return processes, resident bytes and proportional bytes of all its processes."""
        return memory(self.process.pid)

    def freeze(self) -> None:
        """Stop all its processes where they are, so that they cost nothing."""
        self._drop_connection()
        self._tell(signal.SIGSTOP, process_tree(self.process.pid))

    def thaw(self) -> None:
        """Let all its processes go on, children before their parents."""
        self._tell(signal.SIGCONT, reversed(process_tree(self.process.pid)))

    def _tell(self, number: int, members: Iterable[int]) -> None:
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def stop(self) -> None:
        """End the server and all its children, and wait for them."""
        self._drop_connection()
        members = process_tree(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self._tell(signal.SIGKILL, members[1:])
        if self.log is not None:
            self.log.close()

    def disk_bytes(self) -> int:
        """Return the bytes of the files in its home, artifacts left out."""
        total = 0
        for path in self.home.rglob("*"):
            inside = path.relative_to(self.home).parts
            if path.is_file() and inside[0] not in ("artifacts", "server.log", "reserve"):
                total += path.stat().st_size
        return total


def _command(name: str, home: Path, port: int) -> list[str]:
    if name == "mlflow":
        return [
            str(ENVS / "mlflow3/bin/mlflow"),
            "server",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--backend-store-uri",
            f"sqlite:///{home}/mlflow.db",
            "--artifacts-destination",
            str(home / "artifacts"),
        ]
    if name == "fasttrackml":
        return [
            str(ENVS / "fasttrackml/bin/fml"),
            "server",
            "-a",
            f"127.0.0.1:{port}",
            "-d",
            f"sqlite://{home}/fasttrackml.db",
            "-l",
            "error",
            "--default-artifact-root",
            str(home / "artifacts"),
        ]
    if name == "trackyard":
        return [
            sys.executable,
            "-m",
            "trackyard.cli.main",
            "up",
            "--home",
            str(home),
            "--port",
            str(port),
        ]
    raise BenchError(f"no such server: {name}; choose from {', '.join(PEERS)}")


def start(name: str, folder: Path, *, wait: float = 120.0) -> Server:
    """Start a server on an empty or existing home and wait until it answers."""
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = _command(name, home, port)
    if not Path(command[0]).exists():
        raise BenchError(f"{command[0]} is missing; run tools/client_envs.py first")
    environment = {
        **os.environ,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "PYTHONPATH": str(ROOT / "src"),
    }
    log = (home / "server.log").open("ab")
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    server = Server(name, port, home, process, 0.0, log=log)
    while True:
        if process.poll() is not None:
            tail = (home / "server.log").read_text(errors="replace")[-600:]
            raise BenchError(f"{name} ended with {process.returncode} at start: {tail}")
        if time.perf_counter() - began > wait:
            server.stop()
            raise BenchError(f"{name} was not ready after {wait:.0f} s")
        try:
            status, _ = server.request("GET", "/health")
        except OSError:
            status = 0
        if status == 200:
            break
        time.sleep(0.02)
    server.ready_seconds = time.perf_counter() - began
    if name == "trackyard":
        server.token = (home / "token").read_text().strip()
    server.version = _version(server)
    return server


def _version(server: Server) -> str:
    if server.name == "fasttrackml":
        path = ENVS / "fasttrackml/lib"
        found = next(path.glob("python*/site-packages/[Ff]ast[Tt]rack[Mm][Ll]-*.dist-info"), None)
        return found.name.split("-")[1].removesuffix(".dist") if found else "?"
    if server.name == "trackyard":
        return str(json.loads(server.request("GET", "/ready")[1])["version"])
    status, raw = server.request("GET", "/version")
    return raw.decode().strip().strip('"')[:40] if status == 200 else "?"


def discard(folder: Path) -> None:
    """Remove a folder of server homes."""
    shutil.rmtree(folder, ignore_errors=True)
