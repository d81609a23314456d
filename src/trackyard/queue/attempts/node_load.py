"""How busy nodes were, kept from the samples that runners send: minutes at first, hours later.

Owns `node_load`. A node on which no job ran has no samples and no rows: nothing of ours used it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import msgspec

from trackyard.store.database import ReadConnection, Tx

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
#: How long minutes are kept, and hours.
MINUTES_KEPT_MS, HOURS_KEPT_MS = 2 * DAY_MS, 400 * DAY_MS
MOST_POINTS = 2000
_KEYS = {"cpu_utilization_percentage": "cpu", "system_memory_usage_percentage": "memory"}
_GPU = re.compile(r"gpu_(\d{1,3})_utilization_percentage")
_PREFIX = re.compile(r"system/(?:\d+/)?")


class LoadPoint(msgspec.Struct):
    """One stretch of time on one node."""

    at_ms: int
    #: percent, mean and greatest over the samples
    mean: float
    most: float


class NodeLoad(msgspec.Struct):
    """How busy one part of a node was."""

    node_id: str
    #: cpu, memory, or gpu with its index
    what: str
    points: list[LoadPoint]


class LoadHistory(msgspec.Struct):
    """How busy nodes were, as far as jobs ran on them and were sampled."""

    since_ms: int
    until_ms: int
    #: length of the stretches
    width_ms: int
    loads: list[NodeLoad]


def note_samples(tx: Tx, node: str, samples: Iterable[tuple[int, Mapping[str, float]]]) -> None:
    """Add samples of a node: (time, values by metric name)."""
    found: dict[tuple[str, int], tuple[float, int, float]] = {}
    for time_ms, values in samples:
        minute = time_ms // MINUTE_MS * MINUTE_MS
        for key, value in values.items():
            what = _what(key)
            if what is None or not 0.0 <= value <= 100.0:
                continue
            total, count, most = found.get((what, minute), (0.0, 0, 0.0))
            found[what, minute] = (total + value, count + 1, max(most, value))
    # In one order everywhere, so that two servers never wait for each other.
    _add(
        tx,
        [(node, what, minute, MINUTE_MS, *sums) for (what, minute), sums in sorted(found.items())],
    )


def roll_up(tx: Tx) -> None:
    """Turn old minutes into hours, and forget the oldest hours."""
    before = (tx.now_ms - MINUTES_KEPT_MS) // HOUR_MS * HOUR_MS
    rows = tx.all(
        f"SELECT node, what, at_ms / {HOUR_MS}, sum(total), sum(count), max(most) FROM node_load"
        f" WHERE width_ms = ? AND at_ms < ? GROUP BY node, what, at_ms / {HOUR_MS}"
        " ORDER BY 1, 2, 3",
        (MINUTE_MS, before),
    )
    _add(
        tx,
        [
            (node, what, int(hour) * HOUR_MS, HOUR_MS, total, int(count), most)
            for node, what, hour, total, count, most in rows
        ],
    )
    tx.run("DELETE FROM node_load WHERE width_ms = ? AND at_ms < ?", (MINUTE_MS, before))
    tx.run(
        "DELETE FROM node_load WHERE width_ms = ? AND at_ms < ?",
        (HOUR_MS, tx.now_ms - HOURS_KEPT_MS),
    )


def history(reader: ReadConnection, since_ms: int, until_ms: int, points: int) -> LoadHistory:
    """Return how busy nodes were, in at most so many stretches of equal length."""
    least = HOUR_MS if since_ms < until_ms - MINUTES_KEPT_MS else MINUTE_MS
    span = max(until_ms - since_ms, least)
    width = max(1, math.ceil(span / points / least)) * least
    start = since_ms // width * width
    rows = reader.all(
        f"SELECT node, what, at_ms / {width}, sum(total), sum(count), max(most) FROM node_load"
        f" WHERE at_ms >= ? AND at_ms < ? GROUP BY node, what, at_ms / {width}"
        " ORDER BY 1, 2, 3",
        (start, until_ms),
    )
    loads: dict[tuple[str, str], NodeLoad] = {}
    for node, what, number, total, count, most in rows:
        load = loads.setdefault((node, what), NodeLoad(node, what, []))
        mean = round(total / int(count), 2)
        load.points.append(LoadPoint(int(number) * width, mean, round(most, 2)))
    return LoadHistory(start, until_ms, width, list(loads.values()))


def _what(key: str) -> str | None:
    prefix = _PREFIX.match(key)
    if prefix is None:
        return None
    name = key[prefix.end() :]
    gpu = _GPU.fullmatch(name)
    return f"gpu{int(gpu[1])}" if gpu else _KEYS.get(name)


def _add(tx: Tx, rows: list[tuple[str, str, int, int, float, int, float]]) -> None:
    if not rows:
        return
    tx.many(
        "INSERT INTO node_load (node, what, at_ms, width_ms, total, count, most)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (node, what, at_ms, width_ms) DO UPDATE SET"
        " total = node_load.total + excluded.total, count = node_load.count + excluded.count,"
        " most = CASE WHEN excluded.most > node_load.most THEN excluded.most"
        " ELSE node_load.most END",
        rows,
    )
