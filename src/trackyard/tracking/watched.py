"""Runs as a watcher sees them: which are running, and the latest points of some metrics.

Owns queries over runs and latest values for many runs at once, a bounded slice at a time. Knows
no rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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


def latest_values(reader: ReadConnection, run: int) -> list[tuple[Any, ...]]:
    """Return name, last, least and greatest value, step and time of a run's metrics, by name."""
    return reader.all(
        "SELECT n.name, m.value, m.least, m.most, m.step, m.time_ms FROM metric_latest m"
        " JOIN names n ON n.id = m.name_id WHERE m.run_id = ? ORDER BY n.name",
        (run,),
    )


def last_logged_ms(reader: ReadConnection | Tx, run_uuid: str) -> int | None:
    """Return when a run was last logged a metric of its own, or None."""
    row = reader.one(
        "SELECT max(m.time_ms) FROM metric_latest m JOIN runs r ON r.id = m.run_id"
        " JOIN names n ON n.id = m.name_id WHERE r.uuid = ? AND n.name NOT LIKE 'system/%'",
        (run_uuid,),
    )
    return None if row is None or row[0] is None else int(row[0])


def last_logged_step(reader: ReadConnection | Tx, run_uuid: str, since_ms: int) -> int | None:
    """Return the last step of a run's own metrics logged since a time, or None."""
    row = reader.one(
        "SELECT max(m.step) FROM metric_latest m JOIN runs r ON r.id = m.run_id"
        " JOIN names n ON n.id = m.name_id WHERE r.uuid = ? AND m.time_ms >= ?"
        " AND n.name NOT LIKE 'system/%'",
        (run_uuid, since_ms),
    )
    return None if row is None or row[0] is None else int(row[0])


def lost_loss(reader: ReadConnection | Tx, run_uuid: str) -> tuple[str, int] | None:
    """Return name and step of a loss of a run that is no number any more, or None."""
    row = reader.one(
        "SELECT n.name, m.step FROM metric_latest m JOIN runs r ON r.id = m.run_id"
        " JOIN names n ON n.id = m.name_id WHERE r.uuid = ? AND m.value IS NULL"
        " AND lower(n.name) LIKE '%loss%' LIMIT 1",
        (run_uuid,),
    )
    return None if row is None else (str(row[0]), int(row[1]))


def experiments_of(reader: ReadConnection, run_uuids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the experiment and team of runs, by their ids."""
    found: dict[str, tuple[int, int]] = {}
    for at in range(0, len(run_uuids), SLICE):
        part = run_uuids[at : at + SLICE]
        marks = ",".join("?" * len(part))
        for uuid, experiment, team_id in reader.all(
            f"SELECT uuid, experiment_id, team_id FROM runs WHERE uuid IN ({marks})", part
        ):
            found[uuid] = (experiment, team_id)
    return found


def points_after(
    reader: ReadConnection, after: int, most: int
) -> tuple[int, list[tuple[int, str]]]:
    """Return the newest row of the log, and team and id of runs with rows after one."""
    row = reader.one("SELECT max(id) FROM metric_log")
    newest = int(row[0] or 0) if row else 0
    if not after or newest <= after:
        return max(newest, after), []
    rows = reader.all(
        "SELECT team_id, uuid FROM runs WHERE id IN (SELECT run_id FROM metric_log WHERE id > ?)"
        " LIMIT ?",
        (after, most),
    )
    return newest, [(row[0], row[1]) for row in rows]


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
