"""SIGTERM ends a server soon, whatever it is at; a second one ends it at once."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.serving import TrackingServer
from tests.acceptance.test_postgres_faults import Postgres

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

NewServer = Callable[..., TrackingServer]
#: The promise is ten seconds; a machine with more work than cores is given more.
PATIENCE = 40.0


def ends(server: TrackingServer) -> int:
    """Send SIGTERM and return the exit status; fail if the server does not end."""
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    try:
        return server.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the server goes on after SIGTERM: {server.log}") from None


def submit(server: TrackingServer, until: threading.Event, done: list[int]) -> None:
    """Submit jobs one after the other, for as long as somebody answers."""
    body = {"command": ["true"], "hold": True}
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=180) as client:
        while not until.is_set():
            with contextlib.suppress(httpx.HTTPError):
                done.append(client.post("/api/v1/jobs", json=body).status_code)


def test_it_ends_under_submissions(new_server: NewServer) -> None:
    """Each submission wakes the scheduler at the very moment in which it may be told to end."""
    server = new_server()
    for _ in range(3):
        server.start()
        over, done = threading.Event(), list[int]()
        threads = [
            threading.Thread(target=submit, args=(server, over, done), daemon=True)
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        try:
            _wait_until(lambda: len(done) > 50)  # noqa: B023 - called at once
            assert ends(server) == 0, server.log
        finally:
            over.set()
            for thread in threads:
                thread.join(PATIENCE)


def slow_body(server: TrackingServer) -> socket.socket:
    """Open a request whose body never comes."""
    caller = socket.create_connection(("127.0.0.1", server.port))
    token = server.headers["Authorization"]
    caller.sendall(
        f"POST /api/v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {token}\r\n"
        "content-type: application/json\r\ncontent-length: 100\r\n\r\n{".encode()
    )
    return caller


def test_it_ends_with_streams_and_slow_callers(new_server: NewServer) -> None:
    """Open streams, a body that never comes and a head that never ends hold up nothing."""
    server = new_server()
    server.start()
    with contextlib.ExitStack() as held:
        held.enter_context(contextlib.closing(slow_body(server)))
        half = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        half.sendall(b"GET /health HTTP/1.1\r\nhost: 127")
        stream = held.enter_context(
            httpx.stream("GET", f"{server.url}/api/v1/stream", headers=server.headers, timeout=600)
        )
        assert stream.status_code == 200
        assert ends(server) == 0, server.log


def test_the_second_signal_ends_it_at_once(new_server: NewServer) -> None:
    """While it waits for a slow caller, a second signal ends it without waiting."""
    server = new_server()
    server.start()
    assert server.process is not None
    with contextlib.closing(slow_body(server)):
        server.process.send_signal(signal.SIGTERM)
        # It no longer listens once it has begun to end.
        _wait_until(lambda: not _answers(server))
        server.process.send_signal(signal.SIGTERM)
        status = server.process.wait(PATIENCE)
    if status != 0:  # the slow caller may have been given up in the same moment
        assert status == 1
        assert "asked twice" in server.log


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="yard-pg-"))
    found = Postgres(folder)
    yield found
    for process in _processes(found):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    found.close()
    shutil.rmtree(folder, ignore_errors=True)


def _processes(postgres: Postgres) -> list[psutil.Process]:
    first = psutil.Process(int((postgres.folder / "postmaster.pid").read_text().split()[0]))
    return [first, *first.children(recursive=True)]


def test_it_ends_while_its_database_is_frozen(new_server: NewServer, postgres: Postgres) -> None:
    """A PostgreSQL that neither answers nor ends holds up the end no longer than the rest."""
    server = new_server()
    server.database = postgres.url
    server.start()
    for process in _processes(postgres):
        os.kill(process.pid, signal.SIGSTOP)
    over = threading.Event()
    writer = threading.Thread(target=submit, args=(server, over, []), daemon=True)
    writer.start()
    try:
        ends(server)
    finally:
        over.set()
        writer.join(PATIENCE)


def _answers(server: TrackingServer) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5):
            return True
    except OSError:
        return False


def _wait_until(is_so: Callable[[], bool]) -> None:
    over = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < over
        time.sleep(0.02)
