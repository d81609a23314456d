"""Whole gangs of real runners on this machine: they meet, look at each other, and end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.engines.test_local import processes_of
from trackyard.engines import wrapper
from trackyard.engines.statefolder import AttemptFolder

PATIENCE = 240.0
ATTEMPT = "gang-of-runners"
#: an interpreter on whose node the clock is a minute slow
SLOW_CLOCK = """#!/bin/sh
code=$(printf '%s' "$2" | sed 's/time\\.time()/(time.time() - 60)/')
exec {python} -c "$code" "$3"
"""


class Runners:
    """The runners of one attempt, each with a folder of its own below a shared one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: dict[int, str] = {}
        self.started: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *argv: str, members: int = 2, shares_disk: bool = True, **gang: Any) -> None:
        port, secret = AttemptFolder(self.folder).meeting()
        for number in range(members):
            place = {
                "member": number,
                "members": members,
                "addresses": ["127.0.0.1"] * members,
                "nodes": [f"n{one}" for one in range(members)],
                "port": port,
                "secret": secret,
                "folder": str(self.folder) if shares_disk else None,
                **gang,
            }
            spec = {
                "version": 1,
                "attempt_id": ATTEMPT,
                "job_id": "j1",
                "epoch": 1,
                "argv": list(argv),
                "state_dir": str(self.folder / f"m{number}"),
                "cache_dir": str(self.folder / "cache"),
                "base_env": {"PATH": self.paths.get(number, "/usr/bin:/bin")},
                "python": sys.executable,
                "grace_seconds": 1.0,
                "gang": place,
            }
            path = self.folder / f"m{number}.spec.json"
            path.write_text(json.dumps(spec))
            self.started[number] = subprocess.Popen(wrapper.command(str(path)))

    def until(self, test: Callable[[], Any], why: str) -> Any:
        ends = time.monotonic() + PATIENCE
        while not (found := test()):
            assert time.monotonic() < ends, f"{why}: {[self.log(one) for one in self.started]}"
            time.sleep(0.05)
        return found

    def log(self, member: int) -> str:
        path = self.folder / f"m{member}" / "log"
        return path.read_text() if path.exists() else ""

    def record(self, member: int) -> dict[str, Any]:
        path = self.folder / f"m{member}" / "exit.json"
        found: dict[str, Any] = json.loads(
            self.until(lambda: path.exists() and path.read_text(), f"no record of member {member}")
        )
        return found

    def causes(self) -> list[str]:
        return [self.record(member)["cause"] for member in sorted(self.started)]


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    made = Runners(tmp_path)
    yield made
    for process in made.started.values():
        process.terminate()
    for process in made.started.values():
        process.wait(PATIENCE)
    assert not processes_of(ATTEMPT)


def test_a_preflight_finds_the_gang_well_and_the_command_runs(runners: Runners) -> None:
    runners.start("sh", "-c", "echo rank $RANK", preflight=True)
    assert runners.causes() == ["succeeded", "succeeded"]
    assert '[yard] preflight {"ok": true' in runners.log(0)
    assert "rank 1" in runners.log(1)
    assert "YARD_GANG_SECRET" not in runners.log(0)


def test_a_preflight_names_the_node_at_fault_before_the_command(runners: Runners) -> None:
    wrong = runners.folder / "bin"
    wrong.mkdir()
    (wrong / "python3").write_text(SLOW_CLOCK.format(python=sys.executable))
    (wrong / "python3").chmod(0o755)
    runners.paths[2] = f"{wrong}:/usr/bin:/bin"
    runners.start("sh", "-c", "echo it runs", members=3, preflight=True)
    assert runners.causes() == ["gang", "gang", "node_unfit"]
    sentence = runners.record(2)["sentence"]
    assert "its clock is 60.0 s behind the others'" in sentence
    (check,) = runners.record(2)["health"]
    assert (check["name"], check["verdict"]) == ("preflight", "fail")
    assert "n2: its clock" in runners.record(0)["sentence"]
    assert "it runs" not in runners.log(0)


@pytest.mark.parametrize("shares_disk", [True, False])
def test_a_killed_runner_takes_its_gang_with_it(runners: Runners, shares_disk: bool) -> None:
    runners.start("sh", "-c", "echo ready; sleep 600", shares_disk=shares_disk)
    for member in (0, 1):
        runners.until(lambda member=member: "ready" in runners.log(member), "it never ran")
    started = json.loads((runners.folder / "m1" / "started.json").read_text())
    os.kill(started["runner_pid"], signal.SIGKILL)
    assert runners.record(0)["cause"] == "gang"
    assert "member 1 (n1, 127.0.0.1) is gone" in runners.log(0)
    runners.until((runners.folder / "m1" / "lost.json").exists, "the guard sleeps")


def test_a_gang_that_is_stopped_lets_mpiruns_processes_save(runners: Runners) -> None:
    """The node that only holds is not emptied before the first member has ended."""
    trap = "trap 'echo saved $OMPI_COMM_WORLD_RANK; exit 0' TERM"
    save = f"{trap}; echo ready; while :; do sleep 0.1; done"
    runners.start("sh", "-c", save, launcher="mpirun", shares_disk=False)
    runners.until(lambda: runners.log(0).count("ready") == 2, "they never ran")
    for member in (0, 1):
        request = {"reason": "preempted", "grace_seconds": 120.0, "at_ms": 0}
        (runners.folder / f"m{member}" / "stop.json").write_text(json.dumps(request))
    assert runners.causes() == ["preempted", "preempted"]
    assert "[rank 0] saved 0" in runners.log(0)
    assert "[rank 1] saved 1" in runners.log(0)
