"""Fetches the files of a data set to the node: several connections at once, each piece checked
against its SHA-256, going on where an earlier try ended. Knows nothing of limits and locks.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Callable, Dict, List, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from trackyard.runner.data.cache import CHECKED_NS, is_checked

#: As in the server: larger files are stored in parts of this size.
PART_BYTES = 32 * 1024**2
BATCH_BYTES = 8 * 1024**2
BATCH_CONTENTS = 512
CONNECTIONS = 8
TRIES = 6
SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024
Pause = Callable[[float], None]
Progress = Callable[[int], None]


class FetchError(Exception):
    """The data set cannot be fetched; the message says why."""


@dataclass(frozen=True)
class DatasetFile:
    """A file of the data set."""

    path: str
    size: int
    sha256: str
    parts: Tuple[str, ...] = ()


@dataclass(frozen=True)
class FilePiece:
    """A content and where in which file it belongs."""

    sha256: str
    size: int
    file: DatasetFile
    offset: int


class DatasetServer:
    """The server's routes for one data set, with the runner's credential."""

    def __init__(self, location: str, token: str, epoch: int) -> None:
        self._parts = urlsplit(location)
        self._headers = {"Authorization": f"Bearer {token}", "X-Yard-Epoch": str(epoch)}

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection."""
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(self._parts.hostname or "", self._parts.port, timeout=SECONDS)

    def manifest(self, digest: str, pause: Pause) -> bytes:
        """Return the manifest, checked against the version's digest."""
        trouble = ""
        for number in range(TRIES):
            if number:
                pause(_delay(number))
            connection = self.connect()
            try:
                connection.request("GET", f"{self._parts.path}/manifest", headers=self._headers)
                response = connection.getresponse()
                data = response.read()
                if response.status == 200 and hashlib.sha256(data).hexdigest() == digest:
                    return data
                trouble = _refusal(response.status, data)
                if response.status in (401, 403, 404):
                    break
            except (OSError, http.client.HTTPException) as fault:
                trouble = str(fault)
            finally:
                connection.close()
        raise FetchError(trouble)

    def ask(
        self, connection: http.client.HTTPConnection, pieces: Sequence[FilePiece]
    ) -> http.client.HTTPResponse:
        """Ask for the bytes of some contents."""
        base = self._parts.path.rpartition("/data/")[0]
        body = json.dumps({"contents": [piece.sha256 for piece in pieces]})
        headers = {**self._headers, "Content-Type": "application/json"}
        connection.request("POST", f"{base}/data/fetch", body=body, headers=headers)
        return connection.getresponse()


def read_manifest(data: bytes) -> List[DatasetFile]:
    """Read a manifest whose digest was checked; its paths are validated nevertheless."""
    found = []
    for line in data.splitlines():
        row = json.loads(line)
        path = str(row[0])
        parts = path.split("/")
        if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise FetchError(f"the manifest names {path!r}, which leaves the data set's folder")
        pieces = tuple(str(one) for one in row[3]) if len(row) > 3 else ()
        found.append(DatasetFile(path, int(row[1]), str(row[2]), pieces))
    return found


