"""Which runs and experiments a transaction changes, read from the statements themselves. SQLite
only.

Every statement of a write goes through `WatchedConnection`, so no cache depends on its writers to
say what they did. Where a statement names its runs they are noted; one that is not understood
counts as a change of everything. Rows that wait in the journal are noted when they are deferred
and again when they reach their tables. Knows no cache; on PostgreSQL other servers write too, and
nothing is kept.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from trackyard.store.connection import DatabaseConnection, Row

#: Noted in place of a run where many runs may look different now.
EVERYTHING = 0

#: table -> column with the run's inner id; what a whole run is made of.
RUN_TABLES = {
    "runs": "id",
    "params": "run_id",
    "tags": "run_id",
    "metric_latest": "run_id",
    "run_datasets": "run_id",
    "run_models": "run_id",
}
#: Tables whose rows belong to many runs, or take runs with them when they go.
SHARED_TABLES = frozenset(("datasets", "names", "experiments", "teams"))
#: Tables by which a write is judged before it is made.
_JUDGED_BY = frozenset(("runs", "params"))

_STATEMENT = re.compile(r"\s*(INSERT INTO|UPDATE|DELETE FROM|SELECT|PRAGMA)\s+(\w*)", re.I)
_VALUES = re.compile(r"[^(]*\(([^()]*)\)\s*VALUES\s*\(([^()]*)\)", re.I)
_EXPERIMENT_FACTS = re.compile(r"\b(lifecycle|artifact_location)\b", re.I)


class _Effect(NamedTuple):
    """What a statement changes: runs by the place of their id among its values, or everything."""

    place: int | None
    #: whether it changes what writes are judged by
    is_fact: bool = False
    is_experiment: bool = False


_ALL = _Effect(None, is_fact=True, is_experiment=True)


class Changes:
    """What the writer's transactions change."""

    def __init__(self) -> None:
        #: inner ids of the runs changed since they were last taken
        self._runs: set[int] = set()
        # Long writes run off the event loop, where the rest of the writer's work is done.
        self._lock = threading.Lock()
        #: called at once when facts or parameters of a run change, with its id or EVERYTHING
        self.on_run: list[Callable[[int], None]] = []
        #: called at once when an experiment was deleted, restored or moved
        self.on_experiment: list[Callable[[], None]] = []

    def add(self, runs: Iterable[int]) -> None:
        """Note runs whose rows change, or will once they reach their tables."""
        with self._lock:
            self._runs.update(runs)

    def take(self) -> set[int]:
        """Return what has changed since the last call; what was undone may be among it."""
        with self._lock:
            taken, self._runs = self._runs, set()
        return taken

    def note(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Note what a statement changes when it is run with these rows of values."""
        effect = effect_of(sql)
        if effect is None or not rows:
            return
        if effect.is_experiment:
            for forget in self.on_experiment:
                forget()
        place = effect.place
        runs = {EVERYTHING} if place is None else {row[place] for row in rows}
        if place is not None or effect is _ALL:
            self.add(runs)
        if effect.is_fact:
            for hook in self.on_run:
                for run in runs:
                    hook(run)


class WatchedConnection:
    """A writer's connection that notes what its statements change."""

    def __init__(self, conn: DatabaseConnection, changes: Changes) -> None:
        self._conn = conn
        self._note = changes.note
        self.dialect = conn.dialect
        self.begin, self.commit = conn.begin, conn.commit
        self.rollback, self.close = conn.rollback, conn.close

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return every row."""
        self._note(sql, (params,))
        return self._conn.all(sql, params)

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or None."""
        self._note(sql, (params,))
        return self._conn.one(sql, params)

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        self._note(sql, (params,))
        return self._conn.run(sql, params)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        batch = list(rows)
        self._note(sql, batch)
        self._conn.many(sql, batch)

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run an INSERT and return the new row's id."""
        self._note(sql, (params,))
        return self._conn.insert(sql, params)


@lru_cache(maxsize=4096)
def effect_of(sql: str) -> _Effect | None:
    """Return what a statement changes, or None if nothing that anyone keeps."""
    found = _STATEMENT.match(sql)
    if found is None:
        return _ALL
    verb, table = found[1].upper(), found[2].lower()
    if table in RUN_TABLES:
        return _effect_on_runs(sql, verb, table)
    if table in SHARED_TABLES and verb == "DELETE FROM":
        return _ALL
    if table == "experiments" and verb == "UPDATE" and _EXPERIMENT_FACTS.search(sql):
        return _Effect(None, is_experiment=True)
    if table in SHARED_TABLES and table not in ("experiments", "teams") and verb == "UPDATE":
        return _ALL
    return None


def _effect_on_runs(sql: str, verb: str, table: str) -> _Effect | None:
    is_conflict = re.search(r"\bON CONFLICT\b", sql, re.I) is not None
    if table == "runs" and verb == "INSERT INTO" and not is_conflict:
        return None  # nobody can have kept a run that is new
    column = RUN_TABLES[table]
    place = (
        _place_in_values(sql, column) if verb == "INSERT INTO" else _place_in_where(sql, column)
    )
    return _ALL if place is None else _Effect(place, is_fact=table in _JUDGED_BY)


def _place_in_values(sql: str, column: str) -> int | None:
    """Return which value of an INSERT goes into a column, if it is a plain list of values."""
    found = _VALUES.match(sql)
    if found is None:
        return None
    columns = [name.strip().lower() for name in found[1].split(",")]
    values = [value.strip() for value in found[2].split(",")]
    if column not in columns or len(columns) != len(values):
        return None
    at = columns.index(column)
    return values[:at].count("?") if values[at] == "?" else None


def _place_in_where(sql: str, column: str) -> int | None:
    """Return which value names the run, if a statement's first condition is that it does."""
    found = re.search(rf"\bWHERE\s+{column}\s*=\s*\?", sql, re.I)
    if found is None or re.search(r"\b(OR|SELECT)\b", sql, re.I):
        return None
    return sql[: found.start()].count("?")
