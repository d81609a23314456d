"""Faults of a real cluster and of the server in front of it: each ends in the truth."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.jobs.yard import JobServer, eventually
from tests.acceptance.ray.relay import Relay
from tests.raycluster import RayCluster

PYTHON = sys.executable
#: counts and saves every fifth until it is let go, and leaves a child in its own session
COUNTING = """
import os, subprocess, sys, time
from pathlib import Path
from trackyard import checkpoint
subprocess.Popen(["setsid", "sleep", sys.argv[1]])
found = checkpoint.latest()
count = int((found.path / "count").read_text()) if found else 0
print("starts at", count, flush=True)
go, part = Path(os.environ["YARD_CHECKPOINT_DIR"]) / "go", Path("part")
part.mkdir(exist_ok=True)
while not go.exists():
    count += 1
    checkpoint.progress(count)
    if count % 5 == 0:
        (part / "count").write_text(str(count))
        checkpoint.save(part, step=count)
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def relay(clear_cluster: RayCluster) -> Iterator[Relay]:
    relay = Relay(clear_cluster.address)
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def yard(
    ray_cluster: RayCluster, relay: Relay, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobServer]:
    """A server whose engine is the cluster, seen through the relay."""
    folder = tmp_path_factory.mktemp("faults")
    options = ("--engine", f"ray={relay.address}", "--ray-folder", str(folder / "nodes"))
    server = JobServer(folder / "home", options=options)
    server.start()
    wait_for_nodes(server, 2)
    yield server
    server.stop()


def wait_for_nodes(server: JobServer, count: int) -> None:
    def ready() -> bool:
        nodes = server.get("/api/v1/nodes")["nodes"]
        return sum(node["state"] == "ready" for node in nodes) >= count

    eventually(ready, patience=150)


def start_counting(server: JobServer, word: str) -> tuple[str, set[int]]:
    """Start a job that counts; return it and its processes."""
    job = server.submit(PYTHON, "-c", COUNTING, word, gpus=1)
    server.wait(job, "running", patience=150)
    eventually(lambda: len(carriers(word)) >= 2 and "starts at 0" in server.logs(job))
    eventually(lambda: server.detail(job)["checkpoints"])
    return job, set(carriers(word))


def let_go(server: JobServer, job: str) -> list[int]:
    """Let a counting job end; return where each of its attempts had started to count."""
    (server.home.parent / "nodes" / "checkpoints" / job / "go").touch()
    server.wait(job, "succeeded", patience=180)
    return [int(line.split()[-1]) for line in server.logs(job).splitlines() if "starts at" in line]


