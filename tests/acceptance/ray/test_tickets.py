"""What a real cluster shows of an attempt: a ticket that was used, and nothing else of use."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.acceptance.jobs.yard import JobServer, eventually
from tests.raycluster import RayCluster

SECRET = "s3cret-of-the-team-0451"
#: what a command can say of its own credential without printing it
TELLING = """
import hashlib, os, sys
print("token", hashlib.sha256(os.environ["YARD_TOKEN"].encode()).hexdigest()[:16])
print("secret", len(os.environ["TEAM_KEY"]), "spec" , "YARD_SPEC" in os.environ, flush=True)
"""


@pytest.fixture(scope="module")
def server(
    clear_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobServer]:
    folder = tmp_path_factory.mktemp("tickets")
    options = ("--engine", f"ray={clear_cluster.address}", "--ray-folder", str(folder / "nodes"))
    made = JobServer(folder / "home", options=options)
    made.start()
    eventually(lambda: len(made.get("/api/v1/nodes")["nodes"]) >= 2, patience=150)
    answer = made.ask("PUT", "/api/v1/secrets/TEAM_KEY", json={"value": SECRET})
    assert answer.status_code == 200, answer.text
    yield made
    made.stop()


def shown(cluster: RayCluster, attempt: str) -> dict[str, str]:
    """Return what anybody who reaches the dashboard reads of an attempt."""
    answer = httpx.get(f"{cluster.address}/api/jobs/{attempt}", timeout=180)
    assert answer.status_code == 200, answer.text
    assert SECRET not in httpx.get(f"{cluster.address}/api/jobs/", timeout=180).text
    told: dict[str, str] = json.loads(answer.json()["runtime_env"]["env_vars"]["YARD_SPEC"])
    return told


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_cluster_shows_a_ticket_that_is_good_for_nothing(
    server: JobServer, clear_cluster: RayCluster, nodes: int
) -> None:
    job = server.submit(
        sys.executable, "-c", TELLING, gpus=1, nodes=nodes, secrets=["TEAM_KEY"], name="telling"
    )
    server.wait(job, "succeeded", patience=300)
    log = server.logs(job)
    assert f"secret {len(SECRET)} spec False" in log
    attempt = f"{job}-a1"
    told = shown(clear_cluster, attempt)
    assert set(told) == {"url", "attempt_id", "epoch", "ticket", "sealed"}
    headers = {"authorization": f"Bearer {told['ticket']}", "x-yard-epoch": str(told["epoch"])}
    base = f"{server.url}/api/v1/attempts/{attempt}"
    for path in ("/heartbeat", "/samples", "/exit", "/key"):
        answer = httpx.post(base + path, json={"claim": "thief"}, headers=headers, timeout=180)
        assert answer.status_code in (401, 403, 409), (path, answer.text)


def test_a_data_set_is_brought_to_every_node(server: JobServer) -> None:
    """Runners on a real cluster fetch with their own credential before the command starts."""
    content = b"from the data set"
    sha256 = hashlib.sha256(content).hexdigest()
    pack = json.dumps([[sha256, len(content)]]).encode() + b"\n" + content
    assert server.ask("POST", "/api/v1/data/contents", content=pack).status_code == 200
    line = json.dumps(["sub/one.txt", len(content), sha256]).encode() + b"\n"
    assert server.ask("POST", "/api/v1/data/small/versions", content=line).status_code == 200
    script = "cat $YARD_DATA_SMALL/sub/one.txt"
    job = server.submit("sh", "-c", script, nodes=2, data=["small@v1"])
    server.wait(job, "succeeded", patience=300)
    log = server.logs(job)
    assert "from the data set" in log
    assert "data set small@v1" in log
    held = server.get("/api/v1/data/small/versions/v1/users")["nodes"]
    assert held


def test_whoever_reads_the_ticket_of_a_running_job_is_refused_and_noticed(
    server: JobServer, clear_cluster: RayCluster
) -> None:
    """The job goes on, and there is an event."""
    job = server.submit(sys.executable, "-c", "import time; time.sleep(600)", gpus=1)
    server.wait(job, "running", patience=300)
    told = shown(clear_cluster, f"{job}-a1")
    headers = {"authorization": f"Bearer {told['ticket']}", "x-yard-epoch": str(told["epoch"])}
    path = f"{server.url}/api/v1/attempts/{job}-a1/key"
    answer = httpx.post(path, json={"claim": "thief"}, headers=headers, timeout=180)
    assert answer.status_code == 409, answer.text
    kinds = [one["kind"] for one in server.get("/api/v1/events", subject_id=job)["events"]]
    assert "attempt.ticket_refused" in kinds
    assert server.detail(job)["job"]["state"] == "running", "the rightful one goes on"
    server.post(f"/api/v1/jobs/{job}/stop", grace_seconds=0)
    server.wait(job, "stopped", patience=120)
