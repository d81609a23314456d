"""A Ray cluster on this machine: a head and workers as processes of their own, for trying out.

Owns starting them on free ports, finding them again and ending them, and nothing else of Ray that
may run here: `ray stop` would end all. Runs the `ray` command; never imports it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError

START_SECONDS = 180.0
START_TRIES = 5
STOP_SECONDS = 15.0
#: the least that Ray accepts is 75 MB; jobs under test keep little there
STORE_BYTES = 100 * 1024**2
NAME_LABEL = "yard.name"
INSTALL = "pip install 'trackyard[ray]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcess:
    """One `ray start --block` that was started here."""

    name: str
    pid: int
    #: when the kernel started it, so that no other process is taken for it
    started: int
    cpus: float
    gpus: int


def find_ray() -> str:
    """Return the `ray` command beside this Python or on the PATH."""
    beside = Path(sys.executable).parent / "ray"
    found = str(beside) if beside.is_file() else shutil.which("ray")
    if not found:
        raise SetupError("Ray is not installed here", hint=INSTALL)
    return found


class LocalCluster:
    """The cluster whose facts lie in `folder`."""

    def __init__(
        self, folder: Path, *, ray: str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        #: variables of Ray's own for every node
        self._settings = dict(settings or {})
        self._file = folder / "cluster.json"
        self._ray = ray
        self._facts: dict[str, Any] = _read(self._file)

    @property
    def address(self) -> str:
        """Return the address of the head's job API."""
        return str(self._facts.get("address", ""))

    @property
    def gcs(self) -> str:
        """Return what nodes join by."""
        return str(self._facts.get("gcs", ""))

    @property
    def nodes(self) -> list[NodeProcess]:
        """Return the processes that were started, dead ones included."""
        return [NodeProcess(**one) for one in self._facts.get("nodes", ())]

    def is_up(self) -> bool:
        """Tell whether the head's process lives."""
        return self._lives("head")

    def start(self, *, workers: int, gpus: int, cpus: float) -> None:
        """Start a head that takes no work, and workers; wait until all have joined."""
        if self.is_up():
            raise SetupError(
                f"a cluster runs already at {self.address}", hint="end it with `yard cluster stop`"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        self.start_head()
        for number in range(1, workers + 1):
            self.add_worker(f"worker-{number}", cpus=cpus, gpus=gpus)

    def start_head(self, *, port: int | None = None, dashboard: int | None = None) -> None:
        """Start the head and wait until it has a node in its own list."""
        port, dashboard = port or free_port(), dashboard or free_port()
        line = ["--head", f"--port={port}"]
        line += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
        line += [f"--ray-client-server-port={free_port()}", "--disable-usage-stats"]
        self._facts["address"] = f"http://127.0.0.1:{dashboard}"
        self._facts["gcs"] = f"127.0.0.1:{port}"
        self._start("head", line, cpus=0, gpus=0, is_there=lambda: bool(self._alive()))

    def add_worker(self, name: str, *, cpus: float, gpus: int) -> None:
        """Start a worker and wait until it has joined.

        One at a time: two that start at once on one machine get in each other's way.
        """
        line = [f"--address={self.gcs}", f"--labels={NAME_LABEL}={name}"]
        self._start(name, line, cpus=cpus, gpus=gpus, is_there=lambda: name in self.joined())

    def _start(
        self,
        name: str,
        line: Sequence[str],
        *,
        cpus: float,
        gpus: int,
        is_there: Callable[[], bool],
    ) -> None:
        """Start a node and wait for it.

        On a busy machine Ray itself gives up at times, so it is tried again.
        """
        for left in reversed(range(START_TRIES)):
            home = node_folder()
            node = self._spawn(name, [*line, f"--temp-dir={home}"], cpus=cpus, gpus=gpus)
            others = [one for one in self._facts.get("nodes", ()) if one["name"] != name]
            # The head is named first and ended last.
            self._facts["nodes"] = sorted(
                [*others, asdict(node)],
                key=lambda one: (one["name"] != "head", len(one["name"]), one["name"]),
            )
            self._facts["temp"] = [*self._facts.get("temp", ()), home]
            self._write()
            try:
                self._wait(is_there, node)
            except SetupError:
                if not end(node):
                    # Nobody has waited for it yet, so its group is still its own.
                    _kill_group(node)
                if not left or (name != "head" and not self.is_up()):
                    raise
            else:
                return

    def joined(self) -> dict[str, str]:
        """Return Ray's id of each live node that has a name."""
        return {
            row["labels"][NAME_LABEL]: row["node_id"]
            for row in self._alive()
            if NAME_LABEL in (row.get("labels") or {})
        }

    def _alive(self) -> list[dict[str, Any]]:
        try:
            rows = _get(f"{self.address}/api/v0/nodes?detail=1&limit=1000")
            listed = rows["data"]["result"]["result"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [row for row in listed if row.get("state") == "ALIVE"]

    def stop(self) -> int:
        """End every process that was started here; return how many there were."""
        ended = [node for node in reversed(self.nodes) if end(node)]
        for home in self._facts.get("temp", ()):
            shutil.rmtree(home, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()
        self._facts = {}
        return len(ended)

    def _spawn(self, name: str, line: Sequence[str], *, cpus: float, gpus: int) -> NodeProcess:
        ray = self._ray or find_ray()
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [ray, "start", "--block", *line]
        command += [f"--num-cpus={cpus:g}", f"--num-gpus={gpus}"]
        command += [f"--object-store-memory={STORE_BYTES}", *_own_ports()]
        with (self._folder / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A token that lies about would close a cluster that is only for this machine.
                env={
                    **node_environment(ray),
                    "RAY_AUTH_MODE": "disabled",
                    **self._settings,
                },
                start_new_session=True,
            )
        return NodeProcess(
            name=name, pid=process.pid, started=_start_ticks(process.pid), cpus=cpus, gpus=gpus
        )

    def _wait(self, is_there: Callable[[], bool], node: NodeProcess) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_there():
            dead = next((one for one in ("head", node.name) if not self._lives(one)), None)
            if dead or time.monotonic() > deadline:
                said = _last_lines(self._folder / f"{dead or node.name}.log")
                raise SetupError(
                    f"{dead or node.name} of the cluster did not start; Ray said: {said}"
                )
            time.sleep(0.2)

    def _lives(self, name: str) -> bool:
        return any(node.name == name and lives(node) for node in self.nodes)

    def _write(self) -> None:
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(self._facts, indent=2))
        beside.replace(self._file)


def node_folder() -> str:
    """Make a temporary folder for one node alone.

    Nodes of one machine that share one replace each other's copies of a job's packages, and with
    them the folder that its driver and its tasks run in. The name is short: the kernel limits
    that of a socket below it.
    """
    return tempfile.mkdtemp(prefix="yard-ray-")


def node_environment(ray: str, *, keep: str = "RAY_AUTH_") -> dict[str, str]:
    """Return the environment of a node: this Ray's programs first, no usage reports.

    Of Ray's own variables those that begin with `keep` stay; an address of some other cluster
    must not.
    """
    values = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("YARD_", "RAY_")) or name.startswith(keep)
    }
    values["PATH"] = os.pathsep.join([str(Path(ray).parent), values.get("PATH", os.defpath)])
    values["RAY_USAGE_STATS_ENABLED"] = "0"
    return values


def lives(node: NodeProcess) -> bool:
    """Tell whether this very process lives."""
    return node.started != 0 and _start_ticks(node.pid) == node.started


def end(node: NodeProcess) -> bool:
    """End a node's processes, politely at first; tell whether it lived."""
    if not lives(node):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(node.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while lives(node) and time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(node.pid, os.WNOHANG)
        time.sleep(0.05)
    # Its session is its own, so nobody else is hit.
    _kill_group(node)
    return True


def _kill_group(node: NodeProcess) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(node.pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(node.pid, os.WNOHANG)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _own_ports() -> list[str]:
    names = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port")
    ports = [f"--{name}={free_port()}" for name in names]
    return [*ports, "--min-worker-port=0", "--max-worker-port=0"]


def _start_ticks(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = text[text.rfind(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own head
        return json.load(answer)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _last_lines(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "nothing"
    return " | ".join(line.strip() for line in lines[-4:] if line.strip())[:800]
