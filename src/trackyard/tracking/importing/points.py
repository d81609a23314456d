"""Whole metric histories from other trackers. Owns that no point is written twice.

Points come as columns and go straight into blocks. What is here already is looked up outside the
transaction; two importers at once could at worst store a point twice, which readers drop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.store.sqlite.journal import UPSERT_LATEST
from trackyard.tracking.importing.records import ImportedPoints
from trackyard.tracking.metrics import history
from trackyard.tracking.metrics.compaction import INSERT_BLOCK, block_row
from trackyard.tracking.metrics.ingest import wire_form
from trackyard.tracking.metrics.points import BLOCK_POINTS, Points, by_step, join
from trackyard.tracking.names import Names
from trackyard.tracking.runs import find_run
from trackyard.tracking.validation import LARGEST, check_name

MAX_POINTS = 1_000_000
MAX_SERIES = 20_000
_KEY = np.dtype([("step", np.int64), ("time", np.int64), ("value", np.int64)])
_decode = msgspec.msgpack.Decoder(ImportedPoints).decode


class FreshPoints(NamedTuple):
    """New points of one series of a run, by its inner id."""

    run: int
    key: str
    points: Points


class StoredMetric(msgspec.Struct, array_like=True):
    """What is here of a metric: settled points, and the latest point; null stands for NaN."""

    points: int
    step: int
    time_ms: int
    value: float | None


def decode(body: bytes) -> ImportedPoints:
    """Read the body of a call."""
    try:
        found = _decode(body)
    except msgspec.DecodeError as fault:
        raise InvalidInput(f"the points cannot be read: {fault}") from fault
    series = [one for _, several in found.runs for one in several]
    if len(series) > MAX_SERIES or sum(len(one[1]) for one in series) > 8 * MAX_POINTS:
        raise InvalidInput(f"one call takes at most {MAX_SERIES} series and {MAX_POINTS} points")
    return found


def columns(series: tuple[str, bytes, bytes, bytes]) -> Points:
    """Return the points of a series; what MLflow clamps is clamped."""
    key, *raw = series
    if len({len(part) for part in raw}) != 1 or len(raw[0]) % 8 or not raw[0]:
        raise InvalidInput(f"the columns of {key[:80]!r} are not of one length")
    values = np.clip(np.frombuffer(raw[2], "<f8").astype(np.float64), -LARGEST, LARGEST)
    # One NaN, whatever its bits: points are compared by them.
    values[np.isnan(values)] = np.nan
    return Points(
        np.frombuffer(raw[0], "<i8").astype(np.int64),
        np.frombuffer(raw[1], "<i8").astype(np.int64),
        values,
    )


async def put_points(
    database: Database, names: Names, principal: Principal, given: ImportedPoints
) -> tuple[int, list[str]]:
    """Write the points that are not here yet; return how many, and which series were refused."""
    refused: list[str] = []

    def compare(reader: ReadConnection) -> list[FreshPoints]:
        return [
            FreshPoints(inner, series[0], points)
            for run_id, several in given.runs
            for inner in (find_run(reader, principal, run_id).id,)
            for series in several
            for sent in _checked(run_id, series, refused)
            if len(points := _new(reader, names, inner, series[0], sent))
        ]

    fresh = await database.read(compare, seconds=None)
    if not fresh:
        return 0, refused
    keys = [one.key for one in fresh]
    found = await database.write(lambda tx: names.ids(tx, keys), is_long=True)
    loop = asyncio.get_running_loop()
    blocks, latest = await loop.run_in_executor(None, _rows, fresh, found)

    def write(tx: Tx) -> None:
        for run_id, _ in given.runs:
            find_run(tx, principal, run_id)
        tx.many(INSERT_BLOCK, blocks)
        tx.many(UPSERT_LATEST, latest)

    await database.write(write, is_long=True)
    return sum(len(one.points) for one in fresh), refused


def _checked(
    run_id: str, series: tuple[str, bytes, bytes, bytes], refused: list[str]
) -> list[Points]:
    """Return the points of a series, or note why they are refused."""
    try:
        check_name(series[0], "key")
        return [columns(series)]
    except InvalidInput as fault:
        refused.append(f"run {run_id}: {fault.message}")
        return []


def _new(reader: ReadConnection, names: Names, run: int, key: str, sent: Points) -> Points:
    """Return the points that a series lacks, sorted and each once."""
    points = by_step(sent)
    name_id = names.find(reader, key)
    if name_id is None:
        return points
    span = (int(points.steps[0]), int(points.steps[-1]))
    parts = [
        history.load(reader, run, name_id, span=span, orphans=orphans) for orphans in (False, True)
    ]
    stored = join([part for part in parts if len(part)])
    if not len(stored):
        return points
    is_new = ~np.isin(_keys(points), _keys(stored))
    return points.take(is_new)


def _keys(points: Points) -> Any:
    """Return each point as one value that can be compared: step, time and the value's bits."""
    whole = np.empty(len(points), _KEY)
    whole["step"], whole["time"] = points.steps, points.times
    whole["value"] = points.values.view(np.int64)
    return whole


