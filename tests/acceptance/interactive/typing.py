"""A person at a terminal: `yard` in a pseudo-terminal, keys typed, what is shown read."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from websockets.exceptions import ConnectionClosedOK, InvalidStatus
from websockets.sync.client import connect

from tests.acceptance.jobs_cli.yarding import Yard

PATIENCE = 150.0


class Person:
    """One command in a terminal of its own."""

    def __init__(self, yard: Yard, *words: str, columns: int = 100, rows: int = 30) -> None:
        self._master, slave = os.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trackyard.cli.main", *words],
            cwd=yard.folder,
            env={**yard.environment(), "COLUMNS": "", "LINES": "", "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""
        self._from = 0

    def resize(self, columns: int, rows: int) -> None:
        """Change the window."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resized(self, columns: int, rows: int) -> None:
        """Change the window under a running command, as a window manager does."""
        self.resize(columns, rows)
        os.kill(self.process.pid, signal.SIGWINCH)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def sees(self, words: str) -> str:
        """Wait until words are shown after what was waited for before; return what came."""
        until = time.monotonic() + PATIENCE
        while True:
            at = self.shown.find(words, self._from)
            if at >= 0:
                came = self.shown[self._from : at + len(words)]
                self._from = at + len(words)
                return came
            assert time.monotonic() < until, f"{words!r} was not shown: {self.shown[-3000:]}"
            self._read(1.0)

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return
        try:
            self.shown += os.read(self._master, 65536).decode("utf-8", "replace")
        except OSError:
            if self._from >= len(self.shown):
                raise AssertionError(f"the command has ended: {self.shown[-3000:]}") from None

    def ends(self) -> int:
        """Wait for the command to end; return its code."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < until, self.shown[-3000:]
            try:
                self._read(0.1)
            except AssertionError:
                time.sleep(0.05)
        return self.process.returncode

    def close(self) -> None:
        """Hang up."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)


def shell_on(url: str, token: str, job: str) -> str:
    """Type into the terminal of a running job over the API and end it; return what it showed."""
    address = f"ws{url.removeprefix('http')}/api/v1/jobs/{job}/terminal?columns=91&rows=27"
    headers = {"Authorization": f"Bearer {token}"}
    shown, until = "", time.monotonic() + PATIENCE
    while True:
        try:
            line = connect(address, additional_headers=headers, open_timeout=PATIENCE)
            break
        except InvalidStatus:
            # The job counts as running a moment before its node has opened the way to it.
            assert time.monotonic() < until
            time.sleep(0.5)
    with line:
        line.send(b"echo si''ze-$(stty size)-; exit 5\n")
        try:
            while True:
                data = line.recv(timeout=PATIENCE)
                shown += data.decode() if isinstance(data, bytes) else data
        except ConnectionClosedOK:
            return shown
