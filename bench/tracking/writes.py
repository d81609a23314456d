"""Write measures: durable ingest, single calls, whole runs, and crowds of clients."""

from __future__ import annotations

import json
import random
import re
import resource
import time
from collections.abc import Iterator
from typing import Any

from bench.tracking import shapes
from bench.tracking.load import Client, Outcome, Reply, drive, percentile
from bench.tracking.servers import BenchError, Server

WRITERS = 8
RUN_ID = re.compile(rb'"run_id"\s*:\s*"([0-9a-f]{32})"')
Figures = dict[str, Any]


def _insist(server: Server, what: str, outcome: Outcome) -> None:
    if outcome.failures:
        raise BenchError(
            f"{server.name}: {what}: {outcome.failures} of {outcome.calls} calls failed; "
            f"first: {outcome.first_error}"
        )


def count_history(server: Server, run: str, key: str) -> int:
    """Count the points of a metric as the server gives them back."""
    total, token = 0, ""
    while True:
        path = f"/api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key={key}"
        status, raw = server.request("GET", f"{path}&max_results=25000{token}")
        if status != 200:
            raise BenchError(f"{server.name}: get-history answered {status}: {raw[:200]!r}")
        answer = json.loads(raw)
        total += len(answer.get("metrics", []))
        if not answer.get("next_page_token"):
            return total
        token = f"&page_token={answer['next_page_token']}"


def _ingest(server: Server, seconds: float, keys: int, steps: int) -> Figures:
    experiment = shapes.new_experiment(server, "ingest")
    runs = [shapes.new_run(server, experiment) for _ in range(WRITERS)]
    head = server.head("POST", shapes.BATCH)
    acked = [0] * WRITERS
    deadline = time.perf_counter() + seconds

    def writer(index: int) -> Client:
        template = shapes.BatchTemplate(head, runs[index], keys, steps, seed=index)
        while time.perf_counter() < deadline:
            reply = yield template.fill(acked[index] * steps)
            acked[index] += reply.status == 200

    outcome = drive(server.host, server.port, [writer(i) for i in range(WRITERS)])
    _insist(server, "log-batch", outcome)
    for index, run in enumerate(runs):
        key = f"metric_{random.randrange(keys)}"
        found = count_history(server, run, key)
        if found != acked[index] * steps:
            raise BenchError(f"{server.name}: {acked[index] * steps} points acked, {found} found")
    points = sum(acked) * keys * steps
    return {
        "points_per_s": points / outcome.elapsed,
        "points": points,
        "batches": sum(acked),
        "p50_ms": percentile(outcome.latencies, 0.5) * 1000,
        "p99_ms": percentile(outcome.latencies, 0.99) * 1000,
        "seconds": outcome.elapsed,
        "generator_cpu": outcome.generator_cpu,
    }


def ingest(server: Server, seconds: float) -> Figures:
    """8 writers send batches of 10 keys x 50 steps."""
    return _ingest(server, seconds, keys=10, steps=50)


def ingest_wide(server: Server, seconds: float) -> Figures:
    """8 writers send batches of 500 keys x 1 step."""
    return _ingest(server, seconds, keys=500, steps=1)


def single(server: Server, seconds: float) -> Figures:
    """8 writers send one metric a call."""
    experiment = shapes.new_experiment(server, "single")
    runs = [shapes.new_run(server, experiment) for _ in range(WRITERS)]
    head = server.head("POST", shapes.METRIC)
    acked = [0] * WRITERS
    now = int(time.time() * 1000)
    deadline = time.perf_counter() + seconds

    def writer(index: int) -> Client:
        run = runs[index].encode()
        while time.perf_counter() < deadline:
            step = acked[index]
            body = (
                b'{"run_uuid":"%s","run_id":"%s","key":"loss","value":0.%d,'
                b'"timestamp":%d,"step":%d}'
                % (run, run, step * 7919 % 99991 + 1, now + step, step)
            )
            reply = yield shapes.framed(head, body)
            acked[index] += reply.status == 200

    outcome = drive(server.host, server.port, [writer(i) for i in range(WRITERS)])
    _insist(server, "log-metric", outcome)
    for index, run in enumerate(runs):
        found = count_history(server, run, "loss")
        if found != acked[index]:
            raise BenchError(f"{server.name}: {acked[index]} calls acked, {found} points found")
    return {
        "calls_per_s": sum(acked) / outcome.elapsed,
        "calls": sum(acked),
        "p50_ms": percentile(outcome.latencies, 0.5) * 1000,
        "p99_ms": percentile(outcome.latencies, 0.99) * 1000,
        "seconds": outcome.elapsed,
        "generator_cpu": outcome.generator_cpu,
    }


