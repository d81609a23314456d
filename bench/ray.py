"""A Ray cluster with and without Trackyard in front, side by side.

    python -m bench.ray                  # everything, about three minutes
    python -m bench.ray --only start     # submission to running
    python -m bench.ray --only burst     # twenty tiny jobs at once

Starts a real cluster of a head and two workers (from .cache/envs/raytrain) and a server in front
of it, both in throw-away folders. Rounds alternate between the two, so that what else the machine
does hits both alike. What it prints is one JSON object per measure, and a table at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.tracking.servers import free_port
from trackyard.cli.fleet.cluster_local import LocalCluster

ROOT = Path(__file__).resolve().parents[1]
ENVS = Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")
RAY = ENVS / "raytrain" / "bin" / "ray"
MEASURES = ("start", "burst")
POLL_SECONDS = 0.02
ENDED = {"SUCCEEDED", "FAILED", "STOPPED", "succeeded", "failed", "stopped"}


class Alone:
    """Jobs sent to Ray itself."""

    name = "Ray alone"

    def __init__(self, address: str) -> None:
        self._http = httpx.Client(base_url=address, timeout=60)

    def submit(self, line: str, *, cpus: float) -> str:
        """Send a job."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        body = {"entrypoint": line, "submission_id": name, "entrypoint_num_cpus": cpus}
        self._http.post("/api/jobs/", json=body).raise_for_status()
        return name

    def states(self) -> dict[str, str]:
        """Return how every job stands."""
        return {
            str(job["submission_id"]): str(job["status"])
            for job in self._http.get("/api/jobs/").json()
        }

    def state(self, job: str) -> str:
        """Return how one job stands."""
        return str(self._http.get(f"/api/jobs/{job}").json()["status"])


class Through:
    """Jobs sent to Trackyard, which runs them on Ray."""

    name = "through Trackyard"

    def __init__(self, address: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=60)

    def node_count(self) -> int:
        """Return how many nodes the server has seen."""
        return len(self._http.get("/api/v1/nodes").json()["nodes"])

    def submit(self, line: str, *, cpus: float) -> str:
        """Send a job."""
        wish = {"command": ["/bin/sh", "-c", line], "cpus": cpus, "gpus": 0}
        answer = self._http.post("/api/v1/jobs", json=wish)
        answer.raise_for_status()
        return str(answer.json()["job_ids"][0])

    def states(self) -> dict[str, str]:
        """Return how every job stands."""
        found = self._http.get("/api/v1/jobs", params={"limit": 1000}).json()["jobs"]
        return {str(job["job_id"]): str(job["state"]) for job in found}

    def state(self, job: str) -> str:
        """Return how one job stands."""
        return str(self._http.get(f"/api/v1/jobs/{job}").json()["job"]["state"])


Side = Alone | Through


def start_seconds(side: Side) -> float:
    """Seconds from the submission of one job until it runs."""
    began = time.monotonic()
    job = side.submit("sleep 0.2", cpus=1)
    while side.state(job).lower() in ("pending", "queued", "starting"):
        time.sleep(POLL_SECONDS)
    took = time.monotonic() - began
    wait(lambda: side.state(job) in ENDED)
    return took


def burst_seconds(side: Side, count: int) -> float:
    """Seconds until so many tiny jobs, sent at once, have all ended."""
    began = time.monotonic()
    jobs = {side.submit("true", cpus=0.1) for _ in range(count)}

    def done() -> bool:
        states = side.states()
        return all(states.get(job) in ENDED for job in jobs)

    wait(done, pause=0.1)
    return time.monotonic() - began


def wait(check: Callable[[], bool], pause: float = POLL_SECONDS) -> None:
    """Wait until something holds."""
    until = time.monotonic() + 300
    while not check():
        if time.monotonic() > until:
            raise SystemExit("a job did not end within five minutes")
        time.sleep(pause)


@contextmanager
def both() -> Iterator[tuple[Alone, Through]]:
    """Start a cluster and a server in front of it."""
    folder = Path(tempfile.mkdtemp(prefix="yard-bench-"))
    cluster = LocalCluster(folder / "cluster", ray=str(RAY))
    server: subprocess.Popen[bytes] | None = None
    try:
        cluster.start(workers=2, gpus=1, cpus=4)
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "trackyard.cli.main",
            "up",
            "--home",
            str(folder / "home"),
        ]
        command += ["--port", str(port), "--engine", f"ray={cluster.address}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        wait(lambda: _is_ready(f"http://127.0.0.1:{port}/ready"), pause=0.1)
        token = (folder / "home" / "token").read_text().strip()
        through = Through(f"http://127.0.0.1:{port}", token)
        wait(lambda: through.node_count() == 2, pause=0.2)
        yield Alone(cluster.address), through
    finally:
        if server is not None:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


def measure(
    name: str, sides: tuple[Alone, Through], take: Callable[[Side], float], rounds: int
) -> dict[str, Any]:
    """Take turns, and compare the medians."""
    found: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 else reversed(sides):
            found[side.name].append(round(take(side), 3))
    alone, through = (statistics.median(found[side.name]) for side in sides)
    row = {
        "measure": name,
        "alone_seconds": alone,
        "through_seconds": through,
        "ratio": round(through / alone, 3),
        "all": found,
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default=",".join(MEASURES), help=", ".join(MEASURES))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default 5)")
    parser.add_argument("--jobs", type=int, default=20, help="jobs of a burst (default 20)")
    args = parser.parse_args()
    chosen = args.only.split(",")
    rows = []
    with both() as sides:
        for side in sides:
            # The first job of a fresh head starts its job manager.
            start_seconds(side)
        if "start" in chosen:
            rows.append(measure("submission to running", sides, start_seconds, args.rounds))
        if "burst" in chosen:
            rows.append(
                measure(
                    f"{args.jobs} tiny jobs at once, all ended",
                    sides,
                    lambda side: burst_seconds(side, args.jobs),
                    1 if args.rounds < 3 else 2,
                )
            )
    print(f"{'measure':<40} {'Ray alone':>10} {'through us':>11} {'ratio':>6}")
    for row in rows:
        print(
            f"{row['measure']:<40} {row['alone_seconds']:>9.2f}s {row['through_seconds']:>10.2f}s"
            f" {row['ratio']:>6.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
