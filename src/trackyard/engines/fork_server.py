"""Starts runners on this machine from one warm process that forks them.

Owns that process and what it tells of its runners' ends. The runners are in sessions of their
own and outlive it and the server; whether one lives is told by its lock, never by this.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
from pathlib import Path
from typing import IO

from trackyard.core.ports import EngineError
from trackyard.engines import wrapper

log = logging.getLogger(__name__)

LEAVE_SECONDS = 10.0
#: Told of a runner whose nursery is gone, so that nobody can tell how it ended.
UNKNOWN = -1


class Runner:
    """A runner that was started, as far as its parent can tell."""

    def __init__(self) -> None:
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return how its process ended; None while it may live."""
        return self._status

    def end(self, status: int) -> None:
        """Note how its process ended."""
        self._status = status


class ForkServer:
    """Starts runners; the warm process is started with the first and replaced if it dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, spec: Path) -> Runner:
        """Start a runner on a spec."""
        line = json.dumps(str(spec)).encode() + b"\n"
        runner = Runner()
        with self._lock:
            for _ in range(2):
                if self._process is None:
                    self._open()
                if self._send(line, str(spec), runner):
                    return runner
        raise EngineError(
            "no runner can be started: the process that starts them does not stay; look at the"
            " machine's memory and limits on processes"
        )

    def close(self) -> None:
        """Let the warm process go; runners go on."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait(timeout=LEAVE_SECONDS)

    def _open(self) -> None:
        self._runners: dict[str, Runner] = {}
        self._process = subprocess.Popen(
            wrapper.command("--nursery"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # Nothing of the server's environment.
            env={"PATH": os.environ.get("PATH", os.defpath)},
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdout is not None
        threading.Thread(
            target=_listen,
            args=(self._process, self._process.stdout, self._runners),
            name="nursery",
            daemon=True,
        ).start()

    def _send(self, line: bytes, spec: str, runner: Runner) -> bool:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        self._runners[spec] = runner
        try:
            process.stdin.write(line)
        except OSError:
            log.warning("the process that starts runners ended; another is started")
            self._process = None
            return False
        return True


def _listen(
    process: subprocess.Popen[bytes], answers: IO[bytes], runners: dict[str, Runner]
) -> None:
    """Note how runners end until their nursery does."""
    with answers, open(answers.fileno(), "rb", closefd=False) as lines:
        for line in lines:
            spec, status = json.loads(line)
            runner = runners.pop(spec, None)
            if runner is not None:
                runner.end(status)
    process.wait()
    for runner in list(runners.values()):
        runner.end(UNKNOWN)
