"""Tracking as the server uses it: one object that holds the database and the dictionary of
names, and settles points
in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from trackyard.access.principal import Principal
from trackyard.store.database import Database, Reader
from trackyard.store.names import Names
from trackyard.tracking import compaction
from trackyard.tracking.points import BLOCK_POINTS
from trackyard.tracking.quick import QuickRuns
from trackyard.tracking.runs import Run, find_run, load_runs
from trackyard.tracking.shelf import Shelf

log = logging.getLogger(__name__)

#: Seconds between looks at the log, and looks a quiet run is given before its rest is settled.
SETTLE_EVERY = 1.0
QUIET_LOOKS = 3


class Tracking:
    """Experiments, runs and metrics of every team."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.names = Names(database)
        self.quick = QuickRuns(database, self.names)
        #: finished runs; None where another process may change them behind our back
        self.shelf = Shelf() if database.is_sqlite else None
        if self.shelf is not None:
            database.commit_hooks.append(self.shelf.committed)
        self._task: asyncio.Task[None] | None = None
        self._quiet: dict[int, tuple[int, int]] = {}
        #: told (team id, run id) after points of a run were committed
        self.on_points: Callable[[int, str], None] = lambda _team, _run: None

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

    async def run(self, principal: Principal, run_id: str) -> Run:
        """Return one whole run."""

        def load(reader: Reader) -> Run:
            inner = find_run(reader, principal, run_id).id
            return load_runs(reader, principal, [inner], self.shelf)[0]

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
                moved += await compaction.settle(self.database, run)
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
            await compaction.settle(self.database, row[0], final=True)
        return moved

    async def _settle_loop(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_EVERY)
            try:
                await self._settle_some()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("settling metric points failed; it is tried again")

    async def _settle_some(self) -> None:
        """Settle runs with many rows at once, and the rest of runs that went quiet."""
        runs = await self.database.read(compaction.waiting, seconds=None)
        seen: dict[int, tuple[int, int]] = {}
        for run, rows, points in runs:
            before, looks = self._quiet.get(run, (-1, 0))
            looks = looks + 1 if rows == before else 0
            full = rows >= compaction.ENOUGH_ROWS or points >= compaction.ENOUGH_POINTS
            if full or looks >= QUIET_LOOKS:
                await compaction.settle(self.database, run)
            else:
                seen[run] = (rows, looks)
        self._quiet = seen
