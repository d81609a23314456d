"""Talks to the server: heartbeats, log chunks, samples and the exit record, over plain HTTP.

Owns retries, order and catching up after an outage. README.md documents the four endpoints.
Nothing here may stop the command for want of a server; only an answer of 409 does (an old
epoch), or a stop the server asks for in its answer to a heartbeat.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional
from urllib.parse import quote, urlsplit

from trackyard.runner.logs import LogSpool
from trackyard.runner.spec import ReportSpec, RunnerSpec
from trackyard.runner.watch import answers

CHUNK_BYTES = 512 * 1024
REQUEST_SECONDS = 20.0
FIRST_RETRY_SECONDS = 0.25
FIRST_BEAT_SECONDS = 0.05
LAST_RETRY_SECONDS = 5.0
KEPT_SAMPLES = 2000
SAMPLES_PER_REQUEST = 200
#: answers that asking again will not change
FINAL_STATUSES = frozenset({400, 401, 403, 404, 409, 410, 413, 422})


class ServerReply(NamedTuple):
    """What the server said; status 0 stands for no answer at all."""

    status: int
    body: Dict[str, Any]


class Caller:
    """One kept-alive connection with an attempt's credential on every request."""

    def __init__(self, url: str, token: str, attempt_id: str, epoch: int) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._base = f"{parts.path}/api/v1/attempts/{quote(attempt_id)}"
        self._headers = {"Authorization": f"Bearer {token}", "X-Yard-Epoch": str(epoch)}
        self._live: Optional[http.client.HTTPConnection] = None

    def post(self, path: str, body: bytes, content_type: str = "application/json") -> ServerReply:
        """Send one request; a connection that went stale is opened anew once."""
        for fresh in (False, True):
            reused = self._live is not None
            try:
                return self._post(path, body, content_type)
            except (OSError, http.client.HTTPException):
                self.close()
                if fresh or not reused:
                    break
        return ServerReply(0, {})

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._live is not None:
            self._live.close()
            self._live = None

    def _post(self, path: str, body: bytes, content_type: str) -> ServerReply:
        if self._live is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._live = kind(self._host, self._port, timeout=REQUEST_SECONDS)
        headers = {**self._headers, "Content-Type": content_type}
        self._live.request("POST", self._base + path, body=body, headers=headers)
        response = self._live.getresponse()
        content = response.read()
        try:
            data = json.loads(content) if content else {}
        except ValueError:
            data = {}
        return ServerReply(response.status, data if isinstance(data, dict) else {})


class ServerConnection(Caller):
    """A connection of the runner itself, which speaks for one member."""

    def __init__(self, spec: RunnerSpec, report: ReportSpec) -> None:
        super().__init__(report.url, report.token, spec.attempt_id, spec.epoch)
        self._headers["X-Yard-Member"] = str(spec.gang.member)


