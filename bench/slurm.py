"""How quickly a job starts on an idle Slurm through Trackyard, beside sbatch alone.

    python -m bench.slurm [--rounds N] [--jobs N]

Starts a Slurm of its own on this machine (tests/slurmcluster.py). A round submits one job each
way, in turn, and takes the time from the submission until squeue calls it running, and to the
first instruction of the command, which with Trackyard has a runner around it.
Then so many jobs are handed over at once, and every one is counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.slurmcluster import NODES, SlurmCluster
from trackyard.core.ports import AttemptPhase, LaunchSpec, NodeGrant
from trackyard.engines.slurm import SlurmEngine, SlurmSite

_numbers = itertools.count(1)
PATIENCE = 600.0


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
        cluster.start()
        site = SlurmSite(name="bench", folder=Path(place), conf=str(cluster.conf))
        engine = SlurmEngine(site)
        try:
            print(json.dumps(measure(cluster, engine, Path(place), args), indent=2))
        finally:
            engine.close()
            cluster.stop()


def measure(
    cluster: SlurmCluster, engine: SlurmEngine, folder: Path, args: argparse.Namespace
) -> dict[str, object]:
    """Return the times of both ways, their ratio, and what became of many jobs at once."""
    engine.nodes()
    alone: list[Times] = []
    ours: list[Times] = []
    ways = [
        (alone, lambda line, name: submit_alone(cluster, line, name)),
        (ours, lambda line, _name: launch(engine, line).attempt_id),
    ]
    for number in range(args.rounds + 1):
        # Each goes first in turn, so that neither always follows the other's end.
        for kept, start in ways if number % 2 else reversed(ways):
            mark = folder / f"mark-{number}-{kept is ours}"
            began = time.time()
            name = start(f"date +%s.%N > {mark}; sleep 1", f"alone-{number}")
            times = Times(until_running(cluster, name) - began, wait_for(mark) - began)
            cluster.wait_until_idle()
            if number:
                # The first of each warms up what both use.
                kept.append(times)
    found: dict[str, object] = {"rounds": args.rounds}
    for what in Times._fields:
        one = statistics.median(getattr(times, what) for times in alone)
        two = statistics.median(getattr(times, what) for times in ours)
        found[what] = {
            "sbatch": round(one, 3),
            "trackyard": round(two, 3),
            "ratio": round(two / one, 2),
            # What a busy machine adds to single rounds is not in the best of them.
            "ratio_of_best": round(
                min(getattr(times, what) for times in ours)
                / min(getattr(times, what) for times in alone),
                2,
            ),
        }
    return {**found, **at_once(engine, args.jobs)}


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


def at_once(engine: SlurmEngine, count: int) -> dict[str, object]:
    """Hand over many jobs and count how each ended."""
    began = time.monotonic()
    specs = [launch(engine, "true", node=NODES[number % 2]) for number in range(count)]
    handed = time.monotonic() - began
    wait_until_ended(engine, specs)
    ends = [engine.lookup(spec.attempt_id) for spec in specs]
    good = sum(1 for one in ends if one and one.exit and one.exit.succeeded)
    return {
        "jobs_at_once": count,
        "succeeded": good,
        "lost": count - good,
        "handed_over_seconds": round(handed, 2),
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


def wait_until_ended(engine: SlurmEngine, specs: list[LaunchSpec]) -> None:
    """Wait until the engine knows the end of each."""
    ends = time.monotonic() + PATIENCE
    open_ids = {spec.attempt_id for spec in specs}
    while open_ids:
        assert time.monotonic() < ends, f"{len(open_ids)} never ended"
        for report in engine.attempts():
            if report.phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
                open_ids.discard(report.attempt_id)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
