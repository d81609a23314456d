"""Jobs that Ray has taken and does not start.

Ray tells neither why nor lets them be stopped, so they are given up here after a while: such an
attempt counts as ended, and should Ray start it later, its runner is refused by the server.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trackyard.core.clock import Clock
from trackyard.core.ports import AttemptPhase, AttemptReport, ExitCause, ExitRecord

#: a start takes seconds; with twenty at once on a small machine, a minute
START_SECONDS = 300.0
#: where Ray makes an environment first
SETUP_SECONDS = 1800.0
#: how long a stopped one may take to start, and so to learn of its stop
STOPPED_SECONDS = 20.0
_SLOW = ("pip", "uv", "conda", "container", "image_uri", "working_dir")


class PendingAttempts:
    """Since when each attempt waits for Ray, and those that were given up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}
        self._given_up: dict[str, AttemptReport] = {}

    def judge(
        self, report: AttemptReport, job: Mapping[str, Any], asked: ExitCause | None
    ) -> AttemptReport:
        """Return the report, or the end of an attempt that waited for Ray too long."""
        with self._lock:
            given_up = self._given_up.get(report.attempt_id)
            if given_up is not None:
                return given_up
            if report.phase is not AttemptPhase.STARTING:
                self._since.pop(report.attempt_id, None)
                return report
            now = self._clock.monotonic()
            waited = now - self._since.setdefault(report.attempt_id, now)
            environment = job.get("runtime_env") or {}
            slow = any(environment.get(key) for key in _SLOW)
            allowed = SETUP_SECONDS if slow else START_SECONDS
            if asked is not None:
                allowed = STOPPED_SECONDS
            if waited < allowed:
                return report
            ended = replace(
                report, phase=AttemptPhase.EXITED, exits=(self._record(report, waited, asked),)
            )
            self._given_up[report.attempt_id] = ended
            return ended

    def drop(self, attempt_id: str) -> None:
        """Forget an attempt."""
        with self._lock:
            self._since.pop(attempt_id, None)
            self._given_up.pop(attempt_id, None)

    def _record(self, report: AttemptReport, waited: float, asked: ExitCause | None) -> ExitRecord:
        now = self._clock.time_ms()
        sentence = "It was stopped before Ray started it."
        if asked is None:
            sentence = (
                f"Ray did not start it within {waited:.0f} s, although its share of the node "
                "was free; jobs outside the queue may hold it."
            )
        return ExitRecord(
            attempt_id=report.attempt_id,
            epoch=report.epoch,
            member=0,
            cause=asked or ExitCause.ENGINE,
            exit_code=None,
            signal=None,
            sentence=sentence,
            started_ms=now,
            ended_ms=now,
            duration_seconds=0.0,
        )
