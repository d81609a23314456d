"""Reports of a node that cannot reach the server: left in the state folder, read there.

Owns `beat.json`, the last heartbeat, and `samples.jsonl`, one sample a line. Log and exit record
lie in the state folder anyway. Stops come as `stop.json`, so nothing is ever awaited here.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any, Callable, Dict

from trackyard.runner import records
from trackyard.runner.spec import RunnerSpec

BEAT = "beat.json"
SAMPLES = "samples.jsonl"
#: a job of weeks must not fill a shared disk with samples that nobody fetched
MOST_SAMPLE_BYTES = 64 * 1024 * 1024


class FolderReporter:
    """One thread that writes down what a reporter would send."""

    def __init__(
        self,
        spec: RunnerSpec,
        *,
        describe: Callable[[], Dict[str, Any]],
        sample: Callable[[], Dict[str, float]],
    ) -> None:
        if spec.report is None:
            raise ValueError("a reporter needs somewhere to report to")
        self._spec = spec
        self._report = spec.report
        self._describe = describe
        self._sample = sample
        self._number = 0
        self._stop = threading.Event()
        self._beat_now = threading.Event()
        self.last_accepted = time.monotonic()
        self._thread = threading.Thread(target=self._loop, name="beat", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def beat_soon(self) -> None:
        """Beat now rather than at the next interval."""
        self._beat_now.set()

    def log_soon(self) -> None:
        """Do nothing: the log lies in the folder."""

    def finish(self, record: Dict[str, Any]) -> bool:
        """End; whoever reads the folder says when the server has everything."""
        del record
        self._stop.set()
        self._beat_now.set()
        self._thread.join(timeout=10)
        return False

    def _loop(self) -> None:
        next_sample = time.monotonic() + min(1.0, self._report.sample_seconds)
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                records.write_json(self._spec.state_dir / BEAT, self._describe())
            if time.monotonic() >= next_sample:
                next_sample = time.monotonic() + self._report.sample_seconds
                with contextlib.suppress(OSError):
                    self._write_sample()
            self.last_accepted = time.monotonic()
            self._beat_now.wait(timeout=self._report.heartbeat_seconds)
            self._beat_now.clear()

    def _write_sample(self) -> None:
        values = self._sample()
        place = self._spec.state_dir / SAMPLES
        if not values or (place.exists() and place.stat().st_size > MOST_SAMPLE_BYTES):
            return
        self._number += 1
        line = {"seq": self._number, "time_ms": time.time_ns() // 1_000_000, "values": values}
        with place.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
