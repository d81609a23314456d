"""Servers with declared GPUs: one shared, and fresh ones for tests that kill theirs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.jobs.yard import JobServer
from tests.acceptance.jobs_cli.yarding import end_all


def _end(server: JobServer) -> None:
    """Stop what still runs, then the server."""
    if server.process is None or server.process.poll() is not None:
        # Nobody is left to stop what it started.
        end_all(server.home)
        return
    try:
        for job in server.get("/api/v1/jobs", limit=1000)["jobs"]:
            if job["state"] in ("queued", "starting", "running"):
                server.post(f"/api/v1/jobs/{job['job_id']}/stop", grace_seconds=0)
        for job in server.get("/api/v1/jobs", limit=1000)["jobs"]:
            server.wait(job["job_id"], "succeeded", "failed", "stopped")
    finally:
        server.stop()


@pytest.fixture(scope="session")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServer]:
    """A running server that tests share."""
    server = JobServer(tmp_path_factory.mktemp("yard") / "home")
    server.start()
    yield server
    _end(server)


@pytest.fixture
def new_yard(tmp_path: Path) -> Iterator[Callable[..., JobServer]]:
    """Make servers of a test's own, not started yet."""
    made: list[JobServer] = []

    def make(**how: str) -> JobServer:
        server = JobServer(tmp_path / f"home-{len(made)}", **how)  # type: ignore[arg-type]
        made.append(server)
        return server

    yield make
    for server in made:
        _end(server)
