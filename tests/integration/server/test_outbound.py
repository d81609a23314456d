"""Where the server itself connects to: only where its operator's settings say."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.integration.server.platform import Platform, new_run
from trackyard.artifacts.object_store import ObjectBlobs
from trackyard.core.errors import YardError
from trackyard.core.ports import EngineUnavailable
from trackyard.engines.ray.api import RayApi


class Canary:
    """A port that nobody should call; it notes who does."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.calls: list[str] = []


@contextlib.contextmanager
def serving(location: str = "") -> Iterator[Canary]:
    """Serve on a free port: send every caller elsewhere, or only note that one came."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            canary.calls.append(f"{self.command} {self.path}")
            self.send_response(307 if location else 200)
            if location:
                self.send_header("location", location)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815 - http.server's

        def log_message(self, *words: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    canary = Canary(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield canary
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_nothing_a_user_sends_makes_the_server_call_out(platform: Platform) -> None:
    """Addresses in any field are refused or kept as text; the place they name is never called."""
    with serving() as canary:
        member = await platform.caller("max", "default", "maintainer")
        run_id = await new_run(member)
        await member.mlflow("POST", "registered-models/create", {"name": "m"})
        hosts = ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1")
        for host in hosts:
            url = f"http://{host}:{canary.port}/x"
            for method, path, body in (
                ("POST", "experiments/create", {"name": host, "artifact_location": url}),
                ("POST", "model-versions/create", {"name": "m", "source": url, "run_link": url}),
                ("POST", "webhooks", {"name": "w", "url": url, "events": []}),
                ("POST", "runs/set-tag", {"run_id": run_id, "key": "mlflow.source.name",
                                          "value": url}),
                ("POST", "runs/log-inputs", {"run_id": run_id, "datasets": [
                    {"dataset": {"name": "d", "digest": "1", "source_type": "http",
                                 "source": url}}]}),
            ):  # fmt: skip
                answer = await member.mlflow(method, path, body)
                assert answer.status < 500, (path, answer.body)
            for environment in (
                {"working_dir": url + ".zip"},
                {"py_modules": [url + ".zip"]},
                {"container": {"image": url}},
            ):
                wish = {"entrypoint": "true", "runtime_env": environment}
                assert (await member("POST", "/api/jobs/", wish)).status == 400, environment
            target = f"/api/2.0/mlflow/artifacts/list?run_id={run_id}&path={url}"
            assert (await member("GET", target)).status in (200, 400, 404)
        assert canary.calls == []


async def test_the_cluster_sends_the_engine_nowhere_else() -> None:
    """A Ray head that redirects is no head: its token goes to the address that was set alone."""
    with serving() as canary, serving(f"http://127.0.0.1:{canary.port}/") as head:
        api = RayApi(f"http://127.0.0.1:{head.port}", token="secret")
        for call in (api.cluster, api.jobs, api.nodes, lambda: api.put_package("x.zip", b"1")):
            with pytest.raises(EngineUnavailable):
                await asyncio.to_thread(call)
        assert head.calls
        assert canary.calls == []


async def test_the_store_sends_the_server_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An object store that redirects elsewhere is a store that failed."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_REGION", "eu")

    async def once() -> AsyncIterator[bytes]:
        yield b"bytes"

    with serving() as canary, serving(f"http://127.0.0.1:{canary.port}/") as store:
        blobs = ObjectBlobs("bucket", "", endpoint=f"http://127.0.0.1:{store.port}")
        with pytest.raises(YardError):
            await blobs.write(once(), length=5)
        assert store.calls
        assert canary.calls == []
