"""A whole platform with declared GPUs in its own process, and jobs submitted to it.

Owns how these tests submit, wait, and find the processes of an attempt.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.serving import TrackingServer

SCRIPTS = Path(__file__).parent / "scripts"
ENDED = ("succeeded", "failed", "stopped")


@dataclass
class JobServer(TrackingServer):
    """A server that offers two declared GPUs."""

    options: tuple[str, ...] = ("--gpus", "2", "--preempt-after", "0")
    #: further settings, as lines of the config file
    config: str = ""

    def command(self) -> list[str]:
        more = list(self.options)
        if self.config:
            path = self.home / "yard.toml"
            path.write_text(self.config)
            more += ["--config", str(path)]
        return super().command() + more

    def submit(self, *command: str, **wish: Any) -> str:
        """Submit a job and return its id."""
        reply = self.post("/api/v1/jobs", command=list(command), **wish)
        return str(reply["job_ids"][0])

    def detail(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/api/v1/jobs/{job}")
        return found

    def state(self, job: str) -> str:
        return str(self.detail(job)["job"]["state"])

    def wait(self, job: str, *states: str, patience: float = 150.0) -> dict[str, Any]:
        """Wait until a job is in one of these states."""
        until = time.monotonic() + patience
        while True:
            detail = self.detail(job)
            if detail["job"]["state"] in states:
                return detail
            assert time.monotonic() < until, f"{job} is {detail['job']}: {self.log}"
            assert detail["job"]["state"] not in ENDED, (detail["attempts"], self.logs(job))
            time.sleep(0.05)

    def logs(self, job: str, **query: Any) -> str:
        answer = self.ask("GET", f"/api/v1/jobs/{job}/logs", params=query)
        assert answer.status_code == 200, answer.text
        return answer.text

    def folder(self, job: str, attempt: int = 1) -> Path:
        """The state folder of an attempt's runner."""
        return self.home / "engine" / "attempts" / f"{job}-a{attempt}" / "m0"

    def runner(self, job: str, attempt: int = 1) -> list[int]:
        """The pids of an attempt's guard and supervisor."""
        data = json.loads((self.folder(job, attempt) / "started.json").read_text())
        return [int(data["guard_pid"]), int(data["runner_pid"])]


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(check: Any, patience: float = 120.0) -> None:
    """Wait until something holds."""
    until = time.monotonic() + patience
    while not check():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.05)


def children(pid: int) -> set[int]:
    """All processes below one."""
    found: set[int] = set()
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [pid]
    while waiting:
        for child in below.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
