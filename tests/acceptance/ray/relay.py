"""A relay between a server and its Ray head that counts calls and loses submissions on demand."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Relay:
    """Passes every call on, unless told otherwise."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.calls: Counter[str] = Counter()
        #: "" passes on, "before" swallows the next submission, "after" swallows its answer
        self.swallow = ""
        #: whether calls are passed on and their answers are not
        self.is_deaf = False
        #: set when a submission was swallowed
        self.swallowed = threading.Event()
        self._lock = threading.Lock()
        owner = self

        class Handler(_Handler):
            relay = owner

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def take_order(self) -> str:
        """Return what to do with a submission; with the next ones, nothing again."""
        with self._lock:
            mode, self.swallow = self.swallow, ""
        return mode

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    relay: Relay

    def _pass_on(self) -> None:
        relay, path = self.relay, urlsplit(self.path).path
        relay.calls[f"{self.command} {path}"] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_submission = (self.command, path) == ("POST", "/api/jobs/")
        mode = relay.take_order() if is_submission else ""
        if mode != "before":
            status, content = self._forward(body)
        if relay.is_deaf:
            self.close_connection = True
            return
        if mode:
            relay.swallowed.set()
            threading.Event().wait(60)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        target = self.relay.target
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=180)
        try:
            headers = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
            connection.request(self.command, self.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 502, b"the head does not answer"
        finally:
            connection.close()

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
