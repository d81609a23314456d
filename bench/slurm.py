"""How quickly a job starts on an idle Slurm through Trackyard, beside sbatch alone.

    python -m bench.slurm [--rounds N] [--jobs N]

Starts a Slurm of its own on this machine (tests/slurmcluster.py) and a server on it. A round
submits one job each way, in turn: by sbatch, by the engine alone, and by the server's API, with
its queue before the engine. It takes the time from the submission until squeue calls the job
running, and to the first instruction of the command, which with Trackyard has a runner around it.
Then so many jobs are submitted to the server at once, and every one is counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.acceptance.jobs_cli.yarding import JobServer
from tests.acceptance.slurm.conftest import CONFIG
from tests.slurmcluster import SlurmCluster
from trackyard.core.ports import LaunchSpec, NodeGrant
from trackyard.engines.slurm import SlurmEngine, SlurmSite

_numbers = itertools.count(1)
PATIENCE = 600.0
ENDED = {"succeeded", "failed", "stopped"}
#: starts a shell line, and returns what squeue calls its job
Start = Callable[[str, str], str]


class Times(NamedTuple):
    """Seconds after the submission of one job."""

    running: float
    first_instruction: float


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=100)
    args = parser.parse_args()
    cluster = SlurmCluster()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        cluster.start()
        site = SlurmSite(name="bench", folder=folder / "engine", conf=str(cluster.conf))
        config = CONFIG.format(folder=folder / "server", conf=cluster.conf)
        server = JobServer(folder / "home", config=config)
        server.start()
        server.wait_for_nodes()
        engine = SlurmEngine(site)
        try:
            with httpx.Client(base_url=server.url, headers=server.headers, timeout=60) as client:
                print(json.dumps(measure(cluster, engine, client, folder, args), indent=2))
        finally:
            engine.close()
            server.kill()
            cluster.stop()


def measure(
    cluster: SlurmCluster,
    engine: SlurmEngine,
    client: httpx.Client,
    folder: Path,
    args: argparse.Namespace,
) -> dict[str, object]:
    """Return the times of all ways, their ratios, and what became of many jobs at once."""
    engine.nodes()
    ways: dict[str, Start] = {
        "sbatch": lambda line, name: submit_alone(cluster, line, name),
        "engine": lambda line, _name: launch(engine, line).attempt_id,
        "server": lambda line, _name: f"{post(client, line)}-a1",
    }
    taken: dict[str, list[Times]] = {name: [] for name in ways}
    for number in range(args.rounds + 1):
        # Each goes first in turn, so that none always follows the same other's end.
        order = [*ways][number % 3 :] + [*ways][: number % 3]
        for way in order:
            mark = folder / f"mark-{number}-{way}"
            # Slurm starts batch jobs once a second: each way meets all parts of that second.
            time.sleep((number / args.rounds - time.time()) % 1.0)
            began = time.time()
            name = ways[way](f"date +%s.%N > {mark}; sleep 1", f"alone-{number}")
            times = Times(until_running(cluster, name) - began, wait_for(mark) - began)
            cluster.wait_until_idle()
            if number:
                # The first of each warms up what all use.
                taken[way].append(times)
    found: dict[str, object] = {"rounds": args.rounds, "load": os.getloadavg()[0]}
    for what in Times._fields:
        found[what] = compared({way: [getattr(one, what) for one in taken[way]] for way in ways})
    return {**found, **at_once(client, args.jobs)}


def compared(taken: dict[str, list[float]]) -> dict[str, object]:
    """Return each way's times, their mean, and that beside sbatch's."""
    alone = statistics.mean(taken["sbatch"])
    return {
        way: {
            "seconds": round(statistics.mean(times), 3),
            "each": [round(one, 3) for one in times],
            "ratio": round(statistics.mean(times) / alone, 2),
        }
        for way, times in taken.items()
    }


def submit_alone(cluster: SlurmCluster, line: str, name: str) -> str:
    """Submit a shell line as any user of Slurm does."""
    cluster.submit("--nodelist=n1", "--time=5", f"--job-name={name}", command=line)
    return name


def until_running(cluster: SlurmCluster, name: str) -> float:
    """Return when squeue first calls a job running."""
    ends = time.monotonic() + PATIENCE
    while not cluster.run("squeue", "-h", "-t", "RUNNING,COMPLETED", "-n", name, "-o", "%i"):
        assert time.monotonic() < ends, f"{name} never ran"
    return time.time()


def post(client: httpx.Client, line: str, **wish: object) -> str:
    """Submit a shell line to the server; return the job's id, or the array's."""
    body = {"command": ["sh", "-c", line], "cpus": 1, "time_limit_seconds": 120, **wish}
    reply = client.post("/api/v1/jobs", json=body)
    reply.raise_for_status()
    answer = reply.json()["jobs"][0]
    return str(answer["array_id"] or answer["job_id"])


def at_once(client: httpx.Client, count: int) -> dict[str, object]:
    """Submit many jobs in a single request and count how each ended."""
    began = time.monotonic()
    post(client, "true", array=f"0-{count - 1}", name="at-once")
    states: list[str] = []
    while len(states) < count or not ENDED.issuperset(states):
        assert time.monotonic() - began < PATIENCE, states
        time.sleep(0.2)
        rows = client.get("/api/v1/jobs", params={"limit": 1000}).json()["jobs"]
        states = [row["state"] for row in rows if row["name"] == "at-once"]
    return {
        "jobs_at_once": count,
        "succeeded": states.count("succeeded"),
        "lost": count - states.count("succeeded"),
        "all_ended_seconds": round(time.monotonic() - began, 2),
    }


def launch(engine: SlurmEngine, line: str, node: str = "n1") -> LaunchSpec:
    """Launch a shell line as an attempt."""
    number = next(_numbers)
    spec = LaunchSpec(
        attempt_id=f"bench-{number}-a1",
        epoch=1,
        job_id=f"bench-{number}",
        argv=("sh", "-c", line),
        placement=(NodeGrant(node_id=node),),
        time_limit_seconds=120.0,
    )
    engine.launch(spec)
    return spec


def wait_for(mark: Path) -> float:
    """Return the time that a job wrote down."""
    ends = time.monotonic() + PATIENCE
    while not (mark.exists() and mark.read_text().strip()):
        assert time.monotonic() < ends, f"{mark} was never written"
        time.sleep(0.005)
    return float(mark.read_text())


if __name__ == "__main__":
    main()
