"""The cluster's REST: jobs, packages and state, as plain calls that block.

Owns HTTP, the cluster's token and the translation of failures into the engine port's errors.
Knows nothing of attempts.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from trackyard.core.ports import EngineError, EngineUnavailable, LaunchRefused

CALL_SECONDS = 20.0
#: the first submission to a fresh head starts its job manager, which takes seconds
SUBMIT_SECONDS = 60.0
#: what the cluster's HTTP server takes in one body
PACKAGE_LIMIT = 100 * 1024**2
ROWS = 10_000
_TRACE_LINE = re.compile(r"^(\w+\.)*\w*(Error|Exception|Timeout)\w*: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """What a cluster says of itself."""

    ray_version: str
    #: grows a new name with each start of the head
    session: str

    def is_at_least(self, major: int, minor: int) -> bool:
        """Compare with a release of Ray."""
        found = re.match(r"(\d+)\.(\d+)", self.ray_version)
        return found is not None and (int(found[1]), int(found[2])) >= (major, minor)


class RayApi:
    """One cluster's head; safe to use from several threads."""

    def __init__(self, address: str, *, token: str = "") -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EngineError(
                f"{address!r} is no address of a Ray head; write it as ray=http://head:8265"
            )
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.address = self.address.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._token = token

    # Reading

    def cluster(self) -> ClusterInfo:
        """Ask who answers."""
        data = self._json("GET", "/api/version")
        return ClusterInfo(
            ray_version=str(data.get("ray_version", "")), session=str(data.get("session_name", ""))
        )

    def jobs(self) -> list[dict[str, Any]]:
        """List every job the cluster knows, in one call."""
        data = self._json("GET", "/api/jobs/")
        if not isinstance(data, list):
            raise EngineUnavailable(f"the Ray head at {self.address} lists no jobs: {data!r:.200}")
        return [job for job in data if isinstance(job, dict)]

    def nodes(self) -> list[dict[str, Any]]:
        """List every node, dead ones included."""
        return self._state("nodes")

    def actors(self) -> list[dict[str, Any]]:
        """List actors with what they require."""
        return self._state("actors")

    def placement_groups(self) -> list[dict[str, Any]]:
        """List placement groups with their bundles."""
        return self._state("placement_groups")

    def hardware(self, node_id: str) -> dict[str, Any]:
        """Describe a node's devices; a heavy answer, so ask once a node."""
        data = self._json("GET", f"/nodes/{quote(node_id)}")
        found = data.get("data", {}).get("detail", {}) if isinstance(data, dict) else {}
        return found if isinstance(found, dict) else {}

    def logs(self, job: str) -> bytes:
        """Return a job's whole log, or nothing where its node is gone."""
        status, body = self._call("GET", f"/api/jobs/{quote(job)}/logs")
        if status != 200:
            return b""
        text = json.loads(body).get("logs", "")
        return str(text).encode("utf-8", "surrogateescape")

    # Changing

    def submit(self, body: dict[str, Any]) -> bool:
        """Submit a job; False if its id is taken, which means that it arrived before."""
        status, answer = self._call(
            "POST", "/api/jobs/", json.dumps(body).encode(), seconds=SUBMIT_SECONDS
        )
        if status == 200:
            return True
        text = answer.decode("utf-8", "replace")
        if "already exists" in text:
            return False
        if 400 <= status < 500:
            raise LaunchRefused(f"Ray refused the job: {gist(text)}")
        raise EngineUnavailable(f"Ray could not take the job ({status}): {gist(text)}")

    def stop(self, job: str) -> bool:
        """Ask Ray to stop a job; tell whether it found someone to ask."""
        status, answer = self._call("POST", f"/api/jobs/{quote(job)}/stop")
        if status != 200:
            return False
        return bool(json.loads(answer).get("stopped"))

    def delete(self, job: str) -> bool:
        """Drop an ended job from Ray's list; one that is not there is dropped already."""
        status, _ = self._call("DELETE", f"/api/jobs/{quote(job)}")
        return status in (200, 404)

    def has_package(self, name: str) -> bool:
        """Tell whether a package is there; asking also keeps it for ten minutes."""
        return self._call("GET", f"/api/packages/gcs/{quote(name)}")[0] == 200

    def put_package(self, name: str, content: bytes) -> None:
        """Upload a package."""
        status, answer = self._call(
            "PUT", f"/api/packages/gcs/{quote(name)}", content, seconds=SUBMIT_SECONDS
        )
        if status != 200:
            text = answer.decode("utf-8", "replace")
            raise EngineUnavailable(f"Ray did not take a package ({status}): {gist(text)}")

    # HTTP

    def _state(self, what: str) -> list[dict[str, Any]]:
        data = self._json("GET", f"/api/v0/{what}?detail=1&limit={ROWS}")
        try:
            rows = data["data"]["result"]["result"]
        except (KeyError, TypeError) as fault:
            said = data.get("msg") if isinstance(data, dict) else data
            raise EngineUnavailable(f"Ray does not list its {what}: {said!r:.200}") from fault
        return [row for row in rows if isinstance(row, dict)]

    def _json(self, method: str, path: str) -> Any:
        status, body = self._call(method, path)
        if status != 200:
            text = body.decode("utf-8", "replace")
            raise EngineUnavailable(f"the Ray head answered {status} to {path}: {gist(text)}")
        try:
            return json.loads(body)
        except ValueError as fault:
            raise EngineUnavailable(f"what answers at {self.address} is no Ray head") from fault

    def _call(
        self, method: str, path: str, body: bytes | None = None, *, seconds: float = CALL_SECONDS
    ) -> tuple[int, bytes]:
        headers = {"Accept": "*/*", "User-Agent": "trackyard"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None and method == "POST":
            headers["Content-Type"] = "application/json"
        connection = self._connect(seconds)
        try:
            connection.request(method, self._base + path, body=body, headers=headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as fault:
            why = str(fault) or type(fault).__name__
            raise EngineUnavailable(
                f"the Ray head at {self.address} does not answer: {why}"
            ) from fault
        finally:
            connection.close()
        if response.status in (401, 403):
            raise EngineUnavailable(
                f"the Ray head at {self.address} wants another token; put the cluster's token "
                "into a file and name it with ray_token_file"
            )
        return response.status, content

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=seconds, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=seconds)


def gist(text: str) -> str:
    """Return the sentence in what Ray says, which is mostly a traceback."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "it said nothing"
    said = next((line for line in reversed(lines) if _TRACE_LINE.match(line)), lines[-1])
    return _TRACE_LINE.sub("", said)[:500]
