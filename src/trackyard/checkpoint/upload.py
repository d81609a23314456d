"""Second places for checkpoints: another folder, or a run's artifacts over MLflow's protocol.

Owns copying there in order (parts, manifest, pointer) and fetching the newest back. Raises
CheckpointError; whether a failed copy matters is the caller's decision.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from trackyard.checkpoint.store import (
    LATEST,
    MANIFEST,
    Checkpoint,
    CheckpointError,
    CheckpointFolder,
    digest,
    parse_manifest,
)

TRIES = 5
REQUEST_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024


class Target(Protocol):
    """A second place for checkpoints."""

    def put(self, checkpoint: Checkpoint) -> None:
        """Copy a complete checkpoint there."""
        ...

    def fetch(self, into: CheckpointFolder) -> Checkpoint | None:
        """Bring the newest one back, or return None if there is none."""
        ...


class FolderTarget:
    """Another folder, such as one on a shared disk."""

    def __init__(self, path: Path, *, keep: int = 3) -> None:
        self._folder = CheckpointFolder(path, keep=keep)

    def put(self, checkpoint: Checkpoint) -> None:
        """Copy the checkpoint under its own name."""
        if (self._folder.path / checkpoint.name).exists():
            return
        _replicate(checkpoint, self._folder)

    def fetch(self, into: CheckpointFolder) -> Checkpoint | None:
        """Copy the newest whole one back."""
        newest = self._folder.latest()
        return None if newest is None else _replicate(newest, into)


class HttpTarget:
    """A folder on an HTTP server that takes PUT and GET, such as a run's artifacts."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = dict(headers or {})

    def put(self, checkpoint: Checkpoint) -> None:
        """Upload the parts, then the manifest, then the pointer."""
        for part in checkpoint.parts:
            self._put_file(f"{checkpoint.name}/{part.name}", checkpoint.path / part.name)
        manifest = json.dumps(checkpoint.manifest()).encode()
        self._put(f"{checkpoint.name}/{MANIFEST}", manifest)
        pointer = {"name": checkpoint.name, "step": checkpoint.step}
        self._put(LATEST, json.dumps(pointer).encode())

    def fetch(self, into: CheckpointFolder) -> Checkpoint | None:
        """Download what the pointer names and check every byte of it."""
        pointer = self.read(LATEST)
        if pointer is None:
            return None
        name = str(json.loads(pointer)["name"])
        manifest = self.read(f"{quote(name, safe='')}/{MANIFEST}")
        if manifest is None:
            return None
        try:
            told = parse_manifest(json.loads(manifest), into.path / name)
        except (ValueError, KeyError, TypeError) as fault:
            raise CheckpointError(
                f"the manifest at {self._url} cannot be read: {fault}"
            ) from fault

        def fill(folder: Path) -> None:
            for part in told.parts:
                place = folder / part.name
                place.parent.mkdir(parents=True, exist_ok=True)
                self._get_file(f"{told.name}/{part.name}", place)
                if digest(place) != part.sha256:
                    raise CheckpointError(f"{part.name} arrived damaged from {self._url}")

        return into.write(fill, step=told.step, metadata=told.metadata, name=told.name)

    def _put_file(self, name: str, path: Path) -> None:
        for attempt in range(TRIES):
            with path.open("rb") as body:
                status = self._request("PUT", name, body, size=path.stat().st_size)
            if 200 <= status < 300:
                return
            _judge(status, attempt, f"{name} could not be uploaded to {self._url}")

    def _put(self, name: str, body: bytes) -> None:
        for attempt in range(TRIES):
            status = self._request("PUT", name, body, size=len(body))
            if 200 <= status < 300:
                return
            _judge(status, attempt, f"{name} could not be uploaded to {self._url}")

    def read(self, name: str) -> bytes | None:
        """Return a small file's content, or None if there is no such file."""
        kept = _Bytes()
        for attempt in range(TRIES):
            kept.data = b""
            status = self._request("GET", name, None, sink=kept)
            if status == 200:
                return kept.data
            if status == 404:
                return None
            _judge(status, attempt, f"{name} could not be fetched from {self._url}")
        return None

    def _get_file(self, name: str, place: Path) -> None:
        for attempt in range(TRIES):
            with place.open("wb") as sink:
                status = self._request("GET", name, None, sink=sink)
            if status == 200:
                return
            _judge(status, attempt, f"{name} could not be fetched from {self._url}")

    def _request(
        self, method: str, name: str, body: Any, *, size: int = 0, sink: Any = None
    ) -> int:
        parts = urlsplit(f"{self._url}/{quote(name, safe='/?=&')}")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_SECONDS)
        headers = dict(self._headers)
        if body is not None:
            headers |= {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            if response.status == 200 and sink is not None:
                shutil.copyfileobj(response, sink, CHUNK_BYTES)
            else:
                response.read()
            return int(response.status)
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


class _Bytes:
    """A sink that keeps small answers."""

    data = b""

    def write(self, chunk: bytes) -> None:
        self.data += chunk


def run_target(environment: Mapping[str, str] | None = None) -> HttpTarget:
    """Return the artifacts of the run this process logs to, under `checkpoints/`."""
    values = os.environ if environment is None else environment
    server, run_id = values.get("MLFLOW_TRACKING_URI", ""), values.get("MLFLOW_RUN_ID", "")
    if not server.startswith(("http://", "https://")) or not run_id:
        raise CheckpointError(
            "there is no run to upload to: MLFLOW_TRACKING_URI (http) and MLFLOW_RUN_ID are set "
            "inside a job; elsewhere set them, or name a folder"
        )
    headers = _credentials(values)
    base = server.rstrip("/")
    query = urlencode({"run_id": run_id})
    answer = HttpTarget(f"{base}/api/2.0/mlflow", headers).read(f"runs/get?{query}")
    try:
        uri = str(json.loads(answer or b"")["run"]["info"]["artifact_uri"])
    except (ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{base} does not tell where run {run_id} keeps files") from fault
    scheme, _, path = uri.partition(":")
    if scheme != "mlflow-artifacts":
        raise CheckpointError(f"run {run_id} keeps its files at {uri}, not behind its server")
    place = quote(urlsplit(path).path.strip("/"))
    return HttpTarget(f"{base}/api/2.0/mlflow-artifacts/artifacts/{place}/checkpoints", headers)


def _credentials(values: Mapping[str, str]) -> dict[str, str]:
    token = values.get("MLFLOW_TRACKING_TOKEN")
    user, word = values.get("MLFLOW_TRACKING_USERNAME"), values.get("MLFLOW_TRACKING_PASSWORD")
    if user and word:
        both = base64.b64encode(f"{user}:{word}".encode()).decode()
        return {"Authorization": f"Basic {both}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _judge(status: int, attempt: int, failure: str) -> None:
    said = "the server did not answer" if status == 0 else f"the server answered {status}"
    retried = status == 0 or status in (408, 429) or status >= 500
    if not retried or attempt == TRIES - 1:
        raise CheckpointError(f"{failure}: {said}")
    time.sleep(min(0.25 * 2**attempt, 5.0))


def _replicate(checkpoint: Checkpoint, folder: CheckpointFolder) -> Checkpoint:
    def fill(target: Path) -> None:
        for part in checkpoint.parts:
            place = target / part.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint.path / part.name, place)
            if digest(place) != part.sha256:
                raise CheckpointError(f"{part.name} arrived damaged in {folder.path}")

    return folder.write(
        fill, step=checkpoint.step, metadata=checkpoint.metadata, name=checkpoint.name
    )
