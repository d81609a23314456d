"""A server that is killed while it writes a large array: one whole array comes of it."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.acceptance.postgres import Postgres
from tests.acceptance.serving import TrackingServer

NewServer = Callable[..., TrackingServer]
WISH = {"command": ["true"], "array": "0-999", "hold": True, "key": "one", "name": "many"}


@pytest.fixture(params=["sqlite", "postgresql"])
def server(
    request: pytest.FixtureRequest, new_server: NewServer, postgres: Postgres, tmp_path: Path
) -> TrackingServer:
    """A server that dies right after the second part of an array was committed."""
    made = new_server(YARD_CRASH_POINT="after-commit=job.submitted:2")
    if request.param == "postgresql":
        made.database = postgres.new_database()
        made.artifacts = str(tmp_path / "artifacts")
    made.start()
    with pytest.raises(httpx.HTTPError):
        made.post("/api/v1/jobs", **WISH)
    assert made.process is not None
    assert made.process.wait(60) == -signal.SIGKILL
    made.environment = {}
    made.start()
    return made


def indices(server: TrackingServer) -> list[int]:
    """Return the indices of all jobs there are."""
    listed = server.get("/api/v1/jobs", all=1, limit=1000)["jobs"]
    return sorted(int(job["job_id"].rpartition("-")[2]) for job in listed)


def test_the_client_that_tries_again_gets_the_array(server: TrackingServer) -> None:
    again = server.post("/api/v1/jobs", **WISH)
    assert again["repeated"] is True
    assert len(again["job_ids"]) == 1000
    assert indices(server) == list(range(1000))
    assert len(server.runs("Default", max_results=1000)) == 1000


def test_the_next_server_writes_the_rest_by_itself(server: TrackingServer) -> None:
    """With the first commit the array was accepted, so all of it comes."""
    over = time.monotonic() + 120
    while len(found := indices(server)) < 1000:
        assert time.monotonic() < over, f"{len(found)} of 1000 jobs"
        time.sleep(0.1)
    assert found == list(range(1000))
