"""What waits and runs in each queue and team, and the GPUs it holds. Reads only."""

from __future__ import annotations

from typing import Any

from trackyard.core.resources import WHOLE
from trackyard.queue.records import decode_placement
from trackyard.store.database import ReadConnection

#: Jobs that wait, jobs that run, and the GPUs these hold.
Counts = tuple[int, int, float]


def counts_by_queue(reader: ReadConnection) -> dict[str, Counts]:
    """Count by the name of the queue."""
    return _counts(reader, "queue")


def counts_by_team(reader: ReadConnection) -> dict[int, Counts]:
    """Count by the inner id of the team."""
    return _counts(reader, "team_id")


def _counts(reader: ReadConnection, column: str) -> dict[Any, Counts]:
    found: dict[Any, Counts] = {}
    for group, queued, running in reader.all(
        f"SELECT {column}, sum(CASE WHEN state = 'queued' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN state = 'queued' THEN 0 ELSE 1 END) FROM jobs"
        f" WHERE state IN ('queued', 'starting', 'running', 'stopping') GROUP BY {column}"
    ):
        found[group] = (int(queued), int(running), 0.0)
    for group, placement in reader.all(
        f"SELECT j.{column}, a.placement FROM attempts a JOIN jobs j ON j.id = a.job"
        " WHERE a.state IN ('starting', 'running', 'stopping')"
    ):
        queued, running, gpus = found.get(group, (0, 0, 0.0))
        found[group] = (
            queued,
            running,
            gpus + decode_placement(placement).gpu_milli_total / WHOLE,
        )
    return found