def make_runs(
    server: Server, experiment: str, count: int, seconds: float, writers: int = WRITERS
) -> tuple[int, Outcome]:
    """Create, fill and finish runs until `count` are made or the time is over."""
    create = server.head("POST", "/api/2.0/mlflow/runs/create")
    batch = server.head("POST", shapes.BATCH)
    update = server.head("POST", "/api/2.0/mlflow/runs/update")
    made = 0
    supply = iter(range(count))
    deadline = time.perf_counter() + seconds
    contents = [json.dumps(shapes.run_contents(n))[1:].encode() for n in range(min(count, 500))]

    def writer() -> Client:
        nonlocal made
        for number in supply:
            now = int(time.time() * 1000)
            body = (
                b'{"experiment_id":"%s","user_id":"bench","run_name":"run-%d","start_time":%d,'
                b'"tags":[{"key":"mlflow.user","value":"bench"}]}'
                % (experiment.encode(), number, now)
            )
            reply: Reply = yield shapes.framed(create, body)
            found = RUN_ID.search(reply.body)
            if found is None:
                return
            run = found[1]
            filled = b'{"run_id":"%s",%s' % (run, contents[number % len(contents)])
            yield shapes.framed(batch, filled)
            ending = b'{"run_uuid":"%s","run_id":"%s","status":"FINISHED","end_time":%d}'
            reply = yield shapes.framed(update, ending % (run, run, now + 1000))
            made += reply.status == 200
            if time.perf_counter() >= deadline:
                return

    clients = [writer() for _ in range(writers)]
    outcome = drive(server.host, server.port, clients, limit=seconds + 300)
    _insist(server, "creating runs", outcome)
    return made, outcome


def runs(server: Server, seconds: float) -> Figures:
    """8 writers create runs with 20 params, 10 metrics and 5 tags, and finish them."""
    experiment = shapes.new_experiment(server, "runs")
    made, outcome = make_runs(server, experiment, 1_000_000, seconds)
    search = {"experiment_ids": [experiment], "max_results": 50}
    sample = server.call("POST", "runs/search", search)["runs"]
    whole = [
        r
        for r in sample
        if len(r["data"]["params"]) == 20
        and len(r["data"]["metrics"]) == 10
        and r["info"]["status"] == "FINISHED"
    ]
    if len(whole) != min(made, 50):
        raise BenchError(f"{server.name}: {len(whole)} of {len(sample)} runs read back whole")
    return {"runs_per_s": made / outcome.elapsed, "runs": made, "seconds": outcome.elapsed}


def _crowd(server: Server, clients: int, calls: int, limit: float) -> Figures:
    experiment = shapes.new_experiment(server, "crowd")
    run_ids = [shapes.new_run(server, experiment) for _ in range(8)]
    head = server.head("POST", shapes.BATCH)
    slowed = 0
    acked = [0] * clients

    def client(index: int) -> Client:
        nonlocal slowed
        template = shapes.BatchTemplate(head, run_ids[index % 8], 20, 1, seed=index)
        for call in range(calls):
            while True:
                reply = yield template.fill(index * calls + call)
                if reply.status not in (429, 503):
                    break
                slowed += 1
                yield float(reply.header(b"retry-after") or 1)
            acked[index] += reply.status == 200

    outcome = drive(server.host, server.port, [client(i) for i in range(clients)], limit)
    found = sum(count_history(server, run, "metric_0") for run in run_ids)
    refused = outcome.statuses[429] + outcome.statuses[503]
    return {
        "clients": clients,
        "calls": clients * calls,
        "failed": clients * calls - sum(acked),
        "lost_acks": max(0, sum(acked) - found),
        "told_to_wait": refused,
        "statuses": {str(k): v for k, v in sorted(outcome.statuses.items())},
        "p50_ms": percentile(outcome.latencies, 0.5) * 1000,
        "p95_ms": percentile(outcome.latencies, 0.95) * 1000,
        "p99_ms": percentile(outcome.latencies, 0.99) * 1000,
        "seconds": outcome.elapsed,
        "first_error": outcome.first_error,
    }


def crowd(server: Server, seconds: float) -> Figures:
    """128 clients at once, each 4 log-batch calls of 20 metrics."""
    return _crowd(server, 128, 4, limit=max(180.0, seconds))


def thousand(server: Server, seconds: float) -> Figures:
    """1,000 connected clients at once, each 3 log-batch calls of 20 metrics."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    return _crowd(server, 1000, 3, limit=max(120.0, seconds))


def random_walk(head: bytes, run: str, keys: int, steps: int) -> Iterator[bytes]:
    """Yield log-batch requests of whole series as training draws them: noise on a slope."""
    draw = random.Random(11)
    clock = int(time.time() * 1000)
    for key in range(keys):
        level = 3.0
        for first in range(0, steps, 1000):
            points = []
            for step in range(first, min(first + 1000, steps)):
                level = level * 0.9999 + draw.gauss(0, 0.01)
                stamp = clock + step * 250 + draw.randrange(20)
                points.append(
                    f'{{"key":"metric_{key}","value":{level!r},"timestamp":{stamp},"step":{step}}}'
                )
            body = f'{{"run_id":"{run}","metrics":[{",".join(points)}]}}'.encode()
            yield shapes.framed(head, body)
