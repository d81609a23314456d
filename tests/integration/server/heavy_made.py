"""Requests of routes that end something, or that name what was made for them, by their labels.

Owns what is made first: a request that ends a thing ends one of its own.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.integration.server.heavy_world import LATER_MS, MINUTE_MS, World, package, spans, trace


@dataclass(kw_only=True)
class Ask:
    """A request beyond its path."""

    query: list[tuple[str, Any]] = field(default_factory=list)
    body: Any = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    #: parts of the path that are not the usual ones
    path: dict[str, str] = field(default_factory=dict)
    #: admin, runner or command
    caller: str = "admin"

    def payload(self) -> bytes | None:
        """Return the bytes to send."""
        if self.raw is not None or self.body is None:
            return self.raw
        return json.dumps(self.body).encode()


Maker = Callable[[World], Awaitable[Ask]]
MADE: dict[str, Maker] = {}


def asks(label: str) -> Callable[[Maker], Maker]:
    """Say that a function makes the requests of a route."""

    def note(maker: Maker) -> Maker:
        MADE[label] = maker
        return maker

    return note


def _root(world: World, path: str = "") -> dict[str, str]:
    return {"path": f"0/{world.run}/artifacts/{path}".rstrip("/")}


@asks("POST /api/2.0/mlflow/experiments/update")
async def _rename_experiment(world: World) -> Ask:
    body = {"experiment_id": await world.new_experiment(), "new_name": f"n{world.fresh()}"}
    return Ask(body=body)


@asks("POST /api/2.0/mlflow/experiments/delete")
async def _delete_experiment(world: World) -> Ask:
    return Ask(body={"experiment_id": await world.new_experiment(runs=500)})


@asks("POST /api/2.0/mlflow/experiments/restore")
async def _restore_experiment(world: World) -> Ask:
    body = {"experiment_id": await world.new_experiment(runs=500)}
    await world.mlflow("experiments/delete", body)
    return Ask(body=body)


@asks("POST /api/2.0/mlflow/experiments/delete-experiment-tag")
async def _untag_experiment(world: World) -> Ask:
    await world.mlflow(
        "experiments/set-experiment-tag", {"experiment_id": "0", "key": "z", "value": "1"}
    )
    return Ask(body={"experiment_id": "0", "key": "z"})


@asks("POST /api/2.0/mlflow/runs/delete")
async def _delete_run(world: World) -> Ask:
    return Ask(body={"run_id": await world.new_run()})


@asks("POST /api/2.0/mlflow/runs/restore")
async def _restore_run(world: World) -> Ask:
    body = {"run_id": await world.new_run()}
    await world.mlflow("runs/delete", body)
    return Ask(body=body)


@asks("POST /api/2.0/mlflow/runs/delete-tag")
async def _untag_run(world: World) -> Ask:
    await world.mlflow("runs/set-tag", {"run_id": world.run, "key": "z", "value": "1"})
    return Ask(body={"run_id": world.run, "key": "z"})


@asks("POST /api/2.0/mlflow/registered-models/rename")
async def _rename_model(world: World) -> Ask:
    name = f"r{world.fresh()}"
    await world.mlflow("registered-models/create", {"name": name})
    return Ask(body={"name": name, "new_name": f"{name}-new"})


@asks("DELETE /api/2.0/mlflow/registered-models/delete")
async def _delete_model(world: World) -> Ask:
    name = f"r{world.fresh()}"
    await world.mlflow("registered-models/create", {"name": name})
    for n in range(50):
        source = {"name": name, "source": f"runs:/{world.run}/f{n}", "run_id": world.run}
        await world.mlflow("model-versions/create", source)
    return Ask(body={"name": name})


@asks("DELETE /api/2.0/mlflow/registered-models/delete-tag")
async def _untag_model(world: World) -> Ask:
    await world.mlflow("registered-models/set-tag", {"name": "net", "key": "z", "value": "1"})
    return Ask(body={"name": "net", "key": "z"})


@asks("DELETE /api/2.0/mlflow/registered-models/alias")
async def _drop_alias(world: World) -> Ask:
    await world.mlflow("registered-models/alias", {"name": "net", "alias": "old", "version": "1"})
    return Ask(body={"name": "net", "alias": "old"})


@asks("DELETE /api/2.0/mlflow/model-versions/delete")
async def _delete_version(world: World) -> Ask:
    source = {"name": "net", "source": f"runs:/{world.run}/f1", "run_id": world.run}
    made_ = await world.mlflow("model-versions/create", source)
    return Ask(body={"name": "net", "version": made_["model_version"]["version"]})


@asks("DELETE /api/2.0/mlflow/model-versions/delete-tag")
async def _untag_version(world: World) -> Ask:
    tag = {"name": "net", "version": "1", "key": "z"}
    await world.mlflow("model-versions/set-tag", tag | {"value": "1"})
    return Ask(body=tag)


@asks("DELETE /api/2.0/mlflow/logged-models/{model_id}")
async def _delete_logged(world: World) -> Ask:
    return Ask(path={"model_id": await world.new_model()})


@asks("DELETE /api/2.0/mlflow/logged-models/{model_id}/tags/{key...}")
async def _untag_logged(world: World) -> Ask:
    path = f"/api/2.0/mlflow/logged-models/{world.model}/tags"
    await world.ok("PATCH", path, {"tags": [{"key": "z", "value": "1"}]})
    return Ask(path={"key": "z"})


@asks("POST /api/2.0/mlflow/traces/delete-traces")
async def _delete_traces(world: World) -> Ask:
    ids = []
    for _ in range(50):
        shaped = await world.mlflow(
            "traces", {"trace": trace(world.fresh(), 50)}, "/api/3.0/mlflow/"
        )
        ids.append(shaped["trace"]["trace_info"]["trace_id"])
    return Ask(body={"experiment_id": "0", "request_ids": ids})


@asks("DELETE /api/2.0/mlflow/traces/{trace_id}/tags")
async def _untag_trace(world: World) -> Ask:
    path = f"/api/2.0/mlflow/traces/{world.traces[0]}/tags"
    await world.ok("PATCH", path, {"key": "z", "value": "1"})
    return Ask(body={"key": "z"})


@asks("DELETE /api/3.0/mlflow/traces/{trace_id}/assessments/{assessment_id}")
async def _delete_assessment(world: World) -> Ask:
    given = {"assessment": {"assessment_name": "no", "feedback": {"value": 1}}}
    path = f"traces/{world.traces[0]}/assessments"
    made_ = await world.mlflow(path, given, "/api/3.0/mlflow/")
    return Ask(path={"assessment_id": made_["assessment"]["assessment_id"]})


@asks("POST /v1/traces")
async def _spans(world: World) -> Ask:
    return Ask(
        body=spans(world.fresh(), 5000, scattered=True), headers={"x-mlflow-experiment-id": "0"}
    )


@asks("PUT /api/2.0/mlflow-artifacts/artifacts/{path...}")
async def _put_file(world: World) -> Ask:
    return Ask(raw=b"x" * 4_000_000, path=_root(world, f"p{world.fresh()}"))


@asks("DELETE /api/2.0/mlflow-artifacts/artifacts/{path...}")
async def _delete_file(world: World) -> Ask:
    path = _root(world, f"d{world.fresh()}")
    await world.ok("PUT", f"/api/2.0/mlflow-artifacts/artifacts/{path['path']}", raw=b"x")
    return Ask(path=path)


@asks("POST /api/2.0/mlflow/upload-artifact")
async def _upload_file(world: World) -> Ask:
    query = [("run_uuid", world.run), ("path", f"u{world.fresh()}")]
    return Ask(raw=b"x" * 1_000_000, query=query)


async def _new_upload(world: World, parts: int) -> tuple[str, dict[str, Any]]:
    name = f"up{world.fresh()}"
    place = f"/api/2.0/mlflow-artifacts/mpu/create/0/{world.run}/artifacts"
    answer = await world.ok("POST", place, {"path": name, "num_parts": parts})
    return name, answer.json()


@asks("POST /api/2.0/mlflow-artifacts/mpu/create/{path...}")
async def _begin_upload(world: World) -> Ask:
    return Ask(path=_root(world), body={"path": f"up{world.fresh()}", "num_parts": 10_000})


@asks("PUT /api/2.0/mlflow-artifacts/mpu/part/{upload}/{number}")
async def _part(world: World) -> Ask:
    _, upload = await _new_upload(world, 1)
    token = upload["credentials"][0]["headers"]
    return Ask(
        raw=b"x" * 4_000_000, headers=token, path={"upload": upload["upload_id"], "number": "1"}
    )


@asks("POST /api/2.0/mlflow-artifacts/mpu/complete/{path...}")
async def _complete(world: World) -> Ask:
    name, upload = await _new_upload(world, 20)
    parts = []
    for one in upload["credentials"]:
        place = f"/api/2.0/mlflow-artifacts/mpu/part/{upload['upload_id']}/{one['part_number']}"
        answer = await world.ok("PUT", place, raw=b"x" * 1000, headers=one["headers"])
        parts.append({"part_number": one["part_number"], "etag": answer.header("etag")})
    body = {"path": name, "upload_id": upload["upload_id"], "parts": parts}
    return Ask(path=_root(world), body=body)


@asks("POST /api/2.0/mlflow-artifacts/mpu/abort/{path...}")
async def _abort(world: World) -> Ask:
    name, upload = await _new_upload(world, 1000)
    return Ask(path=_root(world), body={"path": name, "upload_id": upload["upload_id"]})


@asks("DELETE /api/3.0/mlflow/datasets/{dataset_id}")
async def _delete_set(world: World) -> Ask:
    made_ = await world.mlflow(
        "datasets/create", {"name": f"s{world.fresh()}"}, "/api/3.0/mlflow/"
    )
    one = made_["dataset"]["dataset_id"]
    rows = json.dumps([{"inputs": {"q": str(n)}} for n in range(1000)])
    await world.mlflow(f"datasets/{one}/records", {"records": rows}, "/api/3.0/mlflow/")
    return Ask(path={"dataset_id": one})


@asks("DELETE /api/3.0/mlflow/datasets/{dataset_id}/records")
async def _delete_records(world: World) -> Ask:
    return Ask(body={"dataset_record_ids": world.records * 20})


@asks("DELETE /api/3.0/mlflow/datasets/{dataset_id}/tags/{key...}")
async def _untag_set(world: World) -> Ask:
    path = f"/api/3.0/mlflow/datasets/{world.dataset}/tags"
    await world.ok("PATCH", path, {"tags": json.dumps({"z": "1"})})
    return Ask(path={"key": "z"})


@asks("DELETE /api/3.0/mlflow/scorers/delete")
async def _delete_scorer(world: World) -> Ask:
    scorer = {"experiment_id": "0", "name": "gone", "serialized_scorer": "{}"}
    await world.mlflow("scorers/register", scorer, "/api/3.0/mlflow/")
    return Ask(body={"experiment_id": "0", "name": "gone"})


@asks("GET /api/packages/{protocol}/{name}")
async def _ray_package(_: World) -> Ask:
    return Ask(path={"name": "_ray_pkg_one.zip"})


@asks("PUT /api/packages/{protocol}/{name}")
async def _put_ray_package(world: World) -> Ask:
    return Ask(raw=package(world.fresh()), path={"name": f"_ray_pkg_{world.fresh()}.tar.gz"})


@asks("PUT /api/v1/packages/{digest}")
async def _put_package(world: World) -> Ask:
    data = package(world.fresh())
    return Ask(raw=data, path={"digest": hashlib.sha256(data).hexdigest()})


@asks("POST /api/v1/packages")
async def _post_package(world: World) -> Ask:
    return Ask(raw=package(world.fresh()))


@asks("GET /api/jobs/{job}")
async def _ray_job(world: World) -> Ask:
    return Ask(path={"job": world.ray_job})


@asks("GET /api/jobs/{job}/logs")
async def _ray_logs(world: World) -> Ask:
    return Ask(path={"job": world.ray_job})


@asks("POST /api/jobs/{job}/stop")
async def _ray_stop(world: World) -> Ask:
    return Ask(path={"job": world.ray_job}, body={})


@asks("DELETE /api/jobs/{job}")
async def _ray_delete(world: World) -> Ask:
    job = (await world.ok("POST", "/api/jobs/", {"entrypoint": "true"})).json()["submission_id"]
    await world.ok("POST", f"/api/jobs/{job}/stop", {})
    return Ask(path={"job": job})


@asks("POST /api/v1/session")
async def _sign_in(world: World) -> Ask:
    return Ask(body={"token": world.admin.token})


@asks("DELETE /api/v1/tokens/{token_id}")
async def _revoke(world: World) -> Ask:
    body = {"label": "gone", "role": "viewer", "days": 1}
    made_ = (await world.ok("POST", "/api/v1/tokens", body)).json()
    return Ask(path={"token_id": str(made_["id"])})


async def _new_user(world: World) -> str:
    name = f"u{world.fresh()}"
    await world.ok("POST", "/api/v1/users", {"name": name})
    return name


@asks("PATCH /api/v1/users/{name}")
async def _disable(world: World) -> Ask:
    return Ask(path={"name": await _new_user(world)}, body={"disabled": True})


@asks("DELETE /api/v1/teams/{team}/members/{user}")
async def _remove_member(world: World) -> Ask:
    name = await _new_user(world)
    await world.ok("PUT", f"/api/v1/teams/default/members/{name}", {"role": "member"})
    return Ask(path={"user": name})


@asks("PUT /api/v1/teams/{team}/members/{user}")
async def _set_member(world: World) -> Ask:
    return Ask(path={"user": await _new_user(world)}, body={"role": "member"})


@asks("POST /api/v1/attempts/{attempt}/key")
async def _key(_: World) -> Ask:
    return Ask(body={"claim": "c" * 1000}, caller="ticket")


@asks("POST /api/v1/attempts/{attempt}/heartbeat")
async def _beat(world: World) -> Ask:
    checks = [
        {"name": f"c{n}", "verdict": "pass", "sentence": "s" * 100, "at_ms": 1}
        for n in range(1000)
    ]
    body = {"state": "running", "notes": ["n" * 100] * 1000, "time_ms": 1, "health": checks}
    return Ask(body=body, caller="runner")


@asks("POST /api/v1/attempts/{attempt}/logs")
async def _log(world: World) -> Ask:
    path = f"/api/v1/attempts/{world.attempt}/logs?member=0&offset=0"
    kind = {"x-yard-epoch": "1"}
    answer = await world.ground.runner("POST", path, raw=b"", headers=kind)
    end = answer.json()["next_offset"]
    query = [("member", 0), ("offset", end)]
    return Ask(raw=b"a line of a log\n" * 120_000, query=query, caller="runner")


@asks("POST /api/v1/attempts/{attempt}/samples")
async def _samples(world: World) -> Ask:
    first = world.fresh() * 1000
    values = {f"cpu{n}": 1.0 for n in range(20)}
    rows = [{"seq": first + n, "time_ms": first + n, "values": values} for n in range(500)]
    return Ask(body={"member": 0, "samples": rows}, caller="runner")


@asks("POST /api/v1/attempts/{attempt}/exit")
async def _exit(world: World) -> Ask:
    record = {
        "attempt_id": world.attempt,
        "epoch": 1,
        "cause": "succeeded",
        "exit_code": 0,
        "sentence": "ended",
        "started_ms": 1,
        "ended_ms": 2,
        "duration_seconds": 1.0,
        "notes": ["n" * 100] * 1000,
    }
    return Ask(body=record, caller="runner")


@asks("POST /api/v1/demand")
async def _demand(world: World) -> Ask:
    body = {"key": f"d{world.fresh()}", "workers": 64, "resources": {"CPU": 1.0}}
    return Ask(body=body, caller="command")


@asks("POST /api/v1/demand/release")
async def _give_back(_: World) -> Ask:
    return Ask(body={"key": "d"}, caller="command")


@asks("POST /api/v1/trials")
async def _trials(_: World) -> Ask:
    rows = [
        {
            "trial": f"t{n}",
            "number": n + 1,
            "state": "running",
            "params": {"lr": n},
            "metrics": {"loss": 1.0},
        }
        for n in range(500)
    ]
    return Ask(body={"trials": rows, "metric": "loss"}, caller="command")


@asks("POST /api/v1/jobs/{job}/stop")
async def _stop(world: World) -> Ask:
    wish = {"command": ["true"], "array": "0-999", "hold": True}
    job = (await world.ok("POST", "/api/v1/jobs", wish)).json()["array_id"]
    return Ask(path={"job": job}, body={"grace_seconds": 0})


@asks("POST /api/v1/leases")
async def _lease(world: World) -> Ask:
    starts = LATER_MS + world.fresh() * 100 * MINUTE_MS
    body = {"name": f"l{world.fresh()}", "nodes": [f"g{n}" for n in range(100)], "minutes": 60}
    return Ask(body=body | {"starts_ms": starts, "purpose": "p" * 500})


@asks("POST /api/v1/leases/{lease}/shrink")
async def _shrink(world: World) -> Ask:
    return Ask(path={"lease": await world.new_lease()}, body={"nodes": ["g1"]})


@asks("POST /api/v1/leases/{lease}/release")
async def _release_lease(world: World) -> Ask:
    return Ask(path={"lease": await world.new_lease()}, body={"note": "n" * 200})


@asks("POST /api/v1/leases/{lease}/recall")
async def _recall(world: World) -> Ask:
    return Ask(path={"lease": await world.new_lease()}, body={"note": "n" * 200})


@asks("DELETE /api/v1/queues/{queue}")
async def _delete_queue(world: World) -> Ask:
    name = f"q{world.fresh()}"
    await world.ok("PUT", f"/api/v1/queues/{name}", {})
    return Ask(path={"queue": name})


@asks("PUT /api/v1/secrets/{name}")
async def _put_secret(_: World) -> Ask:
    return Ask(path={"name": "KEY"}, body={"value": "x" * 30_000})


@asks("DELETE /api/v1/secrets/{name}")
async def _delete_secret(world: World) -> Ask:
    name = f"S{world.fresh()}"
    await world.ok("PUT", f"/api/v1/secrets/{name}", {"value": "x"})
    return Ask(path={"name": name})


async def _open(world: World) -> str:
    if not world.backup:
        world.backup = (await world.ok("POST", "/api/v1/admin/backups")).json()["id"]
    return world.backup


@asks("GET /api/v1/admin/backups/{backup_id}/database")
async def _backup_database(world: World) -> Ask:
    return Ask(path={"backup_id": await _open(world)})


@asks("GET /api/v1/admin/backups/{backup_id}/files")
async def _backup_files(world: World) -> Ask:
    return Ask(path={"backup_id": await _open(world)})


@asks("GET /api/v1/admin/backups/{backup_id}/files/{blob}")
async def _backup_file(world: World) -> Ask:
    backup = await _open(world)
    path = f"/api/v1/admin/backups/{backup}/files"
    files = (await world.ok("GET", path)).json()["files"]
    return Ask(path={"backup_id": backup, "blob": max(files, key=lambda f: f["size"])["blob"]})


@asks("DELETE /api/v1/admin/backups/{backup_id}")
async def _end_backup(world: World) -> Ask:
    backup, world.backup = await _open(world), ""
    return Ask(path={"backup_id": backup})


async def _note(world: World, where: str) -> dict[str, str]:
    return {"note": (await world.ok("POST", where, {"text": "a note"})).json()["id"]}


@asks("PUT /api/v1/logbook/notes/{note}")
async def _edit_team_note(world: World) -> Ask:
    path = await _note(world, "/api/v1/logbook/notes")
    return Ask(path=path, body={"text": "@admin " * 2800})


@asks("DELETE /api/v1/logbook/notes/{note}")
async def _remove_team_note(world: World) -> Ask:
    return Ask(path=await _note(world, "/api/v1/logbook/notes"))


@asks("PUT /api/v1/runs/{run_id}/notes/{note}")
async def _edit_note(world: World) -> Ask:
    path = await _note(world, f"/api/v1/runs/{world.run}/notes")
    return Ask(path=path, body={"text": "@admin " * 2800})


@asks("DELETE /api/v1/runs/{run_id}/notes/{note}")
async def _remove_note(world: World) -> Ask:
    return Ask(path=await _note(world, f"/api/v1/runs/{world.run}/notes"))


@asks("POST /api/v1/usage/months/{month}/close")
async def _close_month(world: World) -> Ask:
    number = world.fresh()
    return Ask(path={"month": f"{1990 + number // 12 % 30}-{number % 12 + 1:02d}"})
