"""When waiting jobs start, for many at once: worked out beside the callers, shared by them.

Owns what was foreseen lately. A list must not wait for it: running ahead over a long queue takes
longer than the list itself, so a list shows what is known and has the next look made meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from trackyard.jobs.admission.answer import foresee_many
from trackyard.jobs.admission.scheduler import Pass
from trackyard.jobs.views import EtaView

#: Places in the line whose start is foreseen; a forecast further on says nothing.
FORESEEN = 100
#: How long a forecast is shown, and when another is due.
SHOWN_MS, DUE_MS = 60_000, 3_000
#: Part of the time that forecasts of up to DUE_MS may take, and how long a list waits for one.
SHARE, PATIENCE_SECONDS = 0.05, 0.05


class Foresight:
    """Forecasts of the head of the line."""

    def __init__(self) -> None:
        self._at_ms = 0
        self._took_ms = 0.0
        self._known: dict[str, EtaView | None] = {}
        self._task: asyncio.Task[None] | None = None

    async def of(self, looked: Pass, jobs: Collection[str]) -> dict[str, EtaView | None]:
        """Return what is known of these jobs' starts."""
        if not any(looked.positions.get(job, FORESEEN + 1) <= FORESEEN for job in jobs):
            return {}
        if self._is_due(looked):
            self._task = asyncio.get_running_loop().create_task(self._look(looked))
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._task), PATIENCE_SECONDS)
        if looked.at_ms - self._at_ms > SHOWN_MS:
            return {}
        return {job: self._known[job] for job in jobs if job in self._known}

    async def close(self) -> None:
        """Wait for the look in flight."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _is_due(self, looked: Pass) -> bool:
        if self._task is not None and not self._task.done():
            return False
        age = looked.at_ms - self._at_ms
        # A younger look is another queue: forecasts of a short one cost next to nothing.
        return age > 0 and age * SHARE >= min(self._took_ms, DUE_MS)

    async def _look(self, looked: Pass) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        head = looked.decisions.line[:FORESEEN]
        self._known = await asyncio.to_thread(foresee_many, looked.loaded.snapshot, head)
        self._at_ms, self._took_ms = looked.at_ms, (loop.time() - began) * 1000
