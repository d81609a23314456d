"""What is foreseen of waiting jobs: for many at once, worked out beside the callers, and for one.

Owns what was foreseen lately, and who works it out: a thread for a short queue, a process for a
long one, where running ahead would hold up passes and requests. A list must not wait for it: it
shows what is known and has the next look made meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence

from trackyard.access.principal import Principal
from trackyard.control.forecast.client import ForecastClient, ForecastUnavailable
from trackyard.control.forecast.messages import PreviewQuery, SmallerQuery, StartsQuery
from trackyard.control.forecast.preview import (
    FEW_WAITING,
    JobPreview,
    foresee_many,
    full,
    lessen,
)
from trackyard.control.loop import LastPass
from trackyard.queue.specification import JobRequest, JobSpec
from trackyard.queue.views import EtaView, SmallerRequestView

_Starts = dict[str, EtaView | None]

#: Places in the line whose start is foreseen; a forecast further on says nothing.
FORESEEN = 100
#: How long a forecast is shown, and when another is due.
SHOWN_MS, DUE_MS = 60_000, 3_000
#: Part of the time that forecasts of up to DUE_MS may take, and how long a list waits for one.
SHARE, PATIENCE_SECONDS = 0.05, 0.05


class Forecaster:
    """Runs ahead of the queue: in a thread where it is short, else in a process of its own."""

    def __init__(self, desk: ForecastClient | None = None) -> None:
        self.desk = desk

    async def starts(self, looked: LastPass, jobs: Sequence[str]) -> _Starts:
        """Foresee when waiting jobs start, in one run ahead; Unanswered where it must wait."""
        desk = self._desk(looked)
        if desk is None:
            return await asyncio.to_thread(foresee_many, looked.loaded.snapshot, jobs)
        return await desk.ask(StartsQuery(now_ms=looked.at_ms, jobs=list(jobs)), _Starts)

    async def start(self, looked: LastPass, job: str) -> EtaView | None:
        """Foresee when one waiting job starts; None where no start is in sight."""
        with contextlib.suppress(ForecastUnavailable):
            return (await self.starts(looked, [job])).get(job)
        return None

    async def lesser(self, looked: LastPass, job: str) -> list[SmallerRequestView]:
        """Say which lesser requests of a waiting job would start now."""
        desk = self._desk(looked)
        if desk is not None:
            with contextlib.suppress(ForecastUnavailable):
                return await desk.ask(
                    SmallerQuery(now_ms=looked.at_ms, job=job), list[SmallerRequestView]
                )
        return await asyncio.to_thread(lessen, looked.loaded.snapshot, job)

    async def wished(
        self, looked: LastPass, principal: Principal, wish: JobRequest, spec: JobSpec
    ) -> JobPreview:
        """Say what a job would meet that is not submitted yet."""
        desk = self._desk(looked)
        if desk is not None:
            asked = PreviewQuery(now_ms=looked.at_ms, principal=principal, wish=wish, spec=spec)
            with contextlib.suppress(ForecastUnavailable):
                return await desk.ask(asked, JobPreview)
        return await asyncio.to_thread(full, looked.loaded.snapshot, principal, wish, spec)

    def _desk(self, looked: LastPass) -> ForecastClient | None:
        return self.desk if len(looked.loaded.snapshot.waiting) > FEW_WAITING else None

    async def close(self) -> None:
        """End what still runs ahead."""
        if self.desk is not None:
            await self.desk.close()


class QueueForecast:
    """Forecasts of the head of the line."""

    def __init__(self, ahead: Forecaster) -> None:
        self._ahead = ahead
        self._at_ms = 0
        self._took_ms = 0.0
        self._known: _Starts = {}
        self._task: asyncio.Task[None] | None = None

    async def of(self, looked: LastPass, jobs: Collection[str]) -> _Starts:
        """Return what is known of these jobs' starts."""
        if not any(looked.positions.get(job, FORESEEN + 1) <= FORESEEN for job in jobs):
            return {}
        if self._is_due(looked):
            self._task = asyncio.get_running_loop().create_task(self._look(looked))
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await asyncio.shield(self._task)
        if looked.at_ms - self._at_ms > SHOWN_MS:
            return {}
        return {job: self._known[job] for job in jobs if job in self._known}

    async def close(self) -> None:
        """Wait for the look in flight."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _is_due(self, looked: LastPass) -> bool:
        if self._task is not None and not self._task.done():
            return False
        age = looked.at_ms - self._at_ms
        # A younger look is another queue: forecasts of a short one cost next to nothing.
        return age > 0 and age * SHARE >= min(self._took_ms, DUE_MS)

    async def _look(self, looked: LastPass) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        head = looked.decisions.line[:FORESEEN]
        with contextlib.suppress(ForecastUnavailable):
            self._known = await self._ahead.starts(looked, head)
        self._at_ms, self._took_ms = looked.at_ms, (loop.time() - began) * 1000
