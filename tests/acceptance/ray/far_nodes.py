"""Nodes that see each other over a network alone, and a script that spreads its tasks over them.

python -m tests.acceptance.ray.far_nodes FOLDER, inside namespaces of its own (unshare
--map-root-user --net --mount): the head and the server are here, each of two workers in a
namespace of its own behind a bridge. One joins by `yard cluster join`, the other by Ray's own
command, which has the nodes of a machine share one temporary folder. Ends with status 0 if driver
and tasks kept their folders, wherever the driver ran.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.acceptance.jobs.yard import JobServer
from tests.acceptance.ray.conftest import SCRIPTS
from tests.acceptance.serving import free_port
from tests.raycluster import ENVIRONMENT, ENVS, QUICKER
from trackyard.cli.fleet.cluster_local import node_folder

HERE = "10.78.0.1"
#: where each is, and by which program it joins
WORKERS = {"far-1": ("10.78.0.2", "yard"), "far-2": ("10.78.0.3", "ray")}
RAY = ENVS / ENVIRONMENT / "bin" / "ray"


@dataclass
class BridgedServer(JobServer):
    """A server that the nodes call over the bridge."""

    @property
    def url(self) -> str:
        return f"http://{HERE}:{self.port}"


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def wait_until(holds: Callable[[], object], what: str, patience: float = 240.0) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, what
        time.sleep(0.1)


def make_bridge() -> None:
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "yard", "type", "bridge")
    run("ip", "addr", "add", f"{HERE}/24", "dev", "yard")
    run("ip", "link", "set", "yard", "up")


def join_bridge(name: str, address: str) -> subprocess.Popen[bytes]:
    """Make a namespace with that address; return a process that holds it."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "900"])
    own, new = Path("/proc/self/ns/net"), Path(f"/proc/{holder.pid}/ns/net")
    wait_until(lambda: own.readlink() != new.readlink(), "no namespace")
    run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-in")
    run("ip", "link", "set", name, "master", "yard", "up")
    run("ip", "link", "set", f"{name}-in", "netns", str(holder.pid))
    inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "ip"]
    run(*inside, "addr", "add", f"{address}/24", "dev", f"{name}-in")
    run(*inside, "link", "set", f"{name}-in", "up")
    run(*inside, "link", "set", "lo", "up")
    return holder


def joining(program: str, name: str, address: str, head: str) -> list[str]:
    """Return the line by which a machine becomes a node."""
    if program == "yard":
        line = [sys.executable, "-m", "trackyard.cli.main", "cluster", "join", head]
        return [*line, "--name", name, "--gpus", "1", "--cpus", "4"]
    line = [str(RAY), "start", "--block", f"--address={head}", f"--node-ip-address={address}"]
    return [*line, "--num-gpus=1", "--num-cpus=4"]


def start_nodes(folder: Path, gcs: int, dashboard: int) -> list[subprocess.Popen[bytes]]:
    """Start a head here and a worker in each namespace, as their users do."""
    env = {**os.environ, **QUICKER, "PATH": f"{RAY.parent}:{os.environ['PATH']}"}
    line = [str(RAY), "start", "--head", "--block", "--num-cpus=0", "--num-gpus=0"]
    line += [f"--node-ip-address={HERE}", f"--port={gcs}", "--disable-usage-stats"]
    line += [f"--dashboard-host={HERE}", f"--dashboard-port={dashboard}"]
    # A short name: the kernel limits that of a socket below it.
    line += [f"--temp-dir={node_folder()}"]
    with (folder / "head.log").open("wb") as log:
        nodes = [subprocess.Popen(line, env=env, stdout=log, stderr=log)]
    api = f"http://{HERE}:{dashboard}"

    def alive() -> int:
        try:
            rows = httpx.get(f"{api}/api/v0/nodes?limit=100", timeout=180).json()
        except (httpx.TransportError, ValueError):
            return 0
        found = (rows.get("data") or {}).get("result", {}).get("result", [])
        return sum(row["state"] == "ALIVE" for row in found)

    wait_until(lambda: alive() == 1, "the head did not start")
    for count, (name, (address, program)) in enumerate(WORKERS.items(), 2):
        holder = join_bridge(name, address)
        # The bridge's own addresses are all that a node knows of the others.
        line = joining(program, name, address, f"{HERE}:{gcs}")
        inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        with (folder / f"{name}.log").open("wb") as log:
            nodes += [holder, subprocess.Popen([*inside, *line], env=env, stdout=log, stderr=log)]
        wait_until(lambda count=count: alive() == count, f"{name} did not join")
    return nodes


def submit(server: JobServer, folder: Path, name: str) -> str:
    """Submit the script by the stock command, and return its log once it has ended."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "RAY_ADDRESS": server.url,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": server.token,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    line = [str(RAY), "job", "submit", "--no-wait", "--submission-id", name]
    line += ["--working-dir", str(folder / "work"), "--", "python", "spread.py"]
    subprocess.run(line, env=env, check=True, timeout=240)
    server.wait(name, "succeeded", patience=300)
    return server.logs(name)


def main(folder: Path) -> None:
    make_bridge()
    gcs, dashboard = free_port(), free_port()
    server = BridgedServer(
        folder / "home",
        config=f'host = "{HERE}"\ntrusted_proxies = ["{HERE}", "10.78.0.2", "10.78.0.3"]\n',
        options=("--engine", f"ray=http://{HERE}:{dashboard}"),
    )
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        nodes = start_nodes(folder, gcs, dashboard)
        server.start()
        shutil.copytree(SCRIPTS, folder / "work")
        log = submit(server, folder, "first")
        assert re.search(r"parts 6\b", log), log
        assert "result True" in log, log
        # The other node has the next driver.
        where = server.detail("first")["attempts"][0]["nodes"]
        server.post(f"/api/v1/nodes/{where[0]}/drain", note="the other one's turn")
        log = submit(server, folder, "second")
        assert server.detail("second")["attempts"][0]["nodes"] != where
        assert re.search(r"parts 6\b", log), log
        assert "result True" in log, log
    finally:
        server.kill()
        for node in reversed(nodes):
            node.terminate()
        for node in nodes:
            node.wait(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("kept")
