"""The lab's end (J8): the cluster is stopped under a job; no process stays, all data does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.acceptance.jobs.yard import JobServer, eventually
from tests.acceptance.ray.test_faults import COUNTING, carriers
from tests.raycluster import ENVIRONMENT, ENVS
from trackyard.cli.fleet.cluster_local import LocalCluster

#: It starts a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone


def cluster(home: Path, *words: str) -> str:
    """Run `yard cluster` with the newest Ray on the path."""
    env = {**os.environ, "PATH": f"{ENVS / ENVIRONMENT / 'bin'}:{os.environ['PATH']}"}
    line = [sys.executable, "-m", "trackyard.cli.main", "cluster", *words, "--home", str(home)]
    done = subprocess.run(line, env=env, text=True, capture_output=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def processes_of(home: Path) -> list[psutil.Process]:
    """All processes of the cluster's nodes."""
    found = []
    for node in LocalCluster(home / "cluster", ray="ray").nodes:
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(node.pid)
            found += [root, *root.children(recursive=True)]
    return found


def test_a_stopped_cluster_leaves_no_process_and_keeps_what_jobs_saved(tmp_path: Path) -> None:
    ray_home, folder = tmp_path / "ray", tmp_path / "nodes"
    shape = ("--workers", "1", "--gpus-per-worker", "1", "--cpus-per-worker", "2")
    facts = json.loads(cluster(ray_home, "start", *shape, "--json"))
    server = JobServer(
        tmp_path / "home", options=("--engine", facts["engine"], "--ray-folder", str(folder))
    )
    try:
        server.start()
        word = f"600.{os.getpid()}8"
        job = server.submit(sys.executable, "-c", COUNTING, word, gpus=1)
        server.wait(job, "running", patience=150)
        eventually(lambda: server.detail(job)["checkpoints"], patience=150)
        eventually(lambda: "starts at 0" in server.logs(job), patience=150)
        running = processes_of(ray_home)
        assert len(running) > 5
    finally:
        cluster(ray_home, "stop")
    eventually(lambda: not any(one.is_running() for one in running))
    eventually(lambda: not carriers(word))
    server.stop()
    # Started again without any cluster, the server still has the job, its log and what it saved.
    after = JobServer(tmp_path / "home", options=("--gpus", "0"), token=server.token)
    after.start()
    try:
        kept = after.detail(job)
        assert kept["checkpoints"]
        saved = max(kept["checkpoints"], key=lambda one: one["step"])
        assert list(folder.glob(f"checkpoints/{job}/**/count")), saved
        assert "starts at 0" in after.logs(job, attempt=1)
    finally:
        after.stop()
