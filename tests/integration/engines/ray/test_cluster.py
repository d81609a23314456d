"""`yard cluster` on a real cluster: what it shows, and joining it as a node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import psutil

from tests.raycluster import WORKERS, RayCluster

YARD = (sys.executable, "-m", "trackyard.cli.main", "cluster")


def test_the_status_tells_of_every_node_and_how_to_use_the_cluster(
    ray_cluster: RayCluster,
) -> None:
    done = subprocess.run(
        [*YARD, "status", "--home", str(ray_cluster.folder), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(done.stdout)
    assert facts["engine"] == f"ray={ray_cluster.address}"
    # Nodes that others had join and leave may still be listed, as down.
    ready = [node for node in facts["nodes"] if node["state"] == "ready"]
    assert [(node["name"], node["gpus"]) for node in ready] == [
        ("head", 0),
        ("worker-1", 1),
        ("worker-2", 1),
    ]


def test_what_tasks_print_is_told_once(ray_cluster: RayCluster) -> None:
    """A log monitor for each folder of logs: a further one would repeat its lines."""
    folders = []
    for name in ("head", *WORKERS):
        for process in psutil.Process(ray_cluster.node(name).pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if any(word.endswith("log_monitor.py") for word in words):
                    folders += [word for word in words if word.startswith("--logs-dir=")]
    assert len(folders) == len(set(folders)) == 3, folders


def test_a_machine_joins_under_its_name_and_leaves_on_ctrl_c(ray_cluster: RayCluster) -> None:
    environment = {**os.environ, "PATH": f"{ray_cluster.bin}:{os.environ['PATH']}"}
    words = [*YARD, "join", ray_cluster.local.gcs, "--name", "guest", "--gpus", "0", "--cpus", "1"]
    with subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as node:
        try:
            until = time.monotonic() + 180
            while "guest" not in ray_cluster.local.joined():
                assert node.poll() is None
                assert time.monotonic() < until
                time.sleep(0.3)
        finally:
            # As a terminal does it: to the whole foreground group.
            os.killpg(node.pid, signal.SIGINT)
        assert node.wait(timeout=120) == 0
    until = time.monotonic() + 180
    while "guest" in ray_cluster.local.joined():
        assert time.monotonic() < until
        time.sleep(0.3)
