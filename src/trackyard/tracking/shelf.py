"""Whole runs in their finished form, kept in memory until something about them changes.

Owns the rule that none is ever served stale: a run leaves the shelf with the commit that touched
it, and what a reader loaded while that commit was under way is not put there. SQLite only, where
no other process writes. Knows neither how runs are loaded nor what touched them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from trackyard.store.transaction import EVERYTHING
from trackyard.tracking.runs import Run

#: Bytes of finished JSON kept at a time, and touched runs remembered one by one.
SHELF_BYTES = 32 << 20
TOUCHED = 20_000


class _Kept(NamedTuple):
    team_id: int
    run: Run
    size: int


class Shelf:
    """Runs by their inner id."""

    def __init__(self, limit: int = SHELF_BYTES) -> None:
        self._limit = limit
        self._runs: dict[int, _Kept] = {}
        self._size = 0
        #: commits seen, and the one that last touched a run
        self._commit = 0
        self._touched: dict[int, int] = {}
        #: the first commit from which on `_touched` is complete
        self._complete_from = 0

    def mark(self) -> int:
        """Return the present moment; to be asked before loading what is put."""
        return self._commit

    def get(self, inner: int, team_id: int) -> Run | None:
        """Return a run of a team, if it is here."""
        kept = self._runs.get(inner)
        return kept.run if kept is not None and kept.team_id == team_id else None

    def put(self, inner: int, team_id: int, run: Run, *, size: int, mark: int) -> None:
        """Keep a run that was loaded since `mark`, unless it was touched meanwhile."""
        if mark < self._complete_from or self._touched.get(inner, -1) > mark:
            return
        if self._size + size > self._limit:
            self._runs.clear()
            self._size = 0
        before = self._runs.get(inner)
        self._size += size - (before.size if before is not None else 0)
        self._runs[inner] = _Kept(team_id, run, size)

    def committed(self, touched: Collection[int]) -> None:
        """Let go of what a commit has touched."""
        self._commit += 1
        if EVERYTHING in touched or len(self._touched) + len(touched) > TOUCHED:
            self._runs.clear()
            self._size = 0
            self._touched.clear()
            self._complete_from = self._commit
            return
        for inner in touched:
            self._touched[inner] = self._commit
            kept = self._runs.pop(inner, None)
            if kept is not None:
                self._size -= kept.size
