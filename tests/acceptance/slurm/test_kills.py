"""Each of the programs around a gang is killed in its midst; the gang ends once and well."""

from __future__ import annotations

import contextlib
import signal

import psutil
import pytest

from tests.acceptance.jobs_cli.yarding import Yard
from tests.slurmcluster import SlurmCluster

pytestmark = pytest.mark.timeout(900)
PATIENCE = 300.0
#: runs until its first attempt is told to go on by a file, or for ever
WAITS = (
    "import os, pathlib, sys, time\n"
    "print('rank', os.environ['RANK'], 'attempt', os.environ['YARD_ATTEMPT'], flush=True)\n"
    "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.1)\n"
    "print('done', os.environ['RANK'], flush=True)\n"
)


def gang(yard: Yard, name: str) -> str:
    """Start a gang on both nodes that runs until `go_on`, and wait until both ranks run."""
    mark = yard.folder / name
    words = ("--no-working-dir", "--nodes", "2", "--", "python3", "-c", WAITS, str(mark))
    job = yard.submit(*words)
    yard.until_printed(job, "rank 0 attempt 1", PATIENCE)
    yard.until_printed(job, "rank 1 attempt 1", PATIENCE)
    return job


def go_on(yard: Yard, job: str, name: str, causes: list[str]) -> None:
    """Let a gang end, and insist on how its attempts did."""
    (yard.folder / name).touch()
    page = yard.until_state(job, "succeeded", "failed", "stopped", patience=PATIENCE)
    assert [one["cause"] for one in page["attempts"]] == causes, page
    printed = yard.logs(job)
    assert [printed.count(f"done {rank}") for rank in (0, 1)] == [1, 1]


def test_a_killed_node_daemon_does_not_end_the_gang(
    yard: Yard, slurm_cluster: SlurmCluster
) -> None:
    """Its step daemons run on; the next one takes them over."""
    job = gang(yard, "slurmd")
    slurm_cluster.kill("n2")
    slurm_cluster.start_node("n2")
    go_on(yard, job, "slurmd", ["succeeded"])


def test_killed_controller_and_server_find_the_gang_again(
    yard: Yard, slurm_cluster: SlurmCluster
) -> None:
    job = gang(yard, "both")
    slurm_cluster.kill("slurmctld")
    yard.server.kill()
    yard.server.start()
    slurm_cluster.start_controller()
    go_on(yard, job, "both", ["succeeded"])


def test_a_killed_runner_loses_its_gang_whole_and_the_next_attempt_ends_well(yard: Yard) -> None:
    job = gang(yard, "runner")
    attempt = yard.page(job)["attempts"][0]["attempt_id"]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            is_member = "--slurm-member" in line and attempt in line[-1]
            if is_member and process.environ().get("SLURMD_NODENAME") == "n2":
                process.send_signal(signal.SIGKILL)
    yard.until(job, lambda page: len(page["attempts"]) == 2, PATIENCE)
    yard.until_printed(job, "rank 1 attempt 2", PATIENCE)
    go_on(yard, job, "runner", ["node_lost", "succeeded"])
