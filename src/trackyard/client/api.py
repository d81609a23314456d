"""A small HTTP client for the server's API, on the standard library. Owns where the server is and
with which credential; knows no command.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import SplitResult, urlencode, urlsplit

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 60.0
_PIECE_BYTES = 1024 * 1024
_NO_SERVER = "start one with `yard up`, or name another with YARD_URL or `yard login URL`"


class ApiFault(Exception):
    """The server answered with an error."""

    def __init__(
        self, status: int, code: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        #: facts about a refusal, where the server gave any
        self.details = details or {}


class Unreachable(Exception):
    """No server answers at the address."""

    def __init__(self, message: str, hint: str = _NO_SERVER) -> None:
        super().__init__(message)
        self.hint = hint


class Api:
    """Calls one server with one credential."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout: float | None = TIMEOUT_SECONDS,
        authorization: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.token = token
        #: the whole header, for a server that takes other credentials than tokens
        self._authorization = authorization or (f"Bearer {token}" if token else None)
        self._timeout = timeout
        self._parts: SplitResult = urlsplit(self.url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise Unreachable(f"{url!r} is not a server's address", "write it as http://host:8000")
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def from_environment(cls, *, timeout: float | None = TIMEOUT_SECONDS) -> Api:
        """Find server and credential: YARD_URL and YARD_TOKEN, else `yard login`, else the
        home.
        """
        stored = load_login()
        url = os.environ.get("YARD_URL") or stored.get("url") or home_address()
        token = os.environ.get("YARD_TOKEN")
        if not token and url.rstrip("/") == stored.get("url", "").rstrip("/"):
            token = stored.get("token")
        if not token and _is_own(url):
            token = home_token()
        return cls(url, token, timeout=timeout)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """GET a path and return its JSON."""
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Any:
        """POST JSON and return the answer."""
        return self.call("POST", path, body={} if body is None else body)

    def mlflow(self, method: str, path: str, arguments: Mapping[str, Any]) -> Any:
        """Call one of MLflow's routes."""
        full = f"/api/2.0/mlflow/{path}"
        if method == "GET":
            return self.call("GET", full, query=arguments)
        return self.call(method, full, body=arguments)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        raw: bytes | None = None,
    ) -> Any:
        """Call the server once more if a kept connection turns out to be dead."""
        response = self._send(method, path, query=query, body=body, raw=raw, timeout=self._timeout)
        data = response.read()
        if response.status >= 400:
            raise _fault(response.status, data)
        return json.loads(data) if data else {}

    def send(
        self,
        method: str,
        path: str,
        content: bytes | BinaryIO,
        *,
        headers: Mapping[str, str],
        length: int | None = None,
    ) -> Any:
        """Send bytes, or a file of a known length, under headers of their own."""
        lines = dict(headers) if length is None else {**headers, "Content-Length": str(length)}
        response = self._send(
            method,
            path,
            query=None,
            body=None,
            raw=content,
            timeout=self._timeout,
            headers=lines,
        )
        data = response.read()
        if response.status >= 400:
            raise _fault(response.status, data)
        return json.loads(data) if data else {}

    def stream(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """GET a path and yield its lines as they come."""
        response = self._send("GET", path, query=query, body=None, raw=None, timeout=None)
        if response.status >= 400:
            raise _fault(response.status, response.read())
        while line := response.readline():
            yield line.rstrip(b"\r\n")

    def pieces(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """GET a path and yield its bytes as they come; a cut connection is Unreachable."""
        response = self._send("GET", path, query=query, body=None, raw=None, timeout=None)
        if response.status >= 400:
            raise _fault(response.status, response.read())
        try:
            while piece := response.read1(64 * 1024):
                yield piece
        except (http.client.HTTPException, OSError) as cut:
            raise Unreachable(f"the server at {self.url} hung up") from cut
        finally:
            # What was not read to its end would be taken for the next answer.
            self._connection = None

    def download(self, path: str) -> Iterator[bytes]:
        """GET a path and yield its bytes in pieces; the last one comes only if all have come."""
        response = self._send("GET", path, query=None, body=None, raw=None, timeout=self._timeout)
        if response.status >= 400:
            raise _fault(response.status, response.read())
        try:
            while piece := response.read(_PIECE_BYTES):
                yield piece
        except (http.client.IncompleteRead, OSError) as fault:
            self._connection = None
            raise Unreachable(f"the server at {self.url} hung up in the middle") from fault

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None,
        body: Any,
        raw: bytes | BinaryIO | None,
        timeout: float | None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        target = self._parts.path + path
        if query:
            target += "?" + urlencode(query, doseq=True)
        lines = {"Accept": "application/json", **(headers or {})}
        if self._authorization:
            lines["Authorization"] = self._authorization
        payload = raw
        if body is not None:
            payload = json.dumps(body).encode()
            lines["Content-Type"] = "application/json"
        for last_try in (False, True):
            fresh = self._connection is None
            connection = self._connection or self._connect(timeout)
            try:
                if payload is not None and not isinstance(payload, bytes):
                    payload.seek(0)
                connection.request(method, target, payload, lines)
                self._connection = connection
                return connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as gone:
                self._connection = None
                if last_try or fresh:
                    raise Unreachable(f"the server at {self.url} hung up") from gone
            except OSError as fault:
                self._connection = None
                reason = fault.strerror or str(fault)
                raise Unreachable(f"no server answers at {self.url}: {reason}") from fault
        raise AssertionError

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        host = self._parts.hostname or ""
        if self._parts.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ.get("YARD_CA_FILE"))
            return http.client.HTTPSConnection(
                host, self._parts.port, timeout=timeout, context=context
            )
        return http.client.HTTPConnection(host, self._parts.port, timeout=timeout)


def _fault(status: int, data: bytes) -> ApiFault:
    try:
        shaped = json.loads(data)
        return ApiFault(status, shaped["error_code"], shaped["message"], shaped.get("details"))
    except (ValueError, KeyError, TypeError):
        return ApiFault(status, "UNKNOWN", f"the server answered {status}")


def home() -> Path:
    """Return the local server's home folder."""
    return Path(os.environ.get("YARD_HOME") or "~/.trackyard").expanduser()


def home_address() -> str:
    """Return where the server of the home listens; one that is gone is Unreachable."""
    url, pid = _noted()
    if not url:
        return DEFAULT_URL
    if not _is_alive(pid):
        raise Unreachable(f"the server of {home()} is not running; it was at {url}")
    return url


def _noted() -> tuple[str, int]:
    """Return the address and process that the home's server noted; empty where it did not."""
    try:
        noted = json.loads((home() / "server.json").read_text())
        return str(noted["url"]), int(noted["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", 0


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_own(url: str) -> bool:
    """Tell whether an address is this machine's: nobody else is shown the home's admin token."""
    host = urlsplit(url).hostname or ""
    is_near = host in ("localhost", "::1") or host.startswith("127.")
    return is_near or host == urlsplit(_noted()[0]).hostname


def home_token() -> str | None:
    """Return the admin token of a server on this machine, if this user may read it."""
    try:
        return (home() / "token").read_text().strip() or None
    except OSError:
        return None


def login_path() -> Path:
    """Return the file in which `yard login` keeps server and token."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "trackyard" / "login.json"


def load_login() -> dict[str, str]:
    """Return what `yard login` stored; a file others can read is not believed."""
    path = login_path()
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            return {}
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def save_login(url: str, token: str) -> Path:
    """Keep a server's address and token for this user alone."""
    path = login_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": url.rstrip("/"), "token": token}, file)
    path.chmod(0o600)
    return path
