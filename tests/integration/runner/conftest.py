"""A runner as a real process against a tiny real server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.runner.server import AttemptServer
from trackyard.engines import wrapper


class Runner:
    """One started runner, with its state folder."""

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.state = Path(spec["state_dir"])
        self.attempt_id = spec["attempt_id"]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.attempt_id}.json"
        path.write_text(json.dumps(spec))
        self.process = subprocess.Popen(
            wrapper.command(str(path)), start_new_session=True, env={"PATH": os.environ["PATH"]}
        )

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "exit.json").read_text())
        return found

    @property
    def log(self) -> bytes:
        path = self.state / "log"
        return path.read_bytes() if path.exists() else b""

    @property
    def supervisor(self) -> int:
        return int(json.loads((self.state / "started.json").read_text())["runner_pid"])

    def wait(self, timeout: float = 60) -> dict[str, Any]:
        self.process.wait(timeout)
        return self.record

    def wait_for_log(self, text: bytes, seconds: float = 180) -> None:
        wait_until(lambda: text in self.log, f"{text!r} never came", seconds)

    def send_stop(self, reason: str, grace: float) -> None:
        beside = self.state / "stop.new"
        beside.write_text(json.dumps({"reason": reason, "grace_seconds": grace}))
        beside.replace(self.state / "stop.json")

    def end(self) -> None:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("YARD_ATTEMPT_ID") == self.attempt_id:
                    process.kill()
        with contextlib.suppress(OSError, ValueError, FileNotFoundError):
            os.kill(self.supervisor, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def wait_until(what: Callable[[], Any], why: str, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


Start = Callable[..., Runner]


@pytest.fixture
def server() -> Iterator[AttemptServer]:
    server = AttemptServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a runner around Python code, a shell line or an argv."""
    runners: list[Runner] = []

    def start(
        code: str = "",
        *,
        argv: list[str] | None = None,
        to: AttemptServer | None = None,
        **keys: Any,
    ) -> Runner:
        number = len(runners) + 1
        attempt_id = f"t{os.getpid()}-{time.monotonic_ns()}-a{number}"
        spec: dict[str, Any] = {
            "version": 1,
            "attempt_id": attempt_id,
            "epoch": 1,
            "job_id": "j1",
            "argv": argv or [sys.executable, "-c", code],
            "state_dir": str(tmp_path / attempt_id),
            "cache_dir": str(tmp_path / "cache"),
            "base_env": {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            "python": sys.executable,
            "gpus": [],
            "grace_seconds": 5,
        }
        if to is not None:
            spec["report"] = {
                "url": to.url,
                "token": to.token,
                "heartbeat_seconds": 0.2,
                "sample_seconds": 0.2,
                "linger_seconds": 120,
            }
        spec.update(keys)
        runners.append(Runner(tmp_path / "specs", spec))
        return runners[-1]

    yield start
    for runner in runners:
        runner.end()
