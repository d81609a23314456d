"""Two servers over one real cluster and one PostgreSQL, behind a balancer: disks that fill,
servers that are away or die, packages that were changed.
"""

from __future__ import annotations

import hashlib
import io
import signal
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.disks import SmallDisk
from tests.acceptance.jobs.yard import JobServer, eventually
from tests.acceptance.nginx import balancer
from tests.acceptance.postgres import Postgres
from tests.raycluster import RayCluster

PYTHON = sys.executable
#: prints numbered lines until it is let go, then some more
COUNTING = """
import sys, time
from pathlib import Path
number, go = 0, Path(sys.argv[1])
while not go.exists() or number < 100:
    print("line", number, flush=True)
    number += 1
    time.sleep(0.02)
print("last", number, flush=True)
"""


@dataclass
class Pair:
    """Two servers that share all but their homes."""

    first: JobServer
    second: JobServer
    disk: SmallDisk

    def ended(self, job: str) -> bool:
        """Tell whether an attempt has left its record on its node."""
        return (self.disk.folder / "nodes" / "attempts" / f"{job}-a1" / "m0/exit.json").exists()


@pytest.fixture(scope="module")
def pair(
    clear_cluster: RayCluster, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    disk = SmallDisk(folder / "disk", megabytes=32)
    database = postgres.new_database()
    servers = [
        JobServer(
            folder / f"home-{number}",
            options=(
                "--engine",
                f"ray={clear_cluster.address}",
                "--ray-folder",
                str(disk.folder / "nodes"),
            ),
            database=database,
            artifacts=str(folder / "artifacts"),
        )
        for number in range(2)
    ]
    front = balancer(folder / "nginx", servers)
    for server in servers:
        # The small disk is there to be filled: no job is kept from it for its size.
        disk_limits = "[health]\ndisk_warn_gb = 0.0\ndisk_fail_gb = 0.0\n"
        server.config = f'job_url = "{front.url}"\n{disk_limits}'
        server.start()
    eventually(lambda: len(servers[1].get("/api/v1/nodes")["nodes"]) >= 2, patience=150)
    yield Pair(servers[0], servers[1], disk)
    for server in servers:
        server.kill()
    front.close()
    disk.close()


def printed(server: JobServer, job: str) -> tuple[list[int], int]:
    """Return the numbers of the lines that a counting job printed, and how many it says."""
    lines = [
        line.split() for line in server.logs(job).splitlines() if line[:4] in ("line", "last")
    ]
    return [int(word) for kind, word in lines if kind == "line"], int(lines[-1][1])


def test_a_killed_leader_is_followed_and_nothing_starts_twice(pair: Pair, tmp_path: Path) -> None:
    """Only one of both schedules; dead, it is followed, and its jobs run on as they were."""
    leads = [one.get("/api/v1/cluster")["leader"] for one in (pair.first, pair.second)]
    assert sorted(leads) == [False, True]
    leader, other = (pair.first, pair.second) if leads[0] else (pair.second, pair.first)
    job = other.submit(PYTHON, "-c", COUNTING, str(tmp_path / "go"), gpus=1)
    other.wait(job, "running", patience=150)
    leader.kill()
    eventually(lambda: other.get("/api/v1/cluster")["leader"], patience=150)
    (tmp_path / "go").touch()
    detail = other.wait(job, "succeeded", patience=150)
    assert len(detail["attempts"]) == 1
    numbers, told = printed(other, job)
    assert numbers == list(range(told))
    leader.start()


def test_servers_that_are_away_leave_neither_gap_nor_repeat(pair: Pair, tmp_path: Path) -> None:
    """Nobody hears the job for as long as it runs, and its end: all of it is told later."""
    job = pair.first.submit(PYTHON, "-c", COUNTING, str(tmp_path / "go"), gpus=1)
    pair.first.wait(job, "running", patience=150)
    for server in (pair.first, pair.second):
        server.kill()
    (tmp_path / "go").touch()
    eventually(lambda: pair.ended(job), patience=150)
    for server in (pair.first, pair.second):
        server.start()
    detail = pair.second.wait(job, "succeeded", patience=150)
    assert len(detail["attempts"]) == 1
    eventually(lambda: "last" in pair.second.logs(job))
    numbers, told = printed(pair.second, job)
    assert numbers == list(range(told))


def test_a_full_disk_on_the_node_costs_no_line(pair: Pair) -> None:
    """The folder of attempts is full: the command goes on, and the server has its whole log."""
    line = "x" * 99
    script = f"for _ in range(30000): print({line!r})"
    pair.disk.fill([])
    try:
        job = pair.first.submit(PYTHON, "-c", script, gpus=1)
        detail = pair.first.wait(job, "succeeded", "failed", patience=150)
        assert detail["job"]["state"] == "succeeded", detail
        # All 30,000 lines are there: the last one ends where it should, and nothing follows.
        eventually(lambda: pair.first.logs(job, offset=2_999_900) == f"{line}\n")
        assert pair.first.logs(job, offset=3_000_000) == ""
    finally:
        pair.disk.free([])


def test_a_package_that_was_changed_is_not_run(pair: Pair) -> None:
    """Its bytes rot in the store: the job ends with that reason; sent again, it runs."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("train.py", "print('from the package')\n" + "# filler\n" * 200)
    content = target.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    path = f"/api/v1/packages/{digest}"
    assert pair.first.ask("PUT", path, content=content).status_code == 200
    blobs = Path(pair.first.artifacts) / "blobs"
    (blob,) = [one for one in blobs.rglob("*") if one.is_file() and one.read_bytes() == content]
    blob.chmod(0o600)
    blob.write_bytes(content[:-30] + bytes([content[-30] ^ 1]) + content[-29:])
    job = pair.first.submit(PYTHON, "train.py", gpus=1, package=digest)
    eventually(lambda: pair.first.state(job) in ("failed", "succeeded"), patience=200)
    detail = pair.first.detail(job)
    assert detail["job"]["state"] == "failed"
    assert "from the package" not in pair.first.logs(job)
    assert "package" in detail["job"]["sentence"]
    blob.write_bytes(content)
    again = pair.second.submit(PYTHON, "train.py", gpus=1, package=digest)
    pair.second.wait(again, "succeeded", patience=150)
    assert "from the package" in pair.second.logs(again)


def test_both_servers_end_when_they_are_told_to(pair: Pair) -> None:
    for server in (pair.first, pair.second):
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