class RunnerReporter:
    """Two threads: one beats and sends samples, one ships the log."""

    def __init__(
        self,
        spec: RunnerSpec,
        spool: LogSpool,
        *,
        describe: Callable[[], Dict[str, Any]],
        sample: Callable[[], Dict[str, float]],
        on_answer: Callable[[ServerReply], None],
    ) -> None:
        if spec.report is None:
            raise ValueError("a reporter needs somewhere to report to")
        self._spec = spec
        self._report = spec.report
        self._spool = spool
        self._describe = describe
        self._sample = sample
        self._on_answer = on_answer
        self._beats = ServerConnection(spec, spec.report)
        self._logs = ServerConnection(spec, spec.report)
        self._samples: Deque[Dict[str, Any]] = deque(maxlen=KEPT_SAMPLES)
        self._sample_number = 0
        self._stop = threading.Event()
        self._beat_now = threading.Event()
        self._log_now = threading.Event()
        self._offset = 0
        self._log_number = 0
        self._log_status = 0
        #: when the command was over, and when the server last took something after that
        self._ended = self._heard = 0.0
        self.last_accepted = time.monotonic()
        self._threads = [
            threading.Thread(target=self._beat_loop, name="beat", daemon=True),
            threading.Thread(target=self._log_loop, name="log", daemon=True),
        ]

    def start(self) -> None:
        """Begin to beat and to ship."""
        for thread in self._threads:
            thread.start()

    def beat_soon(self) -> None:
        """Beat now rather than at the next interval."""
        self._beat_now.set()

    def log_soon(self) -> None:
        """Ship what the log holds."""
        self._log_now.set()

    def finish(self, record: Dict[str, Any]) -> bool:
        """Deliver the rest: log, exit record, samples. Returns whether all of it arrived."""
        self._stop.set()
        self._beat_now.set()
        self._log_now.set()
        for thread in self._threads:
            thread.join(timeout=REQUEST_SECONDS + 1)
        self._ended = self._heard = time.monotonic()
        body = json.dumps(record).encode()
        # A huge backlog of log must not keep the slot's end from being known.
        soon = self._ended + 1.0
        self._ship(lambda pause: time.monotonic() + pause > soon)
        told = self._tell_end(body)
        self._send_samples()
        return self._ship(self._gives_up) and told

    def _gives_up(self, pause: float) -> bool:
        """Tell whether there is no use in trying again after `pause` seconds."""
        then = time.monotonic() + pause
        if then - self._ended > self._report.linger_seconds or not self._spec.state_dir.is_dir():
            return True
        # Of a cluster that is gone nobody will ask; record and log stay on disk all the same.
        is_late = then - self._heard > self._report.alone_seconds
        return is_late and bool(self._spec.witness) and not answers(self._spec.witness)

    def _tell_end(self, body: bytes) -> bool:
        pause = FIRST_RETRY_SECONDS
        while True:
            answer = self._beats.post("/exit", body)
            if 200 <= answer.status < 300:
                return True
            if answer.status in FINAL_STATUSES:
                return False
            if self._gives_up(pause):
                return False
            time.sleep(pause)
            pause = min(pause * 2, LAST_RETRY_SECONDS)

    def _ship(self, gives_up: Callable[[float], bool]) -> bool:
        pause = FIRST_RETRY_SECONDS
        while self._offset < self._spool.end:
            if self._ship_chunk():
                pause = FIRST_RETRY_SECONDS
                if gives_up(0):
                    return False
                continue
            if self._log_status in FINAL_STATUSES or gives_up(pause):
                return False
            time.sleep(pause)
            pause = min(pause * 2, LAST_RETRY_SECONDS)
        return True

    def _log_loop(self) -> None:
        pause = FIRST_RETRY_SECONDS
        while not self._stop.is_set():
            self._log_now.wait(timeout=1.0)
            self._log_now.clear()
            while self._offset < self._spool.end and not self._stop.is_set():
                if self._ship_chunk():
                    pause = FIRST_RETRY_SECONDS
                    continue
                self._stop.wait(pause)
                pause = min(pause * 2, LAST_RETRY_SECONDS)
            # A chatty command is shipped a few times a second, not line by line.
            self._stop.wait(0.1)

    def _ship_chunk(self) -> bool:
        data = self._spool.read(self._offset, CHUNK_BYTES)
        if not data:
            return False
        path = (
            f"/logs?member={self._spec.gang.member}&offset={self._offset}&seq={self._log_number}"
        )
        answer = self._logs.post(path, data, "application/octet-stream")
        self._log_status = answer.status
        held = answer.body.get("next_offset")
        if answer.status == 409:
            self._on_answer(answer)
        if answer.status == 416 and isinstance(held, int):
            # The server holds less (restored from a backup) or more (a lost answer): follow it.
            if held == self._offset:
                return False
            self._offset = max(0, min(held, self._spool.end))
            return True
        if not 200 <= answer.status < 300:
            return False
        after = self._offset + len(data)
        self._offset = after if not isinstance(held, int) else max(0, min(held, after))
        self._log_number += 1
        self._heard = time.monotonic()
        self._spool.acknowledge(self._offset)
        return True

    def _beat_loop(self) -> None:
        next_sample = time.monotonic() + min(1.0, self._report.sample_seconds)
        pause = FIRST_RETRY_SECONDS
        # Most commands start at once: one beat then says all, and the server is spared another.
        self._beat_now.wait(timeout=FIRST_BEAT_SECONDS)
        self._beat_now.clear()
        while not self._stop.is_set():
            answer = self._beats.post("/heartbeat", json.dumps(self._describe()).encode())
            self._on_answer(answer)
            accepted = 200 <= answer.status < 300
            if accepted:
                self.last_accepted = time.monotonic()
                pause = FIRST_RETRY_SECONDS
            if time.monotonic() >= next_sample:
                next_sample = time.monotonic() + self._report.sample_seconds
                self._take_sample()
            if accepted:
                self._send_samples()
            wait = self._report.heartbeat_seconds
            if answer.status == 0 or answer.status >= 500:
                wait = min(pause, wait)
                pause = min(pause * 2, LAST_RETRY_SECONDS)
            self._beat_now.wait(timeout=wait)
            self._beat_now.clear()

    def _take_sample(self) -> None:
        values = self._sample()
        if values:
            self._sample_number += 1
            self._samples.append(
                {
                    "seq": self._sample_number,
                    "time_ms": time.time_ns() // 1_000_000,
                    "values": values,
                }
            )

    def _send_samples(self) -> None:
        while self._samples:
            batch = [self._samples[i] for i in range(min(len(self._samples), SAMPLES_PER_REQUEST))]
            body = json.dumps({"member": self._spec.gang.member, "samples": batch}).encode()
            answer = self._beats.post("/samples", body)
            refused = answer.status in (400, 404, 413, 422)
            if not (200 <= answer.status < 300 or refused):
                return
            for _ in batch:
                self._samples.popleft()
