"""A server in its own process, callers with different rights, and requests sent word for word."""

import http.client
import json
import os
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.serving import TrackingServer

PROXY = "/api/2.0/mlflow-artifacts/artifacts"


@dataclass
class Site(TrackingServer):
    """A server with chosen flags."""

    flags: list[str] = field(default_factory=list)

    def command(self) -> list[str]:
        return [*super().command(), *self.flags]

    def token_for(self, user: str, role: str, team: str = "default") -> str:
        """Make a user, a team if need be, and a token."""
        for path, body in (("users", {"name": user}), ("teams", {"name": team})):
            self.ask("POST", f"/api/v1/{path}", json=body)
        self.ask("PUT", f"/api/v1/teams/{team}/members/{user}", json={"role": role})
        wish = {"user": user, "team": team, "role": role}
        return str(self.post("/api/v1/tokens", **wish)["token"])

    def caller(self, token: str | None = None) -> "Caller":
        """Return someone who calls with a token; the admin unless told otherwise."""
        return Caller(self, self.token if token is None else token)

    @property
    def blobs(self) -> list[Path]:
        """Every file below the folder of artifacts."""
        files = [path for path in (self.home / "artifacts").rglob("*") if path.is_file()]
        return [path for path in files if path.name != "store.id"]


@dataclass(frozen=True)
class Answer:
    """A reply, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The error code of MLflow's error form; a reply in any other form fails here."""
        data = json.loads(self.body)
        assert {"error_code", "message"} <= set(data) <= {"error_code", "message", "details"}, data
        assert "Traceback" not in data["message"]
        return str(data["error_code"])


@dataclass(frozen=True)
class Caller:
    """Someone with a credential."""

    site: Site
    token: str

    def send(self, method: str, target: str, body: Any = None, **headers: str) -> Answer:
        """Send a request whose target is not touched on the way."""
        connection = http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=180)
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            lines.setdefault("Authorization", f"Bearer {self.token}")
        if isinstance(body, dict):
            body, lines["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.request(method, target, body=body, headers=lines)
            reply = connection.getresponse()
            named = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, named, reply.read())
        finally:
            connection.close()

    def run(self) -> str:
        """Make a run and return its root below the proxy: `/<experiment>/<run>/artifacts`."""
        reply = self.send("POST", "/api/2.0/mlflow/runs/create", {"experiment_id": "0"})
        uri: str = json.loads(reply.body)["run"]["info"]["artifact_uri"]
        return uri.removeprefix("mlflow-artifacts:")

    def put(self, root: str, path: str, data: bytes) -> Answer:
        """Upload a file."""
        return self.send("PUT", f"{PROXY}{root}/{path}", data)

    def get(self, root: str, path: str, **headers: str) -> Answer:
        """Download a file."""
        return self.send("GET", f"{PROXY}{root}/{path}", **headers)

    def open(self, method: str, target: str, *lines: str) -> socket.socket:
        """Send a request's head and leave the rest to the test."""
        connection = socket.create_connection(("127.0.0.1", self.site.port), timeout=180)
        head = [
            f"{method} {target} HTTP/1.1",
            f"Host: 127.0.0.1:{self.site.port}",
            f"Authorization: Bearer {self.token}",
            *lines,
        ]
        connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        return connection


def run_id_of(root: str) -> str:
    """Return the run in a root."""
    return root.split("/")[2]


def reset(connection: socket.socket) -> None:
    """Break a connection off as a crashed machine's network does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def resident_bytes(pid: int) -> int:
    """Return the memory a process holds."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
