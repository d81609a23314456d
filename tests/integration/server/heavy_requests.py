"""The heaviest request of each route that its bounds accept, by the route's label.

Owns what is asked where nothing must be made for it first. A route that is named neither here nor
in `heavy_made` takes nothing but its path.
"""

import asyncio
import hashlib
import json
from typing import Any
from urllib.parse import quote

from tests.integration.server import (
    heavy_alerts,
    heavy_data,
    heavy_moving,
    heavy_reports,
    heavy_sweeps,
)
from tests.integration.server.heavy_made import MADE, Ask
from tests.integration.server.heavy_world import LATER_MS, MINUTE_MS, World, trace
from trackyard.server.routing import Route

__all__ = [
    "heavy_alerts",
    "heavy_data",
    "heavy_moving",
    "heavy_reports",
    "heavy_sweeps",
    "made",
    "target",
]

FILTER = " AND ".join(["metrics.loss > 0"] * 30)
NAMES = " AND ".join(["name LIKE '%n%e%t%'"] * 30)
TEXT = "x" * 1000
_MODEL = {"artifact_path": "m", "flavors": {"f": "y" * 900_000}, "utc_time_created": "2026"}


def target(world: World, route: Route, ask: Ask) -> str:
    """Return where a request goes."""
    usual = {
        "job": world.array,
        "run_id": world.run,
        "model_id": world.model,
        "attempt": world.attempt,
        "trace_id": world.traces[0],
        "assessment_id": world.assessment,
        "dataset_id": world.dataset,
        "team": "default",
        "user": "admin",
        "queue": "default",
        "thing": "jobs",
        "node": "g1",
        "lease": world.leases[0],
        "protocol": "gcs",
        "rest": "runs",
        "digest": hashlib.sha256(world.package).hexdigest(),
        "path": f"0/{world.run}/artifacts/large",
        "key": "a",
    } | ask.path
    path = "/".join(
        quote(usual[part.strip("{}.")], safe="/") if "{" in part else part
        for part in route.path.split("/")
    )
    return path + "?" + "&".join(f"{name}={quote(str(value))}" for name, value in ask.query)


async def made(world: World, route: Route, *, anew: bool) -> Ask:
    """Make the request of a route; anew, since what was asked once may be refused again."""
    label = route.label.replace(" /ajax-api/", " /api/")
    if label in MADE:
        return await MADE[label](world)
    if anew or not world.bodies:
        world.bodies = await asyncio.to_thread(_plain, world)
    body = world.bodies.get(label)
    query = _queries(world).get(label, [])
    if body is None and route.method in ("POST", "PUT", "PATCH"):
        body = {}
    return Ask(query=query, body=body)


def _pairs(count: int, size: int = 100) -> list[dict[str, str]]:
    return [{"key": f"k{n}", "value": "x" * size} for n in range(count)]


