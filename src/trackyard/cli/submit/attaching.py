"""This terminal, joined to the terminal of a job: what is typed goes there, what it prints comes.

Owns raw mode, resizes, the keys that detach, and connecting again when the line was cut. The job's
shell lives on whatever happens here. Knows no flags.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any
from urllib.parse import quote, urlencode

from trackyard.cli.jobs.jobview import FINAL
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.output import say
from trackyard.client.api import Api, ApiFault, Unreachable

READ_BYTES = 32 * 1024
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.25, 5.0
#: How long a server may be away before this gives up; the shell runs on meanwhile.
AWAY_SECONDS = 300.0
CONNECT_SECONDS = 30.0
#: The server closed because the shell ended.
NORMAL = 1000
POLICY = 1008
END_OF_INPUT = b"\x04"
CLEAR = b"\x1b[H\x1b[2J"


class Left(Enum):
    """How the terminal was left."""

    ENDED = "ended"
    DETACHED = "detached"
    #: the line was cut; it may be joined again
    CUT = "cut"


class Escape:
    """The keys that detach, as ssh's: `~.` at the start of a line; `~~` types one `~`."""

    def __init__(self) -> None:
        self._at_start = True
        self._is_pending = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is to be sent of the keys, and whether to detach."""
        out = bytearray()
        for value in data:
            key = bytes([value])
            if self._is_pending:
                self._is_pending = False
                if key == b".":
                    return bytes(out), True
                out += key if key == b"~" else b"~" + key
                self._at_start = key in b"\r\n"
            elif self._at_start and key == b"~":
                self._is_pending = True
            else:
                out += key
                self._at_start = key in b"\r\n\x03\x04"
        return bytes(out), False


def attach(api: Api, job: str) -> Left:
    """Stay attached until the shell ends or the user leaves."""
    pause, away_since, is_first = FIRST_RETRY_SECONDS, 0.0, True
    escape = Escape()
    while True:
        try:
            left = _once(api, job, escape, is_first=is_first)
            is_first, pause, away_since = False, FIRST_RETRY_SECONDS, 0.0
        except (Unreachable, ApiFault) as fault:
            if isinstance(fault, ApiFault) and fault.status not in (429, 502, 503, 504):
                if not is_first and _has_ended(api, job):
                    return Left.ENDED
                raise
            left = Left.CUT
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > AWAY_SECONDS:
                raise
        if left is not Left.CUT:
            return left
        if _has_ended(api, job):
            return Left.ENDED
        if pause == FIRST_RETRY_SECONDS:
            say("\r\nthe line was cut; the shell lives on, connecting again …\r")
        time.sleep(pause)
        pause = min(pause * 2, LAST_RETRY_SECONDS)


def _has_ended(api: Api, job: str) -> bool:
    try:
        return get_job(api, job)["job"]["state"] in FINAL
    except (Unreachable, ApiFault):
        return False


def _once(api: Api, job: str, escape: Escape, *, is_first: bool) -> Left:
    """Join the terminals once."""
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.sync.client import connect

    size = shutil.get_terminal_size()
    query = urlencode({"columns": size.columns, "rows": size.lines})
    path = f"/api/v1/jobs/{quote(job)}/terminal?{query}"
    url = "ws" + api.url.removeprefix("http") + path
    headers = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    try:
        line = connect(
            url,
            additional_headers=headers,
            open_timeout=CONNECT_SECONDS,
            max_size=None,
            compression=None,
            proxy=None,
        )
    except InvalidStatus as fault:
        raise _refusal(fault.response.status_code, bytes(fault.response.body or b"")) from fault
    except (OSError, InvalidHandshake) as fault:
        raise Unreachable(f"no terminal at {api.url}: {fault}") from fault
    if not is_first and sys.stdout.isatty():
        _print(CLEAR)
    return _Joined(line, escape).run()


def _refusal(status: int, body: bytes) -> ApiFault:
    try:
        found = json.loads(body)
        return ApiFault(status, found["error_code"], found["message"], found.get("details"))
    except (ValueError, KeyError, TypeError):
        return ApiFault(status, "", f"the server refused the terminal with status {status}")


class _Joined:
    """One connection between this terminal and the job's."""

    def __init__(self, line: Any, escape: Escape) -> None:
        self._line = line
        self._escape = escape
        self._wake_read, self._wake_write = os.pipe()
        self._code: int | None = None
        self._is_over = threading.Event()
        self._is_resized = False
        self._has_input = True

    def run(self) -> Left:
        """Carry bytes both ways until one end is done."""
        printing = threading.Thread(target=self._print_all, daemon=True)
        with _raw(), _on_resize(self._resized):
            printing.start()
            try:
                is_detached = self._type_all()
            finally:
                self._line.close()
                printing.join(timeout=5)
                os.close(self._wake_read)
                os.close(self._wake_write)
        if is_detached:
            return Left.DETACHED
        if self._code == POLICY:
            raise ApiFault(401, "", "the credential that opened this terminal has ended")
        return Left.ENDED if self._code == NORMAL else Left.CUT

    def _resized(self) -> None:
        self._is_resized = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"\0")

    def _print_all(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                data = self._line.recv()
                _print(data if isinstance(data, bytes) else data.encode())
        except ConnectionClosed as fault:
            self._code = fault.rcvd.code if fault.rcvd is not None else None
        except OSError:
            pass
        finally:
            self._is_over.set()
            self._wake()

    def _type_all(self) -> bool:
        """Send keys and sizes; tell whether the user detached."""
        from websockets.exceptions import ConnectionClosed

        keys = sys.stdin.fileno()
        with contextlib.suppress(ConnectionClosed, OSError):
            while not self._is_over.is_set():
                sources = [self._wake_read, keys] if self._has_input else [self._wake_read]
                ready, _, _ = select.select(sources, [], [])
                if self._wake_read in ready:
                    os.read(self._wake_read, 4096)
                if self._is_resized:
                    self._is_resized = False
                    size = shutil.get_terminal_size()
                    self._line.send(json.dumps({"columns": size.columns, "rows": size.lines}))
                if keys in ready and self._type(os.read(keys, READ_BYTES)):
                    return True
        return False

    def _type(self, data: bytes) -> bool:
        if not data:
            self._has_input = False
            self._line.send(END_OF_INPUT)
            return False
        out, is_detached = self._escape.feed(data)
        if out:
            self._line.send(out)
        return is_detached


def _print(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Pass every key on, Ctrl-C among them; a pipe has no keys."""
    if not sys.stdin.isatty():
        yield
        return
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setraw(keys)
    try:
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _on_resize(act: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda *_: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
