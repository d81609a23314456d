"""What a run tells while it trains: to a file beside it, and to a tracking server if there is one.

Owns the thread that sends; training only puts into a queue and never waits for the network. Speaks
MLflow's REST, so that any tracking server of that kind will do. Knows no torch.
"""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from trackyard.client.api import Api, ApiFault, Unreachable

log = logging.getLogger(__name__)
#: metrics and files that may wait to be sent; beyond it the oldest wait no longer matters
_QUEUE = 10_000
_BATCH = 500
FINISH_SECONDS = 60.0


class Tracker:
    """Logs to `metrics.jsonl` in a folder, and to a run where there is one."""

    def __init__(self, folder: Path, *, run: TrackedRun | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._file = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self.run = run
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=_QUEUE)
        self._thread = threading.Thread(target=self._send_all, name="tracking", daemon=True)
        #: sentences on what could not be sent
        self.failures: list[str] = []
        if run is not None:
            self._thread.start()

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers of a step."""
        now = time.time_ns() // 1_000_000
        self._file.write(json.dumps({"step": step, "time_ms": now, **values}) + "\n")
        self._file.flush()
        self._put(
            [
                {"key": key, "value": _number(value), "timestamp": now, "step": step}
                for key, value in values.items()
            ]
        )

    def params(self, values: Mapping[str, Any]) -> None:
        """Log settings, once."""
        self._put({"params": [{"key": k, "value": str(v)[:6000]} for k, v in values.items()]})

    def tags(self, values: Mapping[str, Any]) -> None:
        """Log tags."""
        self._put({"tags": [{"key": k, "value": str(v)[:5000]} for k, v in values.items()]})

    def text(self, path: str, content: str) -> None:
        """Log a small text as a file, beside the run and of it."""
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
        self._put((path, content.encode()))

    def call(self, what: Callable[..., None], *arguments: Any) -> None:
        """Have a call to the server made behind."""
        self._put(_Call(what, arguments))

    def close(self, *, seconds: float = FINISH_SECONDS) -> None:
        """Send what is left, for at most so long."""
        self._file.close()
        if self.run is not None and self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(seconds)

    def _put(self, item: Any) -> None:
        if self.run is None:
            return
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self.failures.append("the tracking server is too slow: some values were not sent")

    def _send_all(self) -> None:
        while True:
            items = [self._queue.get()]
            while len(items) < _BATCH and not self._queue.empty():
                items.append(self._queue.get_nowait())
            self._send([item for item in items if item is not None])
            if any(item is None for item in items):
                return

    def _send(self, items: list[Any]) -> None:
        run = self.run
        assert run is not None
        metrics = [point for item in items if isinstance(item, list) for point in item]
        for start in range(0, len(metrics), _BATCH):
            self._try(run.log, {"metrics": metrics[start : start + _BATCH]})
        for item in items:
            if isinstance(item, dict):
                self._try(run.log, item)
            elif isinstance(item, _Call):
                self._try(item.what, *item.arguments)
            elif isinstance(item, tuple):
                self._try(run.upload, *item)

    def _try(self, what: Callable[..., None], *arguments: Any) -> None:
        try:
            what(*arguments)
        except (ApiFault, Unreachable, OSError) as fault:
            # Training is worth more than its log, which is in the file as well.
            self.failures.append(str(fault))
            log.warning("the run was not told: %s", fault)


@dataclass(frozen=True, slots=True)
class _Call:
    what: Callable[..., None]
    arguments: tuple[Any, ...]


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


class TrackedRun:
    """One run on a tracking server."""

    def __init__(self, api: Api, run_id: str) -> None:
        self._api = api
        self.run_id = run_id
        self._artifacts = ""
        # One connection, which the sending thread and the end of a run share.
        self._lock = threading.Lock()

    @classmethod
    def from_environment(cls) -> TrackedRun | None:
        """Return the run this process logs to, as a job's variables name it."""
        url, run_id = os.environ.get("MLFLOW_TRACKING_URI", ""), os.environ.get("MLFLOW_RUN_ID")
        if not url.startswith(("http://", "https://")) or not run_id:
            return None
        return cls(Api(url, os.environ.get("MLFLOW_TRACKING_TOKEN"), timeout=30.0), run_id)

    def log(self, body: Mapping[str, Any]) -> None:
        """Send metrics, parameters or tags."""
        self._mlflow("POST", "runs/log-batch", {"run_id": self.run_id, **body})

    def upload(self, path: str, content: bytes | Path) -> None:
        """Send a file."""
        raw = content if isinstance(content, bytes) else content.read_bytes()
        target = f"{self._base()}/{quote(path)}"
        with self._lock:
            self._api.call("PUT", target, raw=raw)

    def inputs(self, name: str, digest: str, source: str) -> None:
        """Say which data the run trains on."""
        dataset = {
            "name": name,
            "digest": digest[:36],
            "source_type": "local",
            "source": json.dumps({"uri": source}),
        }
        entry = {"dataset": dataset, "tags": [{"key": "mlflow.data.context", "value": "training"}]}
        body = {"run_id": self.run_id, "datasets": [entry]}
        self._mlflow("POST", "runs/log-inputs", body)

    def register(self, model: str, path: str, tags: Mapping[str, str]) -> str:
        """Make a folder of the run's artifacts the next version of a model; return its number."""
        try:
            self._mlflow("POST", "registered-models/create", {"name": model})
        except ApiFault as fault:
            if fault.code != "RESOURCE_ALREADY_EXISTS":
                raise
        body = {
            "name": model,
            "source": f"runs:/{self.run_id}/{path}",
            "run_id": self.run_id,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        made = self._mlflow("POST", "model-versions/create", body)
        return str(made["model_version"]["version"])

    def _mlflow(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        with self._lock:
            return self._api.mlflow(method, path, body)

    def _base(self) -> str:
        if not self._artifacts:
            found = self._mlflow("GET", "runs/get", {"run_id": self.run_id})
            place = urlsplit(found["run"]["info"]["artifact_uri"]).path.strip("/")
            self._artifacts = f"/api/2.0/mlflow-artifacts/artifacts/{quote(place)}"
        return self._artifacts
