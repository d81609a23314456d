"""The stock command through the door onto a real Ray cluster: what it brings arrives there."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.jobs.yard import JobServer
from tests.raycluster import RayCluster

_MAIN = """\
import os, sys, time
import near, sidecar
import ray
print("brought", os.environ["FLAVOUR"], near.WORD, sidecar.WORD, flush=True)
print("gpus", os.environ.get("CUDA_VISIBLE_DEVICES"), "run", bool(os.environ["MLFLOW_RUN_ID"]))

@ray.remote(num_cpus=0)
def inside():
    import near, sidecar
    return os.environ["FLAVOUR"], near.WORD, sidecar.WORD

ray.init()
print("in a task", *ray.get(inside.remote()), flush=True)
"""


@pytest.fixture(scope="module")
def yard(
    clear_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobServer]:
    """A server whose engine is the cluster."""
    home = tmp_path_factory.mktemp("over-ray") / "home"
    server = JobServer(home, options=("--engine", f"ray={clear_cluster.address}"))
    server.start()
    yield server
    server.stop()


def ray(
    yard: JobServer, cluster: RayCluster, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run the cluster's own generation of the command against the server."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "RAY_ADDRESS": yard.url,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": yard.token,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return subprocess.run(
        [cluster.bin / "ray", *words],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=400,
        check=False,
    )


def test_all_that_a_job_brings_reaches_its_driver_and_its_tasks(
    yard: JobServer, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    """Folder, module and variables are there in the driver and in what it starts."""
    work = tmp_path / "work"
    (work / "modules" / "sidecar").mkdir(parents=True)
    (work / "modules" / "sidecar" / "__init__.py").write_text("WORD = 'beside'\n")
    shutil.move(work / "modules", tmp_path / "modules")
    (work / "main.py").write_text(_MAIN)
    (work / "near.py").write_text("WORD = 'near'\n")
    environment = {
        "py_modules": [str(tmp_path / "modules" / "sidecar")],
        "env_vars": {"FLAVOUR": "plum"},
    }
    (tmp_path / "runtime.json").write_text(json.dumps(environment))
    done = ray(
        yard,
        ray_cluster,
        tmp_path,
        *("job", "submit", "--working-dir", "work", "--runtime-env", "runtime.json"),
        *("--entrypoint-num-gpus", "1", "--submission-id", "brought", "--", "python", "main.py"),
    )
    assert done.returncode == 0, done.stdout
    assert "brought plum near beside" in done.stdout, done.stdout
    assert "gpus 0 run True" in done.stdout
    assert "in a task plum near beside" in done.stdout
    shown = yard.get("/api/jobs/brought")
    assert (shown["status"], shown["driver_exit_code"]) == ("SUCCEEDED", 0)
    assert shown["entrypoint"] == "python main.py"


def test_the_cluster_is_seen_through_the_door(
    yard: JobServer, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    """Version and nodes are the cluster's own, and a resource nobody declares is refused."""
    version = yard.get("/api/version")["ray_version"]
    assert version == "2.60.0"
    nodes = ray(yard, ray_cluster, tmp_path, "list", "nodes", "--format", "json")
    states = {row["node_name"]: row["state"] for row in json.loads(nodes.stdout)}
    assert (states["worker-1"], states["worker-2"]) == ("ALIVE", "ALIVE")
    body = {"entrypoint": "true", "entrypoint_resources": {"unicorn": 1}}
    refused = yard.ask("POST", "/api/jobs/", json=body)
    assert (refused.status_code, "no node declares" in refused.text) == (400, True)