def _plain(world: World) -> dict[str, Any]:
    """Return the bodies that need nothing made for them."""
    run, number, many = {"run_id": world.run}, world.fresh(), world.runs
    metrics = [
        {"key": f"m{n}", "value": 1.0 * n, "timestamp": n, "step": number} for n in range(1000)
    ]
    digests = [f"d{n}" for n in range(1000)]
    place = [{"mlflow_experiment": {"experiment_id": "0"}}]
    record = [{"inputs": {"q": f"{number}-{n}"}, "tags": {"a": "b"}} for n in range(10_000)]
    v2, v3, v1 = "POST /api/2.0/mlflow/", "POST /api/3.0/mlflow/", "/api/v1/"
    net = {"name": "net", "version": "1"}
    return {
        f"{v2}experiments/create": {"name": f"e{number}", "tags": _pairs(2000)},
        f"{v2}experiments/search": {
            "max_results": 50_000,
            "filter": NAMES,
            "order_by": ["name ASC"],
        },
        f"{v2}experiments/search-datasets": {"experiment_ids": ["0"]},
        f"{v2}experiments/set-experiment-tag": {
            "experiment_id": "0",
            "key": "k",
            "value": "x" * 5000,
        },
        f"{v2}runs/create": {"experiment_id": "0", "tags": _pairs(100, 1000)},
        f"{v2}runs/update": run | {"status": "RUNNING", "run_name": "n" * 250},
        f"{v2}runs/search": {
            "experiment_ids": ["0"],
            "max_results": 50_000,
            "filter": FILTER,
            "order_by": ["metrics.loss DESC"],
        },
        f"{v2}runs/log-batch": run
        | {
            "metrics": metrics[:800],
            "params": [one | {"key": f"{number}{one['key']}"} for one in _pairs(100, 1000)],
            "tags": _pairs(100, 5000),
        },
        f"{v2}runs/log-metric": run | {"key": "loss", "value": 1, "timestamp": 1, "step": number},
        f"{v2}runs/log-parameter": run | {"key": f"p{number}", "value": "x" * 6000},
        f"{v2}runs/set-tag": run | {"key": "k", "value": "x" * 8000},
        f"{v2}runs/log-model": run | {"model_json": json.dumps(_MODEL | {"run_id": world.run})},
        f"{v2}runs/log-inputs": run
        | {
            "datasets": [
                {
                    "dataset": {"name": one, "digest": one, "source_type": "x", "source": TEXT},
                    "tags": _pairs(2),
                }
                for one in digests
            ]
        },
        f"{v2}runs/outputs": run | {"models": [{"model_id": world.model, "step": 1}] * 1000},
        f"{v2}registered-models/create": {"name": f"r{number}", "tags": _pairs(2000)},
        "PATCH /api/2.0/mlflow/registered-models/update": {
            "name": "net",
            "description": "x" * 99_000,
        },
        f"{v2}registered-models/get-latest-versions": {"name": "net", "stages": ["None"] * 1000},
        f"{v2}registered-models/set-tag": {"name": "net", "key": "a", "value": "x" * 100_000},
        f"{v2}registered-models/alias": net | {"alias": "later"},
        f"{v2}model-versions/create": {
            "name": "net",
            "source": f"runs:/{world.run}/f1",
            "run_id": world.run,
            "tags": _pairs(2000),
        },
        "PATCH /api/2.0/mlflow/model-versions/update": net | {"description": "x" * 99_000},
        f"{v2}model-versions/transition-stage": net
        | {"stage": "Production", "archive_existing_versions": True},
        f"{v2}model-versions/set-tag": net | {"key": "a", "value": "x" * 100_000},
        f"{v2}logged-models": {
            "experiment_id": "0",
            "name": f"m{number}",
            "tags": _pairs(2000),
            "params": _pairs(2000),
        },
        f"{v2}logged-models/search": {
            "experiment_ids": ["0"],
            "filter": FILTER,
            "datasets": [{"dataset_name": one} for one in digests[:64]],
            "order_by": [{"field_name": "metrics.loss"}, {"field_name": "creation_timestamp"}],
            "max_results": 50,
        },
        "PATCH /api/2.0/mlflow/logged-models/{model_id}": {"status": "LOGGED_MODEL_READY"},
        "PATCH /api/2.0/mlflow/logged-models/{model_id}/tags": {"tags": _pairs(2000)},
        v2 + "logged-models/{model_id}/params": {"params": _pairs(2000)},
        f"{v3}traces": {"trace": trace(number, 1000)},
        f"{v3}traces/search": {
            "locations": place * 1000,
            "filter": " AND ".join(["tag.t0 LIKE '%x%y%'"] * 30),
            "max_results": 500,
        },
        f"{v2}traces/link-to-run": {"run_id": world.run, "trace_ids": world.traces},
        "PATCH /api/2.0/mlflow/traces/{trace_id}/tags": {"key": "k", "value": "x" * 8000},
        v3 + "traces/{trace_id}/assessments": {
            "assessment": {
                "assessment_name": "long",
                "rationale": "x" * 20_000,
                "feedback": {"value": "x" * 50_000},
            }
        },
        "PATCH /api/3.0/mlflow/traces/{trace_id}/assessments/{assessment_id}": {
            "assessment": {"feedback": {"value": 0.5}},
            "update_mask": "feedback",
        },
        v2 + "artifacts/presigned-upload-url": {"run_id": world.run, "path": "f"},
        f"{v3}datasets/create": {
            "name": f"s{number}",
            "experiment_ids": ["0"],
            "tags": json.dumps({f"k{n}": "v" for n in range(1000)}),
        },
        f"{v3}datasets/search": {
            "experiment_ids": ["0"],
            "filter_string": NAMES,
            "max_results": 1000,
        },
        v3 + "datasets/{dataset_id}/records": {"records": json.dumps(record)},
        "PATCH /api/3.0/mlflow/datasets/{dataset_id}/tags": {
            "tags": json.dumps({f"k{n}": "v" * 100 for n in range(1000)})
        },
        v3 + "datasets/{dataset_id}/add-experiments": {"experiment_ids": ["0"] * 20_000},
        v3 + "datasets/{dataset_id}/remove-experiments": {"experiment_ids": ["0"] * 20_000},
        f"{v3}scorers/register": {
            "experiment_id": "0",
            "name": "net",
            "serialized_scorer": json.dumps({"a": "x" * 990_000}),
        },
        "POST /api/jobs/": {
            "entrypoint": "echo " + "x" * 60_000,
            "metadata": {f"k{n}": TEXT for n in range(500)},
            "runtime_env": {"env_vars": {f"V{n}": "x" * 200 for n in range(500)}},
        },
        f"POST {v1}logbook/notes": {"text": "@admin " * 2800},
        f"POST {v1}runs/{{run_id}}/notes": {"text": "@admin " * 2800, "pictures": ["a.png"] * 20},
        f"POST {v1}tokens": {"label": "l" * 80, "role": "viewer", "days": 1},
        f"POST {v1}users": {"name": f"u{number}"},
        f"POST {v1}teams": {"name": f"t{number}"},
        f"POST {v1}plans": {
            "model": "llama-3.1-70b",
            "gpus": 8,
            "nodes": 16,
            "global_batch": 8192,
        },
        f"PUT {v1}teams/{{team}}/members/{{user}}": {"role": "owner"},
        f"PUT {v1}teams/{{team}}/share": {"share": 2.0, "quota_gpus": 4.0},
        f"PUT {v1}teams/{{team}}/budget": {"gpu_hours": 1e9, "cost": 1e9},
        f"PUT {v1}usage/rates": {"rates": {f"gpu-{n}": {"per_gpu_hour": 1.0} for n in range(200)}},
        f"PUT {v1}queues/{{queue}}": {"teams": ["default"], "rank": 1},
        f"PUT {v1}secrets/{{name}}": {"value": "x" * 30_000},
        f"POST {v1}admin/gc": {"dry_run": True},
        f"POST {v1}jobs": {
            "command": ["true"],
            "array": "0-9999",
            "hold": True,
            "env": {f"V{n}": "x" * 400 for n in range(500)},
        },
        f"POST {v1}jobs/{{job}}/requeue": {"priority": "low"},
        f"POST {v1}leases/{{lease}}/extend": {"minutes": 5},
        f"POST {v1}leases/{{lease}}/move": {"purpose": "p" * 500, "nodes": ["g3", "g4"]},
        f"POST {v1}leases/{{lease}}/transfer": {"user": "admin"},
        f"POST {v1}nodes/{{node}}/drain": {"note": "n" * 200},
        f"POST {v1}nodes/{{node}}/quarantine": {"why": "w" * 200},
        f"PUT {v1}nodes/{{node}}/labels": {"set": {f"l{n}": "v" for n in range(50)}},
        f"POST {v1}series": {"run_ids": many[:500], "keys": ["loss"], "points": 2000},
        f"POST {v1}runs/columns": {"run_ids": many, "metrics": [f"m{n}" for n in range(100)]},
        f"POST {v1}runs/table": {"limit": 1000, "metrics": [f"m{n}" for n in range(50)]},
    }


