"""A tiny server with the runner's four endpoints, as README.md of the runner defines them.

It can go away and come back on the same port, lose answers after it took the data, and hold a
newer epoch. Standard library only; no part of the product.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class AttemptServer:
    """Keeps what runners report, in memory."""

    def __init__(self, token: str = "attempt-token") -> None:
        self.token = token
        self.epoch = 1
        self.stop_request: dict[str, Any] | None = None
        self.logs: dict[int, bytearray] = {}
        self.heartbeats: list[dict[str, Any]] = []
        self.samples: dict[int, dict[str, float]] = {}
        self.exits: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.refused = 0
        self.uploads: list[str] = []
        self.refuse_uploads = 0
        #: answers to lose after the data was taken
        self.lose_answers = 0
        self._http: ThreadingHTTPServer | None = None
        self._port = 0
        #: held while a report is taken: what a test changes under it no report is half-way in
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = _Server(("127.0.0.1", self._port), handler)
        self._port = self._http.server_address[1]
        threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.close_all()
            self._http = None

    def log(self, member: int = 0) -> bytes:
        return bytes(self.logs.get(member, b""))

    def loses_answer(self) -> bool:
        """Tell whether this answer is one of those to lose."""
        with self.lock:
            if self.lose_answers > 0:
                self.lose_answers -= 1
                return True
            return False

    def take(self, path: str, query: dict[str, list[str]], body: bytes, epoch: int) -> Any:
        with self.lock:
            if epoch < self.epoch:
                self.refused += 1
                return 409, {"message": "a newer attempt holds this job"}
            if path.endswith("/heartbeat"):
                self.heartbeats.append(json.loads(body))
                return 200, {"stop": self.stop_request} if self.stop_request else {}
            if path.endswith("/samples"):
                for sample in json.loads(body)["samples"]:
                    self.samples.setdefault(sample["seq"], sample["values"])
                return 200, {}
            if path.endswith("/exit"):
                self.exits.append(json.loads(body))
                return 200, {}
            if path.endswith("/logs"):
                return self._take_log(query, body)
            return 404, {}

    def _take_log(self, query: dict[str, list[str]], body: bytes) -> Any:
        held = self.logs.setdefault(int(query["member"][0]), bytearray())
        offset = int(query["offset"][0])
        if offset > len(held):
            return 416, {"next_offset": len(held)}
        held.extend(body[len(held) - offset :])
        return 200, {"next_offset": len(held)}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def close_all(self) -> None:
        """Cut live connections, as the death of a process does."""
        for request in self._open:
            try:
                request.shutdown(2)
                request.close()
            except OSError:
                continue
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Cut connections are what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: AttemptServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {self.owner.token}":
            self._answer(401, {})
            return
        epoch = int(self.headers["X-Yard-Epoch"])
        status, data = self.owner.take(parts.path, parse_qs(parts.query), body, epoch)
        if self.owner.loses_answer():
            self.close_connection = True
            return
        self._answer(status, data)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.owner.refuse_uploads > 0:
            self.owner.refuse_uploads -= 1
            self._answer(503, {})
            return
        self.owner.files[self.path] = body
        self.owner.uploads.append(self.path)
        self._answer(200, {})

    def do_GET(self) -> None:
        content = self.owner.files.get(self.path)
        if content is None or self.headers.get("Authorization") != f"Bearer {self.owner.token}":
            self._answer(404, {})
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, status: int, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