def _rows(
    fresh: Sequence[FreshPoints], name_ids: Sequence[int]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    blocks, latest = [], []
    for (run, key, points), name_id in zip(fresh, name_ids, strict=True):
        for start in range(0, len(points), BLOCK_POINTS):
            part = points.take(slice(start, start + BLOCK_POINTS))
            blocks.append(block_row(run, (name_id, 0, 0), part))
        latest.append((run, name_id, *_summary(key, points)))
    latest.sort(key=lambda row: row[:2])
    return blocks, latest


def _summary(key: str, points: Points) -> tuple[Any, ...]:
    """Return step, time, value, least, most and wire form of the latest of sorted points."""
    top = points.take(points.steps == points.steps[-1])
    newest = top.take(top.times == top.times.max())
    ranked = np.nan_to_num(newest.values, nan=0.0)
    place = int(ranked.argmax())
    value = None if np.isnan(newest.values[place]) else float(newest.values[place])
    step, time_ms = int(newest.steps[place]), int(newest.times[place])
    real = points.values[~np.isnan(points.values)]
    least, most = (float(real.min()), float(real.max())) if len(real) else (None, None)
    return step, time_ms, value, least, most, wire_form(key, step, time_ms, value)


def count_points(
    reader: ReadConnection, principal: Principal, run_ids: Sequence[str]
) -> dict[str, dict[str, StoredMetric]]:
    """Return what is here of each metric, for runs of the caller's team."""
    found: dict[str, dict[str, StoredMetric]] = {}
    for at in range(0, len(run_ids), 500):
        part = run_ids[at : at + 500]
        marks = ",".join("?" * len(part))
        rows = reader.all(
            f"SELECT id, uuid FROM runs WHERE team_id = ? AND uuid IN ({marks})",
            (principal.team_id, *part),
        )
        uuids = {int(row[0]): str(row[1]) for row in rows}
        found |= {uuid: {} for uuid in uuids.values()}
        if not uuids:
            continue
        chosen = ",".join(map(str, uuids))
        counts = {
            (row[0], row[1]): int(row[2])
            for row in reader.all(
                "SELECT run_id, name_id, sum(points) FROM metric_blocks"
                f" WHERE run_id IN ({chosen}) GROUP BY run_id, name_id"
            )
        }
        for run, name_id, name, step, time_ms, value in reader.all(
            "SELECT m.run_id, m.name_id, n.name, m.step, m.time_ms, m.value FROM metric_latest m"
            f" JOIN names n ON n.id = m.name_id WHERE m.run_id IN ({chosen})"
        ):
            count = counts.get((run, name_id), 0)
            found[uuids[run]][name] = StoredMetric(count, step, time_ms, value)
    return found