def _queries(world: World) -> dict[str, list[tuple[str, Any]]]:
    """Return the queries that need nothing made for them."""
    v2, v3, v1 = "GET /api/2.0/mlflow/", "GET /api/3.0/mlflow/", "GET /api/v1/"
    version = [("name", "net"), ("version", "1")]
    metric = [("metric_key", "loss"), ("max_results", 25_000)]
    many = [("run_id", run) for run in world.runs[:100]]
    ids = [("trace_ids", one) for one in world.traces]
    large = [("path", "large"), ("run_id", world.run), ("run_uuid", world.run)]
    return {
        f"{v2}experiments/get": [("experiment_id", "0")],
        f"{v2}experiments/get-by-name": [("experiment_name", "Default")],
        f"{v2}experiments/search": [("max_results", 50_000), ("filter", NAMES)],
        f"{v2}runs/get": [("run_id", world.run)],
        f"{v2}metrics/get-history": [("run_id", world.run), *metric],
        f"{v2}metrics/get-history-bulk": [*many, *metric],
        f"{v2}metrics/get-history-bulk-interval": [
            *(("run_ids", run) for run in world.runs[:100]),
            ("metric_key", "loss"),
            ("max_results", 2500),
        ],
        f"{v2}registered-models/get": version,
        f"{v2}registered-models/search": [("max_results", 1000), ("filter", NAMES)],
        f"{v2}registered-models/get-latest-versions": [("name", "net")],
        f"{v2}registered-models/alias": [("name", "net"), ("alias", "best")],
        f"{v2}model-versions/get": version,
        f"{v2}model-versions/get-download-uri": version,
        f"{v2}model-versions/search": [("max_results", 10_000), ("filter", "name = 'net'")],
        v2 + "logged-models/{model_id}/artifacts/files": [("artifact_file_path", "weights")],
        f"{v3}traces/get": [("trace_id", world.traces[0]), ("allow_partial", "true")],
        f"{v3}traces/batchGet": ids,
        f"{v3}traces/batchGetInfos": ids,
        "GET /api/2.0/mlflow-artifacts/artifacts": [("path", f"0/{world.run}/artifacts")],
        f"{v2}artifacts/list": [("run_id", world.run)],
        f"{v2}get-artifact": large,
        "GET /model-versions/get-artifact": [
            ("name", "net"),
            ("version", "1"),
            ("path", "weights"),
        ],
        f"{v1}artifacts/preview": [("path", "large.txt"), ("run_id", world.run)],
        v3 + "datasets/{dataset_id}/records": [("max_results", 1000)],
        f"{v3}scorers/list": [("experiment_id", "0")],
        f"{v3}scorers/versions": [("experiment_id", "0"), ("name", "net")],
        f"{v3}scorers/get": [("experiment_id", "0"), ("name", "net")],
        f"{v1}events": [("limit", 1000), ("scope", "all")],
        f"{v1}logbook": [("limit", 5000), ("q", "e"), ("since_ms", 0)],
        f"{v1}logbook/digest": [("month", "this"), ("format", "html")],
        v1 + "runs/{run_id}/logbook": [("lineage", 1), ("limit", 5000), ("format", "html")],
        v1 + "runs/{run_id}/why-worse": [("step", 1), ("metric", "loss")],
        f"{v1}jobs": [("limit", 1000), ("all", 1), ("eta", 1)],
        v1 + "jobs/{job}": [("smaller", 1)],
        v1 + "jobs/{job}/logs": [("tail", 20_000)],
        f"{v1}leases": [("all", 1)],
        f"{v1}leases/free": [("where", "gpu.count >= 1"), ("count", 50), ("within_days", 60)],
        f"{v1}leases/calendar": [
            ("from_ms", LATER_MS),
            ("to_ms", LATER_MS + 30 * 24 * 60 * MINUTE_MS),
        ],
        f"{v1}cluster/load": [("points", 1000)],
        f"{v1}usage": [("by", "job,node,day,class")],
        f"{v1}fleet/history": [("points", 400)],
        f"{v1}fleet/trace": [("days", 400)],
        v1 + "nodes/{node}/verdicts": [("limit", 1000)],
        f"{v1}runs/table": [("limit", 1000), *(("metric", f"m{n}") for n in range(50))],
        f"{v1}runs/names": [("experiment_id", "0")],
        f"{v1}series": [*many, ("key", "loss"), ("points", 2000)],
    }
