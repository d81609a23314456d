"""The runs table as columns: only what a page shows is read. A read model over runs; changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.store.database import ReadConnection
from trackyard.tracking.experiments import outer_experiment_id
from trackyard.tracking.metrics.points import Buckets
from trackyard.tracking.names import Names
from trackyard.tracking.search.values import INDEXED_LENGTH

#: Ids given to the database at once; both kinds take far more than this.
CHUNK = 500


class MetricColumn(msgspec.Struct):
    """A metric over the runs of a table: last, least and greatest value of each."""

    last: list[float | str | None]
    min: list[float | None]
    max: list[float | None]
    step: list[int | None]


class RunsTable(msgspec.Struct):
    """A page of the runs table; every list has one entry per run, in order."""

    run_id: list[str]
    experiment_id: list[str]
    name: list[str]
    user: list[str]
    status: list[str]
    lifecycle: list[str]
    start_ms: list[int | None]
    end_ms: list[int | None]
    #: of runs that go on by themselves: when the last point was logged, or they began; else null
    heard_ms: list[int | None]
    metrics: dict[str, MetricColumn]
    params: dict[str, list[str | None]]
    tags: dict[str, list[str | None]]
    next_page_token: str | None = None


class KeyNames(msgspec.Struct):
    """The names logged to the runs of some experiments."""

    metrics: list[str]
    params: list[str]
    tags: list[str]


class MetricSeries(msgspec.Struct):
    """A metric of a run as roll-ups; every list has one entry per bucket of `width` steps."""

    run_id: str
    key: str
    width: int
    step: list[int]
    time_ms: list[int]
    last: list[float | None]
    min: list[float | None]
    max: list[float | None]
    mean: list[float | None]
    count: list[int]


def read_table(
    reader: ReadConnection,
    names: Names,
    principal: Principal,
    ids: Sequence[int],
    *,
    metrics: Sequence[str],
    params: Sequence[str],
    tags: Sequence[str],
) -> RunsTable:
    """Return the asked-for columns of some runs, in the order of their ids."""
    chosen = ",".join(str(int(one)) for one in ids) or "NULL"
    rows = {
        row[0]: row
        for row in reader.all(
            "SELECT id, uuid, experiment_id, name, user_name, status, lifecycle, start_ms, end_ms"
            f" FROM runs WHERE id IN ({chosen}) AND team_id = ?",
            (principal.team_id,),
        )
    }
    place = {inner: position for position, inner in enumerate(i for i in ids if i in rows)}
    ordered = [rows[inner] for inner in place]

    def pairs(table: str, keys: Sequence[str]) -> dict[str, list[str | None]]:
        return {
            key: _column(reader, names, place, chosen, table=table, key=key)
            for key in dict.fromkeys(keys)
        }

    return RunsTable(
        run_id=[row[1] for row in ordered],
        experiment_id=[outer_experiment_id(principal, row[2]) for row in ordered],
        name=[row[3] for row in ordered],
        user=[row[4] for row in ordered],
        status=[row[5] for row in ordered],
        lifecycle=[row[6] for row in ordered],
        start_ms=[row[7] for row in ordered],
        end_ms=[row[8] for row in ordered],
        heard_ms=_heard(reader, names, ordered),
        metrics={
            key: _metric_column(reader, names, place, chosen, key)
            for key in dict.fromkeys(metrics)
        },
        params=pairs("params", params),
        tags=pairs("tags", tags),
    )


#: The tag of runs that a job looks after: whether those live is the job's to say.
JOB_TAG = "yard.job"


def _heard(
    reader: ReadConnection, names: Names, ordered: Sequence[Sequence[Any]]
) -> list[int | None]:
    """Return when each run that goes on without a job was last heard of."""
    going = {row[0]: row[7] for row in ordered if row[5] == "RUNNING"}
    if not going:
        return [None] * len(ordered)
    chosen = ",".join(str(int(one)) for one in going)
    for run, last in reader.all(
        f"SELECT run_id, max(time_ms) FROM metric_latest WHERE run_id IN ({chosen})"
        " GROUP BY run_id"
    ):
        going[run] = max(last, going[run] or 0)
    tag = names.find(reader, JOB_TAG)
    if tag is not None:
        for (run,) in reader.all(
            f"SELECT run_id FROM tags WHERE name_id = ? AND run_id IN ({chosen})", (tag,)
        ):
            going[run] = None
    return [going.get(row[0]) for row in ordered]


def _column(
    reader: ReadConnection,
    names: Names,
    place: dict[int, int],
    chosen: str,
    *,
    table: str,
    key: str,
) -> list[str | None]:
    cells: list[str | None] = [None] * len(place)
    name_id = names.find(reader, key)
    if name_id is None or not place:
        return cells
    for run, value in reader.all(
        f"SELECT run_id, value FROM {table} WHERE name_id = ? AND run_id IN ({chosen})", (name_id,)
    ):
        if run in place:
            cells[place[run]] = value
    return cells


def _metric_column(
    reader: ReadConnection, names: Names, place: dict[int, int], chosen: str, key: str
) -> MetricColumn:
    count = len(place)
    column = MetricColumn([None] * count, [None] * count, [None] * count, [None] * count)
    name_id = names.find(reader, key)
    if name_id is None or not place:
        return column
    for run, value, least, most, step in reader.all(
        "SELECT run_id, value, least, most, step FROM metric_latest"
        f" WHERE name_id = ? AND run_id IN ({chosen})",
        (name_id,),
    ):
        if run in place:
            at = place[run]
            column.last[at] = "NaN" if value is None else value
            column.min[at], column.max[at], column.step[at] = least, most, step
    return column


#: Runs, the latest ones, of which every name is read, whatever its values are like.
LATEST = 300


def read_names(
    reader: ReadConnection, principal: Principal, experiments: Sequence[int]
) -> KeyNames:
    """Return the names of metrics, parameters and tags that runs of these experiments hold.

    Parameters and tags are found by the index of short values. A name that only ever had long
    ones is found if one of the latest runs has it.
    """
    if not experiments:
        return KeyNames([], [], [])
    marks = ",".join("?" * len(experiments))
    mine = f"r.team_id = ? AND r.experiment_id IN ({marks})"
    given = (principal.team_id, *experiments)

    def used(table: str, only: str = "") -> list[str]:
        # Walks the dictionary and asks for one row per name, instead of every row of every run.
        rows = reader.all(
            f"SELECT n.name FROM names n WHERE EXISTS (SELECT 1 FROM {table} t"
            # CROSS JOIN keeps SQLite from going over all runs for each name.
            f" CROSS JOIN runs r WHERE r.id = t.run_id AND t.name_id = n.id{only} AND {mine})"
            " OR n.id IN (SELECT t.name_id FROM"
            f" (SELECT r.id FROM runs r WHERE {mine} ORDER BY r.start_ms DESC LIMIT {LATEST}) l"
            f" JOIN {table} t ON t.run_id = l.id) ORDER BY n.name",
            given + given,
        )
        return [row[0] for row in rows]

    short = f" AND length(t.value) <= {INDEXED_LENGTH}"
    return KeyNames(used("metric_latest"), used("params", short), used("tags", short))


def shape_series(run_id: str, key: str, buckets: Buckets | None) -> MetricSeries:
    """Return roll-ups as JSON shows them, rounded to what a chart can draw."""
    if buckets is None:
        return MetricSeries(run_id, key, 1, [], [], [], [], [], [], [])
    counts = buckets.count.tolist()
    totals = buckets.total.tolist()
    means = [total / count if count else None for total, count in zip(totals, counts, strict=True)]
    return MetricSeries(
        run_id=run_id,
        key=key,
        width=1 << buckets.shift,
        step=buckets.last_step.tolist(),
        time_ms=buckets.last_time.tolist(),
        last=_rounded(buckets.last.tolist()),
        min=_rounded(buckets.least.tolist()),
        max=_rounded(buckets.most.tolist()),
        mean=_rounded(means),
        count=counts,
    )


def _rounded(values: list[Any]) -> list[float | None]:
    return [None if value is None or isnan(value) else float(f"{value:.7g}") for value in values]


def inner_ids(reader: ReadConnection, team_id: int, run_ids: Sequence[str]) -> list[int]:
    """Return the inner ids of a team's runs, in order, without those it does not have."""
    known: dict[str, int] = {}
    for start in range(0, len(run_ids), CHUNK):
        some = run_ids[start : start + CHUNK]
        marks = ",".join("?" * len(some))
        known.update(
            (row[0], row[1])
            for row in reader.all(
                f"SELECT uuid, id FROM runs WHERE team_id = ? AND uuid IN ({marks})",
                (team_id, *some),
            )
        )
    return [known[one] for one in dict.fromkeys(run_ids) if one in known]
