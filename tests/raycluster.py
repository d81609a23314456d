"""A real Ray cluster for tests: a head that takes no work and two workers with one GPU each.

One cluster serves a whole session (`ray_cluster`), since a start costs twenty seconds of CPU
time. Each test finds both workers in it, whatever became of them in the one before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.spreading import CLUSTER_UNIT, unit_of
from trackyard.cli.fleet.cluster_local import LocalCluster, NodeProcess, end, lives

ROOT = Path(__file__).resolve().parent.parent
ENVS = Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")
#: has Ray Train and Tune on its nodes as well, so that one cluster serves every suite
ENVIRONMENT = "raytrain"
WORKERS = ("worker-1", "worker-2")
#: a frozen node is given up after a quarter of a minute, not a whole one, and what Ray's many
#: processes import is compiled once, whatever the tests' own environment says
QUICKER = {
    "PYTHONDONTWRITEBYTECODE": "",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
}
LET_GO = """
import sys, ray
from ray.util import get_placement_group, remove_placement_group
ray.init(address=sys.argv[1], namespace="trackyard", log_to_driver=False)
for name in sys.argv[2:]:
    remove_placement_group(get_placement_group(name))
"""


class RayCluster:
    """A head and workers on this machine, with what tests do to them."""

    def __init__(self, environment: str = ENVIRONMENT) -> None:
        self.bin = ENVS / environment / "bin"
        assert (self.bin / "ray").exists(), f"run tools/client_envs.py {environment}"
        #: a home folder, as `yard cluster --home` takes it
        self.folder = Path(tempfile.mkdtemp(prefix="yard-cluster-"))
        ray = str(self.bin / "ray")
        self.local = LocalCluster(self.folder / "cluster", ray=ray, settings=QUICKER)

    @property
    def address(self) -> str:
        """The head's job API."""
        return self.local.address

    @property
    def python(self) -> str:
        """The Python that the nodes' jobs find, with ray in it."""
        return str(self.bin / "python")

    def start(self, workers: int = 2, *, gpus: int = 1, cpus: float = 4) -> None:
        self.local.start(workers=workers, gpus=gpus, cpus=cpus)

    def stop(self) -> None:
        """End it; once is enough."""
        if not self.folder.exists():
            return
        # Nothing in it is needed any more, so nobody waits for farewells.
        for node in self.local.nodes:
            if lives(node):
                _kill_tree(node.pid)
        self.local.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def node(self, name: str) -> NodeProcess:
        return next(node for node in self.local.nodes if node.name == name)

    def add_node(self, name: str, *, gpus: int = 1, cpus: float = 4) -> None:
        """Start a node, or one that was killed again, and wait until it has joined."""
        self.local.add_worker(name, gpus=gpus, cpus=cpus)

    def restore(self) -> None:
        """Start again those of the two workers that are gone, and end what others added."""
        for node in self.local.nodes:
            if node.name not in ("head", *WORKERS) and lives(node):
                end(node)
        for name in WORKERS:
            if not lives(self.node(name)):
                self.add_node(name)

    def clear(self) -> None:
        """Stop what others left running, so that one failed test fails alone."""
        with httpx.Client(base_url=self.address, timeout=180) as ray:
            deadline = time.monotonic() + 180
            while left := [one for one in ray.get("/api/jobs/").json() if _runs(one)]:
                assert time.monotonic() < deadline, f"these do not end: {left}"
                for one in left:
                    ray.post(f"/api/jobs/{one['submission_id']}/stop")
                time.sleep(0.5)
            rows = ray.get("/api/v0/placement_groups?detail=1&limit=10000").json()
        names = [
            row["name"]
            for row in rows["data"]["result"]["result"]
            if row["state"] != "REMOVED" and row["name"].startswith("lease-")
        ]
        if names:
            # What a lease's keeper held outlives it.
            line = [self.python, "-c", LET_GO, self.local.gcs, *names]
            subprocess.run(line, check=True, capture_output=True, timeout=180)

    def raylet(self, name: str) -> int:
        """The pid of a node's daemon."""
        for process in psutil.Process(self.node(name).pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.name() == "raylet":
                    return process.pid
        raise LookupError(f"{name} has no raylet")

    def kill_node(self, name: str) -> None:
        """Kill a node's daemon as a crash does; what it leaves behind is not ours to clean."""
        node = self.node(name)
        os.kill(self.raylet(name), signal.SIGKILL)
        with contextlib.suppress(psutil.Error):
            psutil.Process(node.pid).wait(timeout=180)
        end(node)

    def end_node(self, name: str) -> None:
        """Have a node leave in an orderly way."""
        end(self.node(name))

    def kill_head(self) -> None:
        """Kill the head and all its processes at once."""
        _kill_tree(self.node("head").pid)

    def restart_head(self) -> None:
        """Kill the head, start another at the same address, and have the workers join that."""
        port = int(self.local.gcs.rpartition(":")[2])
        dashboard = int(self.address.rpartition(":")[2])
        self.kill_head()
        for name in WORKERS:
            end(self.node(name))
        self.local.start_head(port=port, dashboard=dashboard)
        for name in WORKERS:
            self.add_node(name)


def _runs(job: dict[str, Any]) -> bool:
    return bool(job["submission_id"]) and job["status"] in ("PENDING", "RUNNING")


def _kill_tree(pid: int) -> None:
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                process.kill()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


@pytest.fixture(autouse=True)
def _whole_cluster(request: pytest.FixtureRequest) -> None:
    """Give every test that uses the cluster the cluster it expects."""
    if "ray_cluster" in request.fixturenames:
        request.getfixturevalue("ray_cluster").restore()


#: The session's cluster while it lives.
_running: list[RayCluster] = []


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """One cluster for the whole session."""
    cluster = RayCluster()
    try:
        cluster.start()
        _running.append(cluster)
        yield cluster
    finally:
        cluster.stop()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the cluster with the last test that uses it: idle, it takes a tenth of the machine."""
    if unit_of(item.nodeid) != CLUSTER_UNIT:
        return
    if nextitem is not None and unit_of(nextitem.nodeid) != CLUSTER_UNIT:
        while _running:
            _running.pop().stop()


@pytest.fixture(scope="module")
def clear_cluster(ray_cluster: RayCluster) -> RayCluster:
    """The cluster with nothing on it that a module before left."""
    ray_cluster.clear()
    return ray_cluster
