"""Read measures: search, fetching whole runs, metric history, and charts of long series."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from bench.tracking import shapes
from bench.tracking.load import Client, drive, percentile
from bench.tracking.servers import BenchError, Server
from bench.tracking.writes import Figures, make_runs

TOKEN = re.compile(rb'"next_page_token"\s*:\s*"([^"]+)"')
_seeded: dict[tuple[int, int], str] = {}


def seeded(server: Server, count: int) -> str:
    """Return an experiment that holds `count` finished runs, made once per server."""
    known = _seeded.get((server.process.pid, count))
    if known is not None:
        return known
    experiment = shapes.new_experiment(server, "seed")
    # Many at once fill faster, as one commit then holds many; how fast is not the question here.
    writers = 64 if count > 10_000 else 8
    made, _ = make_runs(server, experiment, count, seconds=900, writers=writers)
    if made != count:
        raise BenchError(f"{server.name}: only {made} of {count} runs could be made")
    _seeded[server.process.pid, count] = experiment
    return experiment


def _timed(server: Server, body: dict[str, Any], rounds: int, seconds: float) -> list[float]:
    data = json.dumps(body).encode()
    times: list[float] = []
    over = time.perf_counter() + seconds
    while len(times) < rounds and (len(times) < 3 or time.perf_counter() < over):
        began = time.perf_counter()
        status, raw = server.request("POST", "/api/2.0/mlflow/runs/search", data)
        times.append(time.perf_counter() - began)
        if status != 200:
            raise BenchError(f"{server.name}: search answered {status}: {raw[:300]!r}")
    return times


def _search(server: Server, count: int, seconds: float) -> Figures:
    experiment = seeded(server, count)
    body = {
        "experiment_ids": [experiment],
        "filter": "metrics.loss < 0.7 and params.model = 'resnet' and tags.tag_0 != 'value-3'",
        "order_by": ["metrics.accuracy DESC"],
        "max_results": 100,
    }
    answer = server.call("POST", "runs/search", body)
    found = answer.get("runs", [])
    values = [m["value"] for r in found for m in r["data"]["metrics"] if m["key"] == "accuracy"]
    if not found or values != sorted(values, reverse=True):
        raise BenchError(f"{server.name}: search returned {len(found)} runs, or not in order")
    times = _timed(server, body, 100, seconds)
    return {
        "runs": count,
        "page": len(found),
        "p50_ms": percentile(times, 0.5) * 1000,
        "p95_ms": percentile(times, 0.95) * 1000,
        "rounds": len(times),
    }


def search(server: Server, seconds: float) -> Figures:
    """Filter on a metric, a param and a tag, order by a metric, over 1,000 runs."""
    return _search(server, 1000, seconds)


def search_large(server: Server, seconds: float) -> Figures:
    """The same search over 100,000 runs."""
    return _search(server, 100_000, max(seconds, 20))


def fetch(server: Server, seconds: float) -> Figures:
    """Fetch 1,000 whole runs in one search."""
    experiment = seeded(server, 1000)
    body = {"experiment_ids": [experiment], "max_results": 1000}
    answer = server.call("POST", "runs/search", body)
    if len(answer["runs"]) != 1000 or len(answer["runs"][-1]["data"]["params"]) != 20:
        raise BenchError(f"{server.name}: {len(answer['runs'])} runs came back, or not whole")
    times = _timed(server, body, 20, seconds)
    return {"p50_ms": percentile(times, 0.5) * 1000, "rounds": len(times)}


def fill_series(server: Server, points: int, key: str = "loss") -> str:
    """Log one long series, 1,000 points a batch over two connections, and return its run."""
    run = shapes.new_run(server, shapes.new_experiment(server, "series"))
    head = server.head("POST", shapes.BATCH)
    begin = int(time.time() * 1000)
    firsts = iter(range(0, points, 1000))

    def writer() -> Client:
        for first in firsts:
            rows = ",".join(
                f'{{"key":"{key}","value":{2 / (1 + step * 1e-4) + step * 7919 % 997 * 1e-5!r},'
                f'"timestamp":{begin + step * 100},"step":{step}}}'
                for step in range(first, min(first + 1000, points))
            )
            body = f'{{"run_id":"{run}","metrics":[{rows}]}}'.encode()
            reply = yield shapes.framed(head, body)
            if reply.status != 200:
                return

    outcome = drive(server.host, server.port, [writer(), writer()], limit=600)
    if outcome.failures:
        raise BenchError(f"{server.name}: filling a series failed: {outcome.first_error}")
    return run


def history(server: Server, seconds: float) -> Figures:
    """Read a 100,000-point history in pages of 25,000."""
    points = 100_000
    run = fill_series(server, points)
    times: list[float] = []
    over = time.perf_counter() + seconds
    while len(times) < 20 and (not times or time.perf_counter() < over):
        times.append(_read_series(server, run, points))
    return _pace(points, times)


def history_fresh(server: Server, seconds: float) -> Figures:
    """Read the same of 200,000 points, each time of a series that was written just before."""
    points = 200_000
    times: list[float] = []
    over = time.perf_counter() + seconds
    while len(times) < 3 and (not times or time.perf_counter() < over):
        times.append(_read_series(server, fill_series(server, points), points))
    return _pace(points, times)


def _read_series(server: Server, run: str, points: int) -> float:
    """Read a whole history, check that it is whole, and return the seconds it took."""
    total, token = 0, ""
    began = time.perf_counter()
    while True:
        path = f"/api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key=loss"
        status, raw = server.request("GET", f"{path}&max_results=25000{token}")
        total += raw.count(b'"timestamp"')
        following = TOKEN.search(raw[-400:]) or TOKEN.search(raw[:400])
        if status != 200 or following is None:
            break
        token = f"&page_token={following[1].decode()}"
    took = time.perf_counter() - began
    if total != points:
        raise BenchError(f"{server.name}: history gave {total} of {points} points")
    return took


def _pace(points: int, times: list[float]) -> Figures:
    middle = percentile(times, 0.5)
    return {"points_per_s": points / middle, "p50_ms": middle * 1000, "rounds": len(times)}


#: Seconds in which the points of a run that went quiet are settled.
SETTLED_AFTER = 6.0


def chart(server: Server, seconds: float) -> Figures:
    """Draw a 1,000,000-point metric through the roll-up endpoint (Trackyard alone has one)."""
    if server.name != "trackyard":
        return {"none": "has no roll-up endpoint"}
    run = fill_series(server, 1_000_000)
    path = f"/api/v1/series?run_id={run}&key=loss"
    size = 0

    def draw() -> float:
        nonlocal size
        began = time.perf_counter()
        status, raw = server.request("GET", path)
        took = time.perf_counter() - began
        size = len(raw)
        if status != 200:
            raise BenchError(f"{server.name}: {path} answered {status}: {raw[:300]!r}")
        return took

    def draw_often() -> list[float]:
        times: list[float] = []
        over = time.perf_counter() + seconds
        while len(times) < 50 and (len(times) < 5 or time.perf_counter() < over):
            times.append(draw())
        return times

    # While the points just written are still being settled, then at rest.
    fresh = draw_often()
    time.sleep(SETTLED_AFTER)
    times = draw_often()
    return {
        "fresh_p50_ms": percentile(fresh, 0.5) * 1000,
        "fresh_p95_ms": percentile(fresh, 0.95) * 1000,
        "p50_ms": percentile(times, 0.5) * 1000,
        "p95_ms": percentile(times, 0.95) * 1000,
        "bytes": size,
        "rounds": len(times),
    }