def follow(
    server: JobServer, cluster: RayCluster, job: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Follow a job by the stock command until its first words came; return what it writes to."""
    heard = server.home.parent / f"heard-{job}"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(server.home.parent),
        "RAY_ADDRESS": server.url,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": server.token,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }
    line = [cluster.bin / "ray", "job", "logs", "--follow", job]
    with heard.open("wb") as sink:
        client = subprocess.Popen(line, env=env, stdout=sink, stderr=sink)
    eventually(lambda: "starts at" in heard.read_text(), patience=150)
    return client, heard


def carriers(word: str) -> list[int]:
    """Processes whose command line ends in this word."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [""])[-1] == word:
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
    return found


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_server_killed_around_the_submission_starts_the_job_once(
    yard: JobServer, relay: Relay, when: str
) -> None:
    """Whether Ray got the job or not, the restarted server ends with one attempt that ran once."""
    relay.swallowed.clear()
    relay.swallow = when
    job = yard.submit(PYTHON, "-c", "print('ran once')", gpus=1)
    assert relay.swallowed.wait(150)
    yard.kill()
    yard.start()
    detail = yard.wait(job, "succeeded", patience=180)
    assert [one["number"] for one in detail["attempts"]] == [1]
    assert yard.logs(job).count("ran once") == 1


def test_a_killed_raylet_costs_few_steps_and_leaves_no_process(
    yard: JobServer, ray_cluster: RayCluster
) -> None:
    word = f"600.{os.getpid()}1"
    job, first = start_counting(yard, word)
    node = yard.detail(job)["attempts"][0]["nodes"][0]
    saved = max(one["step"] for one in yard.detail(job)["checkpoints"])
    ray_cluster.kill_node(node)
    eventually(lambda: yard.detail(job)["job"]["attempt"] == 2, patience=150)
    assert not first & set(carriers(word))
    yard.wait(job, "running", patience=150)
    starts = let_go(yard, job)
    lost, done = yard.detail(job)["attempts"]
    assert lost["nodes"] == [node]
    assert (lost["cause"], lost["state"]) == ("node_lost", "lost")
    assert done["nodes"] != [node]
    assert starts[-1] == done["resume_step"] > 0
    assert starts[-1] >= saved
    assert lost["lost_steps"] == max(0, lost["step"] - done["resume_step"])
    ray_cluster.restore()
    wait_for_nodes(yard, 2)


def test_lost_answers_of_the_head_cost_no_attempt_and_start_nothing_twice(
    yard: JobServer, relay: Relay
) -> None:
    """Ray hears the server and not the reverse: what runs goes on, what waits starts once."""
    word = f"600.{os.getpid()}3"
    job, _ = start_counting(yard, word)
    relay.is_deaf = True
    try:
        before = relay.calls.total()
        other = yard.submit(PYTHON, "-c", "print('ran once')", gpus=1)
        eventually(lambda: relay.calls.total() > before + 3)
        step = yard.detail(job)["job"]["step"]
        eventually(lambda: yard.detail(job)["job"]["step"] > step + 10)
    finally:
        relay.is_deaf = False
    detail = yard.wait(other, "succeeded", patience=180)
    assert [one["number"] for one in detail["attempts"]] == [1]
    assert yard.logs(other).count("ran once") == 1
    assert let_go(yard, job) == [0]


def test_two_hundred_queued_jobs_cost_one_list_call_a_tick(yard: JobServer, relay: Relay) -> None:
    holders = [yard.submit("sleep", "600", gpus=1) for _ in range(2)]
    for job in holders:
        yard.wait(job, "running", patience=150)
    queued = yard.submit("true", gpus=1, array="0-199")
    eventually(lambda: yard.get("/api/v1/jobs", limit=1)["counts"]["queued"] == 200)
    array = queued.rpartition("-")[0]
    before, began = relay.calls.copy(), time.monotonic()
    time.sleep(4)
    took, made = time.monotonic() - began, relay.calls - before
    for job in [array, *holders]:
        yard.post(f"/api/v1/jobs/{job}/stop", grace_seconds=0)
    for job in holders:
        yard.wait(job, "stopped")
    # What ended before is forgotten one by one meanwhile; nothing is asked of what waits.
    assert not [key for key in made if array in key]
    assert made["GET /api/jobs/"] <= 1.2 * took + 2


def test_a_frozen_raylet_ends_what_it_hides_before_the_job_goes_on_elsewhere(
    yard: JobServer, ray_cluster: RayCluster
) -> None:
    """Ray calls the node dead; the runner there lives, is told, and is gone before the next."""
    word = f"600.{os.getpid()}2"
    job, first = start_counting(yard, word)
    node = yard.detail(job)["attempts"][0]["nodes"][0]
    raylet = ray_cluster.raylet(node)
    os.kill(raylet, signal.SIGSTOP)
    try:
        eventually(lambda: yard.detail(job)["job"]["attempt"] == 2, patience=180)
        assert not first & set(carriers(word))
        assert yard.detail(job)["attempts"][0]["cause"] == "node_lost"
    finally:
        os.kill(raylet, signal.SIGCONT)
        ray_cluster.end_node(node)
    yard.wait(job, "running", patience=150)
    assert let_go(yard, job)[-1] > 0


def test_everything_is_still_there_after_the_head_was_started_anew(
    yard: JobServer, ray_cluster: RayCluster
) -> None:
    """The list is Trackyard's own: Ray's is empty, ours is not, and what ran runs again."""
    done = yard.submit(PYTHON, "-c", "print('before'); raise SystemExit(3)", gpus=1)
    yard.wait(done, "failed", patience=150)
    word = f"600.{os.getpid()}3"
    job, first = start_counting(yard, word)
    client, heard = follow(yard, ray_cluster, job)
    ray_cluster.restart_head()
    eventually(lambda: yard.detail(job)["job"]["attempt"] >= 2, patience=150)
    assert not first & set(carriers(word))
    yard.wait(job, "running", patience=180)
    let_go(yard, job)
    assert yard.detail(job)["attempts"][0]["cause"] == "node_lost"
    # Who followed it heard both attempts to the end.
    assert client.wait(120) == 0
    assert heard.read_text().count("starts at") >= 2, heard.read_text()
    assert "1006" not in heard.read_text()
    kept = yard.detail(done)["attempts"][0]
    assert (kept["exit_code"], kept["cause"]) == (3, "exit_code")
    assert "before" in yard.logs(done)


def test_nothing_of_these_tests_runs_on() -> None:
    words = {f"600.{os.getpid()}{number}" for number in (1, 2, 3)}
    eventually(lambda: not any(carriers(word) for word in words))
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, words)]


def _holds(path: Path, words: set[str]) -> bool:
    with contextlib.suppress(OSError):
        parts = path.read_bytes().decode(errors="replace").split("\0")
        return bool(words & set(parts)) and "pytest" not in " ".join(parts)
    return False
