"""Whole runs in their wire form, kept in memory until a commit changes them.

Owns the rule that none is ever served stale: a run leaves the cache with the commit that changed
it, before that commit is acknowledged, and what a reader loaded while it was under way is not
kept. SQLite only, where no other process writes. Readers' threads and the event loop share it.
Knows neither how runs are loaded nor what changed them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import NamedTuple

from trackyard.store.sqlite.changes import EVERYTHING
from trackyard.tracking.runs import RunView

#: Bytes of finished JSON kept at a time, and changed runs remembered one by one.
CACHE_BYTES = 32 << 20
CHANGED_RUNS = 20_000


class _Kept(NamedTuple):
    team_id: int
    run: RunView
    size: int


class RunCache:
    """Runs by their inner id."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        # Keeping a run is a look and a write; no commit may come between them.
        self._lock = threading.Lock()
        self._runs: dict[int, _Kept] = {}
        self._size = 0
        #: commits seen, and the one that last changed a run
        self._commit = 0
        self._changed: dict[int, int] = {}
        #: the first commit from which on `_changed` is complete
        self._complete_from = 0

    def mark(self) -> int:
        """Return the present moment; to be asked before loading what is put."""
        return self._commit

    def get(self, inner: int, team_id: int) -> RunView | None:
        """Return a run of a team, if it is here."""
        kept = self._runs.get(inner)
        return kept.run if kept is not None and kept.team_id == team_id else None

    def put(self, inner: int, team_id: int, run: RunView, *, size: int, mark: int) -> None:
        """Keep a run that was loaded since `mark`, unless it was changed meanwhile."""
        with self._lock:
            if mark < self._complete_from or self._changed.get(inner, -1) > mark:
                return
            if self._size + size > self._limit:
                self._runs.clear()
                self._size = 0
            before = self._runs.get(inner)
            self._size += size - (before.size if before is not None else 0)
            self._runs[inner] = _Kept(team_id, run, size)

    def committed(self, changed: Collection[int]) -> None:
        """Let go of what a commit has changed."""
        with self._lock:
            self._commit += 1
            if EVERYTHING in changed or len(self._changed) + len(changed) > CHANGED_RUNS:
                self._runs.clear()
                self._size = 0
                self._changed.clear()
                self._complete_from = self._commit
                return
            for inner in changed:
                self._changed[inner] = self._commit
                kept = self._runs.pop(inner, None)
                if kept is not None:
                    self._size -= kept.size
