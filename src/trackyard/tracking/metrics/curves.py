"""One metric of the runs of jobs, as whoever watches them needs it: what is new, and the curve.

Owns these look-ups and adding parameters that a script did not log itself. Knows neither jobs nor
why they are watched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trackyard.access.principal import Principal
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.metrics.history import load
from trackyard.tracking.metrics.ingest import write_batch
from trackyard.tracking.metrics.points import by_step, by_time
from trackyard.tracking.names import Names
from trackyard.tracking.validation import MAX_PARAM

#: Points that a curve is thinned out to.
MAX_POINTS = 1000


def latest_marks(
    reader: ReadConnection | Tx, run_ids: Sequence[str], metric: str
) -> dict[str, tuple[int, int, float | None]]:
    """Return (step, time, value) of a metric's last point by run; runs without it are left out."""
    found: dict[str, tuple[int, int, float | None]] = {}
    for at in range(0, len(run_ids), 500):
        part = run_ids[at : at + 500]
        marks = ",".join("?" * len(part))
        rows = reader.all(
            "SELECT r.uuid, m.step, m.time_ms, m.value FROM metric_latest m"
            " JOIN runs r ON r.id = m.run_id JOIN names n ON n.id = m.name_id"
            f" WHERE n.name = ? AND r.uuid IN ({marks})",
            (metric, *part),
        )
        found |= {row[0]: (row[1], row[2], row[3]) for row in rows}
    return found


def curve(reader: ReadConnection, run_id: str, metric: str) -> list[tuple[int, float]]:
    """Return (step, value) in order; where no steps were given, the number of the report."""
    row = reader.one(
        "SELECT r.id, n.id FROM runs r, names n WHERE r.uuid = ? AND n.name = ?", (run_id, metric)
    )
    if row is None:
        return []
    points = by_step(load(reader, row[0], row[1]))
    if not len(points):
        return []
    if int(points.steps[-1]) == 0 and int(points.steps[0]) == 0:
        points = by_time(points)
        steps = np.arange(1, len(points) + 1)
    else:
        steps = points.steps
    places = np.arange(len(points))
    if len(points) > MAX_POINTS:
        places = np.unique(np.linspace(0, len(points) - 1, MAX_POINTS).astype(int))
    return [(int(steps[at]), float(points.values[at])) for at in places]


def metric_names(reader: ReadConnection | Tx, run_id: str) -> list[str]:
    """Return the metrics that a run has."""
    rows = reader.all(
        "SELECT n.name FROM metric_latest m JOIN runs r ON r.id = m.run_id"
        " JOIN names n ON n.id = m.name_id WHERE r.uuid = ? ORDER BY n.name LIMIT 200",
        (run_id,),
    )
    return [row[0] for row in rows]


def add_params(
    tx: Tx, names: Names, principal: Principal, run_id: str, params: Mapping[str, str]
) -> None:
    """Log those parameters that a run does not have; what its script logged itself stays."""
    rows = tx.all(
        "SELECT n.name FROM params p JOIN runs r ON r.id = p.run_id"
        " JOIN names n ON n.id = p.name_id WHERE r.uuid = ? AND r.lifecycle = 'active'",
        (run_id,),
    )
    known = {row[0] for row in rows}
    new = [(key, value[:MAX_PARAM]) for key, value in params.items() if key not in known]
    active = tx.one("SELECT 1 FROM runs WHERE uuid = ? AND lifecycle = 'active'", (run_id,))
    if new and active is not None:
        write_batch(tx, names, principal, run_id, series={}, params=new)
