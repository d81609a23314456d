"""A server whose artifacts are in a bucket: the wrong bucket, one that is away, and a kill in the
middle of an upload.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.acceptance.serving import TrackingServer
from tests.acceptance.test_backup import new_run, yard
from tests.integration.artifacts.conftest import CREDENTIALS, Bucket, s3_endpoint
from tests.integration.artifacts.fault_proxy import FaultProxy

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

__all__ = ["s3_endpoint"]
MIB = 1024 * 1024


def wait_until(holds: Callable[[], object], patience: float = 120.0) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[FaultProxy]:
    made = FaultProxy(s3_endpoint)
    yield made
    made.close()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    made = Bucket(s3_endpoint, f"bucket-{time.time_ns()}")
    made.client().create_bucket(Bucket=made.name)
    return made


@pytest.fixture
def server(
    new_server: Callable[..., TrackingServer], bucket: Bucket, proxy: FaultProxy
) -> TrackingServer:
    """A server on a bucket, seen through the proxy; not started."""
    made = new_server(**CREDENTIALS)
    made.artifacts = bucket.url
    made.config = f'artifacts_endpoint = "{proxy.endpoint}"\n'
    return made


def test_a_wrong_bucket_or_prefix_is_refused(server: TrackingServer, bucket: Bucket) -> None:
    """Neither starts, nothing is written there, and the right one serves as before."""
    server.start()
    _, place = new_run(server)
    assert server.ask("PUT", f"{place}/f.txt", content=b"kept").status_code == 200
    assert server.stop() == 0
    keys = bucket.keys()
    other = Bucket(bucket.endpoint, f"{bucket.name}-other")
    other.client().create_bucket(Bucket=other.name)
    for wrong in (f"s3://{bucket.name}/pre/other", other.url, str(server.home / "folder")):
        server.artifacts = wrong
        with pytest.raises(AssertionError, match="is not the store of this database's artifacts"):
            server.start()
        assert server.process is not None
        assert server.process.returncode == 2
    assert (bucket.keys(), other.keys()) == (keys, [])
    server.artifacts = bucket.url
    server.start()
    assert server.ask("GET", f"{place}/f.txt").content == b"kept"
    assert yard(server, "verify").returncode == 0


def test_a_bucket_that_is_away_at_start_keeps_no_run_from_being_tracked(
    server: TrackingServer, proxy: FaultProxy
) -> None:
    """Runs are logged, files are told to come back; once the bucket answers they are taken, and if
    it turns out to be another database's, the server says so and ends.
    """
    proxy.fault = lambda _method, _path: "reset"
    server.start()
    run_id, place = new_run(server)
    server.post("runs/set-tag", run_id=run_id, key="k", value="v")
    refused = server.ask("PUT", f"{place}/f.txt", content=b"x")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert "does not answer" in server.log
    proxy.heal()
    wait_until(lambda: server.ask("PUT", f"{place}/f.txt", content=b"x").status_code == 200)
    assert server.ask("GET", f"{place}/f.txt").content == b"x"
    # Only a start that found the store has marked it.
    server.stop()
    server.start()
    server.stop()
    proxy.fault = lambda _method, _path: "reset"
    server.artifacts += "/other"
    server.start()
    proxy.heal()
    assert server.process is not None
    server.process.wait(120)
    assert "is not the store of this database's artifacts" in server.log


def test_a_server_killed_during_an_upload_keeps_the_old_file(
    server: TrackingServer, bucket: Bucket, proxy: FaultProxy
) -> None:
    """Killed while a large file goes up in parts: the old one is served, the next is taken."""
    server.start()
    _, place = new_run(server)
    assert server.ask("PUT", f"{place}/f", content=b"old").status_code == 200
    data = os.urandom(20 * MIB)
    seen = threading.Event()

    def hold(method: str, path: str) -> str:
        if method == "PUT" and "partNumber" in path:
            seen.set()
            return "hang"
        return ""

    proxy.fault = hold

    def upload() -> None:
        with pytest.raises(httpx.HTTPError):
            server.ask("PUT", f"{place}/f", content=data)

    thread = threading.Thread(target=upload)
    thread.start()
    assert seen.wait(120)
    server.kill()
    thread.join(60)
    proxy.heal()
    server.start()
    assert server.ask("GET", f"{place}/f").content == b"old"
    assert server.ask("PUT", f"{place}/f", content=data).status_code == 200
    assert server.ask("GET", f"{place}/f").content == data
    assert yard(server, "verify").returncode == 0
