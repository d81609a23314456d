"""A proxy before an S3 server that fails, delays, cuts and lies on demand."""

import hashlib
import http.client
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_DROPPED = ("connection", "transfer-encoding", "content-length", "server", "date")


class FaultProxy:
    """Passes every call on, unless a fault is set that takes it.

    `fault` is called with method and path and names what becomes of the call: "" passes it on,
    "500" and "503" refuse it, "hang" answers nothing, "reset" hangs up, "cut" sends half of the
    answer's body, "short" the same as if it were all, "flip" changes a bit of the answer's body,
    "flip-up" one of the request's, "forget" says yes and does nothing.
    """

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.fault: Callable[[str, str], str] = lambda _method, _path: ""
        #: what a listing shows in place of the truth
        self.listing: Callable[[bytes], bytes] = lambda body: body
        self.taken: Counter[str] = Counter()
        self.closing = threading.Event()
        owner = self

        class Handler(_Handler):
            proxy = owner

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def first(self, count: int, method: str, fault: str) -> None:
        """Let the next calls of a method end in a fault, and pass on those that follow."""
        left = [count]

        def decide(called: str, _path: str) -> str:
            if called != method or left[0] == 0:
                return ""
            left[0] -= 1
            return fault

        self.fault = decide

    def always(self, method: str, fault: str) -> None:
        """Let every call of a method end in a fault."""
        self.fault = lambda called, _path: fault if called == method else ""

    def heal(self) -> None:
        """Pass everything on again."""
        self.fault = lambda _method, _path: ""

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"

    def _take(self) -> None:
        proxy = self.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault(self.command, self.path)
        if fault:
            proxy.taken[fault] += 1
        if fault in ("500", "503"):
            self._answer(int(fault), [], b"<Error><Code>SlowDown</Code></Error>")
        elif fault == "hang":
            proxy.closing.wait(120)
            self.close_connection = True
        elif fault == "reset":
            self.close_connection = True
        elif fault == "forget":
            self._answer(200, [("ETag", '"0"')], b"")
        elif fault == "flip-up" and body:
            self._pass_on(_flipped(body), "")
        else:
            self._pass_on(body, fault)

    def _pass_on(self, body: bytes, fault: str) -> None:
        status, lines, answer = self._forward(body)
        if self.command == "GET" and "list-type" in self.path:
            answer = self.proxy.listing(answer)
        if fault == "flip" and answer:
            answer = _flipped(answer)
        elif fault == "short":
            answer = answer[: len(answer) // 2]
        self._answer(status, lines, answer, cut=fault == "cut")

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if not _is_signed(self.headers.get("x-amz-content-sha256"), body):
            return 400, [], b"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>"
        target = self.proxy.target
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=180)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        headers["Host"] = target.netloc
        try:
            connection.request(self.command, self.path, body, headers)
            reply = connection.getresponse()
            lines = [(k, v) for k, v in reply.getheaders() if k.lower() not in _DROPPED]
            if self.command == "HEAD":
                lines.append(("Content-Length", reply.getheader("Content-Length") or "0"))
            return reply.status, lines, reply.read()
        finally:
            connection.close()

    def _answer(
        self, status: int, lines: list[tuple[str, str]], body: bytes, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in lines:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _take  # noqa: N815 - http.server's names

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _is_signed(declared: str | None, body: bytes) -> bool:
    """Tell whether a real store would take the body: what was signed must be what arrived."""
    return declared is not None and hashlib.sha256(body).hexdigest() == declared
