"""Turning figures into a table with ratios; knows names and units, not how they are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Results = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Row:
    """One line of the table: which figure of which measure, and which way is better."""

    measure: str
    figure: str
    title: str
    unit: str
    higher: bool = True


ROWS = (
    Row(
        "ingest",
        "points_per_s",
        "durable ingest, 8 writers x 500 points (10 keys x 50 steps)",
        "points/s",
    ),
    Row(
        "ingest_wide", "points_per_s", "durable ingest, 8 writers x 500 keys x 1 step", "points/s"
    ),
    Row("single", "calls_per_s", "single log-metric calls, 8 writers", "calls/s"),
    Row("runs", "runs_per_s", "runs created and logged (20 params, 10 metrics, 5 tags)", "runs/s"),
    Row("search", "p50_ms", "search with filter and order, 1,000 runs, p50", "ms", False),
    Row("search", "p95_ms", "search with filter and order, 1,000 runs, p95", "ms", False),
    Row("search_large", "p95_ms", "search with filter and order, 100,000 runs, p95", "ms", False),
    Row("fetch", "p50_ms", "fetch 1,000 whole runs", "ms", False),
    Row("history", "points_per_s", "read a 100,000-point history", "points/s"),
    Row("history_fresh", "points_per_s", "read 200,000 points just written", "points/s"),
    Row("chart", "p95_ms", "chart of a 1,000,000-point metric, p95", "ms", False),
    Row("chart", "fresh_p95_ms", "the same right after it was written, p95", "ms", False),
    Row("chart", "bytes", "chart of a 1,000,000-point metric", "bytes", False),
    Row("disk", "bytes_per_point", "disk at rest", "bytes/point", False),
    Row("artifact", "up_growth_mb", "memory growth, artifact streaming in", "MB", False),
    Row("artifact", "down_growth_mb", "memory growth, artifact streaming out", "MB", False),
    Row("crowd", "failed", "128 clients at once, 512 log-batch calls: failed", "calls", False),
    Row("crowd", "p50_ms", "128 clients at once, p50", "ms", False),
    Row("crowd", "p99_ms", "128 clients at once, p99", "ms", False),
    Row("thousand", "failed", "1,000 clients, 3,000 calls: never acknowledged", "calls", False),
    Row("thousand", "p99_ms", "1,000 clients, p99", "ms", False),
    Row("startup", "ready_s", "start to ready", "s", False),
    Row("startup", "rss_mb", "resident memory, all processes", "MB", False),
    Row("startup", "processes", "processes", "", False),
)


def number(value: float) -> str:
    """Write a figure with about three significant digits."""
    if math.isnan(value):
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}".removesuffix(".00")


def ratio(row: Row, ours: float, theirs: float) -> str:
    """Say how many times better ours is."""
    if not ours or not theirs or row.unit in ("calls", ""):
        return ""
    times = ours / theirs if row.higher else theirs / ours
    return f"{times:,.0f}x" if times >= 10 else f"{times:.1f}x"


def middle(measure: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the round whose first figure is the median; a failed round counts above all."""
    failed = [figures for figures in rounds if "error" in figures]
    if failed or len(rounds) == 1:
        return (failed or rounds)[0]
    figure = next(row.figure for row in ROWS if row.measure == measure)
    return sorted(rounds, key=lambda figures: float(figures[figure]))[len(rounds) // 2]


def _value(results: Results, peer: str, row: Row) -> float | None:
    found = results.get(peer, {}).get(row.measure, {}).get(row.figure)
    return None if found is None else float(found)


def table(results: Results, versions: dict[str, str]) -> str:
    """Return the Markdown table of everything that was measured."""
    peers = [p for p in ("mlflow", "fasttrackml", "trackyard") if p in results]
    ours = "trackyard" in peers
    rivals = [p for p in peers if p != "trackyard"] if ours else []
    heads = ["what", "unit", *(f"{p} {versions.get(p, '')}".strip() for p in peers)]
    heads += [f"against {p}" for p in rivals]
    lines = [" | ".join(heads), " | ".join(["---", "---"] + ["---:"] * (len(heads) - 2))]
    for row in ROWS:
        values = {p: _value(results, p, row) for p in peers}
        if all(v is None for v in values.values()):
            continue
        cells = [row.title, row.unit]
        cells += ["" if value is None else number(value) for value in values.values()]
        for rival in rivals:
            mine, theirs = values["trackyard"], values[rival]
            cells.append("" if mine is None or theirs is None else ratio(row, mine, theirs))
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)
