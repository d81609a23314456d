"""The server that records go to, by its import API. Owns batches, retries and uploads.

Every call may be repeated: the server writes what it does not have.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote

import msgspec

from trackyard.client.api import Api, ApiFault
from trackyard.moving.evaluation import EvaluationSender
from trackyard.moving.records import LatestValue, RecordSource, SourceFile, SourceSeries
from trackyard.moving.report import ImportReport

_BASE = "/api/v1/import"
#: What one request may hold; the server takes ten times the bytes and twice the values.
BATCH_ITEMS, BATCH_BYTES, BATCH_VALUES = 200, 4 << 20, 30_000
BATCH_POINTS = 200_000
#: Seconds between tries while the server is busy, and how often.
_WAITS = (0.5, 1, 2, 4, 8, 15, 30)
_BUSY = frozenset((429, 503))
_JSON = {"Content-Type": "application/json"}
_PACKED = {"Content-Type": "application/msgpack"}
#: Bytes of a file that is held in memory; a larger one goes by way of the disk.
_IN_MEMORY = 8 << 20


class StoredSeries(NamedTuple):
    """What the server has of a metric."""

    points: int
    latest: LatestValue


class ServerFile(NamedTuple):
    """A file that the server has."""

    size: int
    sha256: str
    created_ms: int


class ServerTarget:
    """Sends records to one server; may be used by several threads."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._local = threading.local()

    @property
    def _own(self) -> Api:
        """This thread's connection."""
        found: Api | None = getattr(self._local, "api", None)
        if found is None:
            found = self._local.api = Api(self._api.url, self._api.token, timeout=600.0)
        return found

    def put(
        self, kind: str, name: str, items: Iterable[dict[str, Any]], **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Send items in requests of a bounded size; yield what became of each, in their order."""
        batch: list[bytes] = []
        size = values = 0
        for item in items:
            text = msgspec.json.encode(item)
            count = text.count(b",")
            if batch and (
                len(batch) >= BATCH_ITEMS
                or size + len(text) > BATCH_BYTES
                or values + count > BATCH_VALUES
            ):
                yield from self._flush(kind, name, batch, more)
                batch, size, values = [], 0, 0
            batch.append(text)
            size, values = size + len(text), values + count
        if batch:
            yield from self._flush(kind, name, batch, more)

    def _flush(
        self, kind: str, name: str, batch: list[bytes], more: dict[str, Any]
    ) -> list[dict[str, Any]]:
        body = msgspec.json.encode({name: [msgspec.Raw(text) for text in batch], **more})
        answer = self._try("POST", f"{_BASE}/{kind}", body, _JSON)
        results: list[dict[str, Any]] = answer["results"]
        return results

    def known_points(self, run_ids: list[str]) -> dict[str, dict[str, StoredSeries]]:
        """Return what the server has of the metrics of some runs."""
        body = msgspec.json.encode({"run_ids": run_ids})
        answer = self._try("POST", f"{_BASE}/points/count", body, _JSON)
        return {
            run: {
                key: StoredSeries(count, LatestValue(step, at, value))
                for key, (count, step, at, value) in known.items()
            }
            for run, known in answer["runs"].items()
        }

    def put_points(self, runs: list[tuple[str, list[SourceSeries]]]) -> tuple[int, list[str]]:
        """Send points of some runs; return how many were new, and what was refused."""
        body = msgspec.msgpack.encode(
            {
                "runs": [
                    (
                        run_id,
                        [
                            (
                                one.key,
                                one.steps.astype("<i8").tobytes(),
                                one.times.astype("<i8").tobytes(),
                                one.values.astype("<f8").tobytes(),
                            )
                            for one in series
                        ],
                    )
                    for run_id, series in runs
                ]
            }
        )
        answer = self._try("POST", f"{_BASE}/points", body, _PACKED)
        return answer["written"], answer["refused"]

    def evaluation(
        self, source: RecordSource, report: ImportReport, experiments: Mapping[str, str]
    ) -> EvaluationSender:
        """Return what sends evaluation data sets and scorers, by the calls that MLflow has."""
        return EvaluationSender(source, self._own, report, experiments)

    # -- files ------------------------------------------------------------------------------

    def files(self, owner: str) -> dict[str, ServerFile]:
        """Return the files that the server has of a run, logged model or trace."""
        found: dict[str, ServerFile] = {}
        after = ""
        while True:
            page = self._own.get(f"{_BASE}/files/{owner}", {"after": after})["files"]
            for one in page:
                found[one["path"]] = ServerFile(one["size"], one["sha256"], one["created_ms"])
            if not page:
                return found
            after = page[-1]["path"]

    def put_file(self, owner: str, file: SourceFile, known: ServerFile | None) -> tuple[bool, int]:
        """Send a file unless the server has these bytes; return whether it was sent, and size."""
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
            sha256, size = hashlib.sha256(), 0
            for piece in file.read():
                sha256.update(piece)
                size += len(piece)
                spool.write(piece)
            if known is not None and known.sha256 == sha256.hexdigest():
                return False, size
            digest = base64.b64encode(sha256.digest()).decode()
            headers = {
                "Content-Type": "application/octet-stream",
                "Content-Digest": f"sha-256=:{digest}:",
            }
            path = f"{_BASE}/files/{owner}/{quote(file.path, safe='/')}"
            spool.seek(0)
            self._try("PUT", path, spool, headers, size)  # type: ignore[arg-type]
        return True, size

    def _try(
        self,
        method: str,
        path: str,
        content: bytes | BinaryIO,
        headers: dict[str, str],
        length: int | None = None,
    ) -> Any:
        """Send a request, again while the server says that it is busy."""
        for wait in (*_WAITS, None):
            try:
                return self._own.send(method, path, content, headers=headers, length=length)
            except ApiFault as fault:
                if fault.status not in _BUSY or wait is None:
                    raise
                time.sleep(wait)
        raise AssertionError
