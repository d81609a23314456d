"""How the engine speaks to a head: its token, its refusals, its silence. No cluster is needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from trackyard.core.ports import EngineUnavailable, LaunchRefused
from trackyard.engines.ray.api import RayApi

TOKEN = "the-clusters-own"


class Head(BaseHTTPRequestHandler):
    """Answers as a head with token authentication does."""

    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer()

    def _answer(self) -> None:
        status, body = self.answers.get(self.path, (404, b"no such thing"))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status, body = 401, b"Unauthorized: Missing authentication token"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def head() -> Iterator[str]:
    Head.answers = {
        "/api/version": (200, json.dumps({"ray_version": "2.60.0", "session_name": "s"}).encode())
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Head)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    ).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_the_clusters_token_is_sent_and_never_told(head: str) -> None:
    assert RayApi(head, token=TOKEN).cluster().ray_version == "2.60.0"
    with pytest.raises(EngineUnavailable, match="ray_token_file") as told:
        RayApi(head, token="wrong-one").cluster()
    assert "wrong-one" not in str(told.value)


def test_a_taken_id_is_adopted_a_bad_job_refused_and_a_stumbling_head_asked_again(
    head: str,
) -> None:
    api = RayApi(head, token=TOKEN)
    trace = b"Traceback (most recent call last):\n  File x\nValueError: "
    Head.answers["/api/jobs/"] = (500, trace + b"Job with submission_id j1-a1 already exists.\n")
    assert api.submit({}) is False
    Head.answers["/api/jobs/"] = (400, trace + b"no such field\n")
    with pytest.raises(LaunchRefused, match="no such field"):
        api.submit({})
    Head.answers["/api/jobs/"] = (500, trace + b"no agent within 10 s\n")
    with pytest.raises(EngineUnavailable, match="no agent"):
        api.submit({})


def test_a_head_that_is_not_there_is_unavailable_and_named() -> None:
    with pytest.raises(EngineUnavailable, match=r"http://127\.0\.0\.1:1 does not answer"):
        RayApi("http://127.0.0.1:1").jobs()


def test_something_else_at_the_address_is_no_head(head: str) -> None:
    Head.answers["/api/version"] = (200, b"<html>hello</html>")
    with pytest.raises(EngineUnavailable, match="no Ray head"):
        RayApi(head, token=TOKEN).cluster()
