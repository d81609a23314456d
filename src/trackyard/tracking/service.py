"""Tracking as the server uses it: one object that holds the database and the dictionary of
names, and settles points in the background.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from trackyard.access.principal import Principal
from trackyard.core.errors import InternalFault
from trackyard.store.database import Database, ReadConnection
from trackyard.tracking.metrics import compaction
from trackyard.tracking.metrics.points import BLOCK_POINTS
from trackyard.tracking.metrics.settling import (
    BUSY_SHARE,
    CALLERS,
    SETTLE_EVERY,
    QuietRuns,
    share_of,
)
from trackyard.tracking.names import Names
from trackyard.tracking.run_cache import RunCache
from trackyard.tracking.runs import RunView, find_run, load_runs
from trackyard.tracking.writes import RunWrites

log = logging.getLogger(__name__)


def _nobody(_team: int, _run_id: str, _count: int) -> None:
    """Hear of points where nobody follows them."""


class Tracking:
    """Experiments, runs and metrics of every team."""

    def __init__(
        self, database: Database, on_points: Callable[[int, str, int], None] = _nobody
    ) -> None:
        self.database = database
        self.names = Names(database)
        self._on_points = on_points
        self.writes = RunWrites(database, self.names, on_points)
        #: finished runs; None where another process may change them behind our back
        self.cache = RunCache() if database.is_sqlite else None
        if self.cache is not None:
            database.commit_hooks.append(self.cache.committed)
        self.pace = QuietRuns()
        self._task: asyncio.Task[None] | None = None

    @property
    def on_points(self) -> Callable[[int, str, int], None]:
        """Who is told team id, run id and count after points of a run were committed."""
        return self._on_points

    def start(self) -> None:
        """Begin to settle points in the background."""
        self._task = asyncio.get_running_loop().create_task(
            self._settle_loop(), name="yard-settle"
        )

    async def stop(self) -> None:
        """End the background work."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self, principal: Principal, run_id: str) -> RunView:
        """Return one whole run."""

        def load(reader: ReadConnection) -> RunView:
            inner = find_run(reader, principal, run_id).id
            return load_runs(reader, principal, [inner], self.cache)[0]

        return await self.database.peek(load)

    async def settle_all(self) -> int:
        """Settle every run's log now, merging small blocks; return how many rows moved."""
        moved = 0
        while True:
            runs = await self.database.read(compaction.waiting, seconds=None)
            if not runs:
                break
            before = moved
            for run, _, _ in runs:
                moved += await self._settle(run)
            if moved == before:
                break
        rows = await self.database.read(
            lambda reader: reader.all(
                "SELECT DISTINCT run_id FROM metric_blocks WHERE points < ?",
                (BLOCK_POINTS,),
            ),
            seconds=None,
        )
        for row in rows:
            await self._settle(row[0], final=True)
        return moved

    async def _settle(self, run: int, **how: Any) -> int:
        """Settle one run; one whose points are damaged holds up no other."""
        try:
            return await compaction.settle(self.database, run, **how)
        except InternalFault as fault:
            log.error("cannot settle the points of run %d: %s", run, fault.message)
            return 0

    async def _settle_loop(self) -> None:
        while True:
            began, spent = time.monotonic(), time.process_time()
            await asyncio.sleep(SETTLE_EVERY)
            # Nothing is settled meanwhile, so this is what the server's other work takes.
            share = share_of(time.process_time() - spent, time.monotonic() - began)
            try:
                waiting = await self.database.read(compaction.waiting, seconds=None)
                for run, rows in self.pace.due(waiting, share):
                    before = self.database.committed_requests
                    await self._settle(run, most=rows)
                    came = self.database.committed_requests - before
                    if share < BUSY_SHARE and came > CALLERS:
                        break  # the leisure is over; the next look knows better
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("settling metric points failed; it is tried again")
