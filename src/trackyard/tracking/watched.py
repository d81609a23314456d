"""Runs as a watcher sees them: which are running, and the latest points of some metrics.

Owns queries over runs and latest values for many runs at once, a bounded slice at a time. Knows
no rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trackyard.store.database import ReadConnection, Tx

#: Runs that one query asks about.
SLICE = 400


class WatchedRun(NamedTuple):
    """A run that is running."""

    id: int
    uuid: str
    team_id: int
    name: str
    user_name: str
    start_ms: int
    status: str


class LatestPoint(NamedTuple):
    """The latest point of one metric of a run; NaN where it is none."""

    run: int
    name_id: int
    step: int
    time_ms: int
    value: float
    least: float | None
    most: float | None


_COLUMNS = "id, uuid, team_id, name, user_name, coalesce(start_ms, 0), status"


def running_runs(reader: ReadConnection) -> list[WatchedRun]:
    """Return every run that has not ended."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM runs WHERE status IN ('RUNNING', 'SCHEDULED')"
        " AND lifecycle = 'active'"
    )
    return [WatchedRun(*row) for row in rows]


def runs_by_uuid(reader: ReadConnection, uuids: Sequence[str]) -> list[WatchedRun]:
    """Return runs by their ids, whatever their state."""
    found = []
    for part in _slices(uuids):
        marks = ",".join("?" * len(part))
        rows = reader.all(f"SELECT {_COLUMNS} FROM runs WHERE uuid IN ({marks})", tuple(part))
        found += [WatchedRun(*row) for row in rows]
    return found


def is_run_of(reader: ReadConnection | Tx, team_id: int, uuid: str) -> bool:
    """Tell whether a team has a run."""
    row = reader.one("SELECT 1 FROM runs WHERE uuid = ? AND team_id = ?", (uuid, team_id))
    return row is not None


def metric_ids(reader: ReadConnection, names: Iterable[str]) -> dict[str, int]:
    """Return the inner ids of metrics that were ever logged."""
    wanted = sorted(set(names))
    found: dict[str, int] = {}
    for part in _slices(wanted):
        marks = ",".join("?" * len(part))
        rows = reader.all(f"SELECT name, id FROM names WHERE name IN ({marks})", tuple(part))
        found.update((row[0], row[1]) for row in rows)
    return found


def loss_ids(reader: ReadConnection) -> list[int]:
    """Return the inner ids of all metrics that are called a loss."""
    rows = reader.all("SELECT id FROM names WHERE lower(name) LIKE '%loss%' LIMIT 200")
    return [int(row[0]) for row in rows]


def latest_points(
    reader: ReadConnection, runs: Sequence[int], name_ids: Sequence[int]
) -> Iterable[LatestPoint]:
    """Return the latest points of some metrics of many runs."""
    names = sorted(set(name_ids))
    if not names:
        return
    for part in _slices(runs):
        for few in _slices(names):
            rows = reader.all(
                "SELECT run_id, name_id, step, time_ms, value, least, most FROM metric_latest"
                f" WHERE run_id IN ({','.join('?' * len(part))})"
                f" AND name_id IN ({','.join('?' * len(few))})",
                (*part, *few),
            )
            for run, name_id, step, time_ms, value, least, most in rows:
                number = math.nan if value is None else float(value)
                yield LatestPoint(run, name_id, step, time_ms, number, least, most)


def last_logged(reader: ReadConnection, uuids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the last time and step at which runs logged a metric of their own."""
    found: dict[str, tuple[int, int]] = {}
    for part in _slices(uuids):
        rows = reader.all(
            "SELECT r.uuid, max(m.time_ms), max(m.step) FROM runs r"
            " JOIN metric_latest m ON m.run_id = r.id JOIN names n ON n.id = m.name_id"
            f" WHERE r.uuid IN ({','.join('?' * len(part))}) AND n.name NOT LIKE 'system/%'"
            " GROUP BY r.uuid",
            tuple(part),
        )
        found.update((row[0], (int(row[1]), int(row[2]))) for row in rows)
    return found


def _slices(values: Sequence[int] | Sequence[str]) -> Iterable[Sequence[int] | Sequence[str]]:
    for at in range(0, len(values), SLICE):
        yield values[at : at + SLICE]
