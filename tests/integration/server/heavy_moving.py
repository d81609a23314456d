"""Requests of imports, webhooks and the traces of older clients, by their labels.

Owns what is made first for them, as `heavy_made` does for the others.
"""

import base64
import hashlib
from typing import Any

import msgspec
import numpy as np

from tests.integration.server.heavy_made import Ask, asks
from tests.integration.server.heavy_world import LATER_MS, World, trace

#: Nobody listens there.
_OTHER = "http://127.0.0.1:9/x"


async def _webhook(world: World) -> str:
    body = {
        "name": f"w{world.fresh()}",
        "url": _OTHER,
        "events": [{"entity": "REGISTERED_MODEL", "action": "CREATED"}],
        "status": "DISABLED",
    }
    made: dict[str, Any] = await world.mlflow("webhooks", body)
    return str(made["webhook"]["webhook_id"])


@asks("POST /api/2.0/mlflow/webhooks")
async def _create_webhook(world: World) -> Ask:
    events = [{"entity": "REGISTERED_MODEL", "action": "CREATED"}]
    body = {"name": f"w{world.fresh()}", "url": _OTHER, "events": events, "status": "DISABLED"}
    return Ask(body=body | {"description": "x" * 1000})


@asks("GET /api/2.0/mlflow/webhooks/{webhook_id}")
@asks("DELETE /api/2.0/mlflow/webhooks/{webhook_id}")
@asks("GET /api/v1/webhooks/{webhook_id}/deliveries")
async def _one_webhook(world: World) -> Ask:
    return Ask(path={"webhook_id": await _webhook(world)})


@asks("PATCH /api/2.0/mlflow/webhooks/{webhook_id}")
async def _change_webhook(world: World) -> Ask:
    return Ask(path={"webhook_id": await _webhook(world)}, body={"description": "x" * 1000})


@asks("POST /api/2.0/mlflow/webhooks/{webhook_id}/test")
async def _try_webhook(world: World) -> Ask:
    return Ask(path={"webhook_id": await _webhook(world)}, body={})


@asks("POST /api/v1/import/experiments")
async def _import_experiments(world: World) -> Ask:
    number, tags = world.fresh(), {f"k{n}": "x" * 20 for n in range(20)}
    many = [
        {"source_id": f"{number}{n:04}", "name": f"i{number}-{n}", "tags": tags}
        for n in range(1000)
    ]
    return Ask(body={"experiments": many})


@asks("POST /api/v1/import/runs")
async def _import_runs(world: World) -> Ask:
    number, values = world.fresh(), {f"k{n}": "x" * 20 for n in range(100)}
    many = [
        {
            "run_id": hashlib.md5(f"{number}-{n}".encode()).hexdigest(),
            "experiment_id": "0",
            "start_ms": n,
            "params": values,
            "tags": values,
        }
        for n in range(250)
    ]
    return Ask(body={"runs": many})


def _traces(world: World, count: int) -> list[dict[str, Any]]:
    data = {"name": "s", "span_id": "1", "start_time_unix_nano": 1}
    spans = [{"span_id": f"{n:016x}", "start_ns": n, "data": data} for n in range(50)]
    return [
        {"info": trace(10**9 + world.fresh())["trace_info"], "spans": spans} for _ in range(count)
    ]


@asks("POST /api/v1/import/traces")
async def _import_traces(world: World) -> Ask:
    return Ask(body={"traces": _traces(world, 50)})


@asks("POST /api/v1/import/models")
async def _import_models(world: World) -> Ask:
    number = world.fresh()
    versions = [
        {"version": n + 1, "source": "s3://b/m", "tags": {"a": "b"}, "created_ms": n}
        for n in range(1000)
    ]
    return Ask(body={"models": [{"name": f"m{number}", "versions": versions}]})


@asks("POST /api/v1/import/logged-models")
async def _import_logged(world: World) -> Ask:
    number, values = world.fresh(), {f"k{n}": "x" for n in range(20)}
    many = [
        {"model_id": f"m-i{number}{n:04}", "experiment_id": "0", "params": values, "tags": values}
        for n in range(1000)
    ]
    return Ask(body={"models": many})


@asks("POST /api/v1/import/points")
async def _import_points(world: World) -> Ask:
    steps = np.arange(10_000, dtype="<i8")
    first = world.fresh() * 10_000_000
    columns = ((steps + first).tobytes(), steps.tobytes(), steps.astype("<f8").tobytes())
    series = [(f"i{n}", *columns) for n in range(100)]
    return Ask(raw=msgspec.msgpack.encode({"runs": [(world.run, series)]}))


@asks("POST /api/v1/import/points/count")
async def _count_points(world: World) -> Ask:
    return Ask(body={"run_ids": world.runs[:1000]})


@asks("GET /api/v1/import/files/{owner}")
async def _files(world: World) -> Ask:
    return Ask(path={"owner": world.run})


@asks("PUT /api/v1/import/files/{owner}/{path...}")
async def _put_file(world: World) -> Ask:
    raw = b"x" * 1_000_000
    digest = base64.b64encode(hashlib.sha256(raw).digest()).decode()
    return Ask(
        path={"owner": world.run, "path": f"imported/{world.fresh()}"},
        raw=raw,
        headers={"content-digest": f"sha-256=:{digest}:"},
    )


@asks("POST /api/2.0/mlflow/traces")
async def _start_trace(world: World) -> Ask:
    pairs = [{"key": f"k{n}", "value": "x" * 200} for n in range(100)]
    body = {"experiment_id": "0", "timestamp_ms": LATER_MS, "request_metadata": pairs}
    return Ask(body=body | {"tags": pairs})


@asks("PATCH /api/2.0/mlflow/traces/{trace_id}")
async def _end_trace(world: World) -> Ask:
    begun = await world.mlflow("traces", {"experiment_id": "0", "timestamp_ms": LATER_MS})
    body = {"timestamp_ms": LATER_MS + 5, "status": "OK"}
    return Ask(path={"trace_id": begun["trace_info"]["request_id"]}, body=body)


@asks("GET /api/2.0/mlflow/traces")
async def _search_traces(_: World) -> Ask:
    return Ask(query=[("experiment_ids", "0"), ("max_results", 500)])


@asks("POST /api/3.0/mlflow/traces/metrics")
async def _trace_metrics(_: World) -> Ask:
    body = {
        "experiment_ids": ["0"],
        "view_type": "TRACES",
        "metric_name": "latency",
        "aggregations": [{"aggregation_type": "AVG"}],
    }
    return Ask(body=body)


@asks("POST /api/3.0/mlflow/traces/calculate-filter-correlation")
async def _correlation(_: World) -> Ask:
    body = {
        "experiment_ids": ["0"],
        "filter_string1": "trace.status = 'OK'",
        "filter_string2": "trace.status = 'ERROR'",
    }
    return Ask(body=body)


@asks("GET /api/2.0/mlflow/get-trace-artifact")
async def _trace_artifact(world: World) -> Ask:
    (one,) = _traces(world, 1)
    await world.ok("POST", "/api/v1/import/traces", {"traces": [one]})
    return Ask(query=[("request_id", one["info"]["trace_id"])])