class DatasetTransfer:
    """Fetches what is missing below a folder."""

    def __init__(
        self, server: DatasetServer, root: Path, files: Sequence[DatasetFile], *, mode: int = 0o444
    ) -> None:
        self._mode = mode
        self._server = server
        self._root = root
        self._files = files
        self._queue: Queue[List[FilePiece]] = Queue()
        self._lock = threading.Lock()
        self._left: Dict[str, int] = {}
        self._done_bytes = 0
        self._fault = ""
        self._stopping = threading.Event()

    def run(self, pause: Pause, progress: Progress, twins: Dict[str, Path]) -> int:
        """Fetch every file; return how many bytes came over the network."""
        missing = self._prepare(twins)
        fetched = sum(file.size for file in missing)
        self._done_bytes = sum(file.size for file in self._files) - fetched
        progress(self._done_bytes)
        for batch in _batches(missing):
            self._queue.put(batch)
        workers = [
            threading.Thread(target=self._work, daemon=True)
            for _ in range(min(CONNECTIONS, self._queue.qsize()))
        ]
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers):
                pause(0.05)
                progress(self._done_bytes)
        finally:
            self._stopping.set()
            for worker in workers:
                worker.join(timeout=2.0)
        if self._fault:
            raise FetchError(self._fault)
        return fetched

    def _prepare(self, twins: Dict[str, Path]) -> List[DatasetFile]:
        """Make the folders, link what other versions hold, and return what has to be fetched."""
        for folder in {file.path.rpartition("/")[0] for file in self._files}:
            (self._root / folder).mkdir(parents=True, exist_ok=True)
        missing = []
        for file in self._files:
            path = self._root / file.path
            if is_checked(path, file.size):
                continue
            twin = twins.get(file.sha256)
            if twin is not None and is_checked(twin, file.size) and _link(twin, path):
                continue
            self._left[file.path] = max(1, len(file.parts))
            if path.exists():
                path.unlink()
            with path.open("wb") as sink:
                sink.truncate(file.size)
            if file.size:
                missing.append(file)
            else:
                _finish(path, self._mode)
        return missing

    def _work(self) -> None:
        connection: Optional[http.client.HTTPConnection] = None
        try:
            while not self._stopping.is_set():
                try:
                    batch = self._queue.get_nowait()
                except Empty:
                    return
                connection = self._fetch(batch, connection)
        except FetchError as fault:
            self._fail(str(fault))
        except OSError as fault:
            self._fail(f"a file cannot be written: {fault}")
        finally:
            if connection is not None:
                connection.close()

    def _fail(self, sentence: str) -> None:
        self._fault = self._fault or sentence
        self._stopping.set()

    def _fetch(
        self, batch: List[FilePiece], connection: Optional[http.client.HTTPConnection]
    ) -> Optional[http.client.HTTPConnection]:
        """Fetch a batch; pieces that arrived whole are not requested again."""
        trouble, left = "", batch
        for number in range(TRIES):
            if number and self._stopping.wait(_delay(number)):
                return connection
            connection = connection or self._server.connect()
            try:
                response = self._server.ask(connection, left)
                if response.status == 200:
                    left = self._take(response, left)
                    if not left:
                        return connection
                    trouble = "bytes arrived damaged"
                else:
                    trouble = _refusal(response.status, response.read())
                    if response.status in (400, 401, 403, 404):
                        break
            except (http.client.HTTPException, ConnectionError, TimeoutError) as fault:
                trouble = str(fault) or type(fault).__name__
            connection.close()
            connection = None
        raise FetchError(trouble)

    def _take(
        self, response: http.client.HTTPResponse, pieces: List[FilePiece]
    ) -> List[FilePiece]:
        """Write pieces as they arrive; return the first damaged one and all after it."""
        for at, piece in enumerate(pieces):
            data = bytearray()
            while len(data) < piece.size:
                chunk = response.read(min(CHUNK_BYTES, piece.size - len(data)))
                if not chunk:
                    raise http.client.IncompleteRead(b"", piece.size - len(data))
                data += chunk
                if self._stopping.is_set():
                    return []
            if hashlib.sha256(data).hexdigest() != piece.sha256:
                return pieces[at:]
            self._write(piece, data)
        response.read()
        return []

    def _write(self, piece: FilePiece, data: bytearray) -> None:
        path = self._root / piece.file.path
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.pwrite(descriptor, data, piece.offset)
        finally:
            os.close(descriptor)
        with self._lock:
            self._left[piece.file.path] -= 1
            is_whole = self._left[piece.file.path] == 0
            self._done_bytes += piece.size
        if is_whole:
            _finish(path, self._mode)


def _batches(files: Sequence[DatasetFile]) -> List[List[FilePiece]]:
    found: List[List[FilePiece]] = []
    size = BATCH_BYTES
    for file in files:
        for piece in _pieces(file):
            if size + piece.size > BATCH_BYTES or len(found[-1]) >= BATCH_CONTENTS:
                found.append([])
                size = 0
            found[-1].append(piece)
            size += piece.size
    return found


def _pieces(file: DatasetFile) -> List[FilePiece]:
    if not file.parts:
        return [FilePiece(file.sha256, file.size, file, 0)]
    found = []
    for at, sha256 in enumerate(file.parts):
        size = min(PART_BYTES, file.size - at * PART_BYTES)
        found.append(FilePiece(sha256, size, file, at * PART_BYTES))
    return found


def _finish(path: Path, mode: int) -> None:
    """Mark a file as checked; on nodes it is read only from then on."""
    path.chmod(mode)
    os.utime(path, ns=(time.time_ns(), CHECKED_NS))


def _link(twin: Path, path: Path) -> bool:
    try:
        if path.exists():
            path.unlink()
        os.link(twin, path)
    except OSError:
        return False
    return True


def _delay(number: int) -> float:
    return min(2.0**number * 0.25, 5.0)


def _refusal(status: int, data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {status}"
