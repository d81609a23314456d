"""A server with declared GPUs, and `yard` as a user types it: a process with an exit code.

Owns starting, asking and waiting. Nothing here reads the server's files or database.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.acceptance.serving import ROOT, TrackingServer

SCRIPTS = Path(__file__).parent / "scripts"
#: how a job's own script finds `trackyard.checkpoint` in an interpreter that has no trackyard
SOURCE = f"PYTHONPATH={ROOT / 'src'}"


@dataclass(frozen=True)
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


@dataclass
class JobServer(TrackingServer):
    """A server with so many declared GPUs."""

    gpus: int = 2
    more: list[str] = field(default_factory=list)

    def command(self) -> list[str]:
        """`yard up --gpus N`."""
        return [*super().command(), "--gpus", str(self.gpus), *self.more]

    def wait_for_nodes(self) -> None:
        """Wait until it knows what it may give: the first look at a node takes its time."""
        ends = time.monotonic() + 120
        while not self.get("/api/v1/nodes")["nodes"]:
            assert time.monotonic() < ends, self.log
            time.sleep(0.05)


class Yard:
    """The command line of one user of a server."""

    def __init__(self, server: JobServer, folder: Path, token: str | None = None) -> None:
        self.server = server
        self.folder = folder
        self.token = token

    def run(self, *words: str, folder: Path | None = None, patience: float = 240) -> Said:
        """Run one command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "trackyard.cli.main", *words],
            cwd=folder or self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=patience,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "trackyard.cli.main", *words],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def environment(self) -> dict[str, str]:
        """What the command sees: where the server is and who asks."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.parent),
            "PYTHONPATH": str(ROOT / "src"),
            "YARD_URL": self.server.url,
            "YARD_TOKEN": self.token or self.server.token,
        }

    def ok(self, *words: str, **how: Any) -> str:
        """Run a command, insist that it succeeds, return what it printed."""
        said = self.run(*words, **how)
        assert said.code == 0, f"yard {' '.join(words)}: {said.code}\n{said.out}\n{said.err}"
        return said.out

    def read(self, *words: str) -> Any:
        """Run a reading command with --json and return the data."""
        return json.loads(self.ok(*words, "--json"))

    def submit(self, *words: str, **how: Any) -> str:
        """Submit and return the job's id, as `-q` prints it."""
        return self.ok("submit", "-q", *words, **how).strip()

    def page(self, name: str) -> dict[str, Any]:
        """A job with its attempts, as `yard show` tells it."""
        found: dict[str, Any] = self.read("show", name)
        return found

    def logs(self, name: str, *words: str) -> str:
        """What a job printed."""
        return self.ok("logs", name, *words)

    def until(
        self, name: str, test: Callable[[dict[str, Any]], bool], patience: float = 150
    ) -> dict[str, Any]:
        """Look at a job until something is so."""
        ends = time.monotonic() + patience
        while True:
            page = self.page(name)
            if test(page):
                return page
            assert time.monotonic() < ends, f"not so after {patience} s: {page}"
            time.sleep(0.1)

    def until_state(self, name: str, *states: str, patience: float = 150) -> dict[str, Any]:
        """Look at a job until it is in one of these states."""
        return self.until(name, lambda page: page["job"]["state"] in states, patience)

    def until_printed(self, name: str, text: str, patience: float = 150) -> str:
        """Look at a job's latest log until it holds a text."""
        ends = time.monotonic() + patience
        while text not in (printed := self.logs(name)):
            assert time.monotonic() < ends, f"{text!r} was not printed: {printed!r}"
            time.sleep(0.1)
        return printed


def end_all(home: Path) -> None:
    """End what still runs on behalf of a server that is gone: runners and their commands."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            held = any(file.path.startswith(str(home)) for file in process.open_files())
            if held or str(home) in process.environ().get("YARD_CHECKPOINT_DIR", ""):
                process.kill()
