"""Stops that were asked for: who was told, and when Ray is asked to end what did not end.

Owns the order of means: the runner's own channel, then Ray's stop. Judges nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from trackyard.core.clock import Clock
from trackyard.core.ports import AttemptPhase, AttemptReport, EngineError, ExitCause
from trackyard.engines.ray.api import RayApi
from trackyard.engines.ray.channel import ReportChannel

#: what a runner gets beyond its grace: the way of the order, the sweep and the last report
SLACK_SECONDS = 12.0
#: between two calls for the same attempt
REPEAT_SECONDS = 5.0


@dataclass(slots=True)
class _Stop:
    reason: ExitCause
    due: float
    #: Ray is not asked again before this
    quiet_until: float = 0.0


class Stops:
    """The stops in force."""

    def __init__(self, api: RayApi, channel: ReportChannel, clock: Clock) -> None:
        self._api = api
        self._channel = channel
        self._clock = clock
        self._lock = threading.Lock()
        self._stops: dict[str, _Stop] = {}

    def ask(
        self, attempt_id: str, grace_seconds: float, reason: ExitCause, *, reports: bool
    ) -> None:
        """Ask for an end; asking again may shorten the grace, never lengthen it."""
        grace = max(0.0, grace_seconds)
        self._channel.order_stop(attempt_id, grace_seconds=grace, reason=reason)
        # Who does not report, or is not heard any more, is reached through Ray alone.
        slack = SLACK_SECONDS if reports and reason is not ExitCause.FENCED else -grace
        due = self._clock.monotonic() + grace + slack
        with self._lock:
            known = self._stops.get(attempt_id)
            if known is None:
                self._stops[attempt_id] = _Stop(reason, due)
            else:
                known.due = min(known.due, due)

    def asked(self, attempt_id: str) -> ExitCause | None:
        """Return why an attempt was asked to stop, if it was."""
        with self._lock:
            known = self._stops.get(attempt_id)
        return None if known is None else known.reason

    def drop(self, attempt_id: str) -> None:
        """Forget a stop."""
        with self._lock:
            self._stops.pop(attempt_id, None)

    def press(self, reports: Mapping[str, AttemptReport]) -> None:
        """Ask Ray to end what is overdue; a job that Ray still starts cannot be stopped yet."""
        now = self._clock.monotonic()
        with self._lock:
            late = [
                (attempt_id, stop)
                for attempt_id, stop in self._stops.items()
                if now >= max(stop.due, stop.quiet_until)
            ]
        for attempt_id, stop in late:
            report = reports.get(attempt_id)
            if report is None or report.phase is not AttemptPhase.RUNNING:
                continue
            stop.quiet_until = now + REPEAT_SECONDS
            with contextlib.suppress(EngineError):
                self._api.stop(attempt_id)
