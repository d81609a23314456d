"""The calls of MLflow's Java and R clients, word for word as their protocols print them: Java's
printer writes long numbers as text and both names of a run's id; R turns every value into text.
"""

import base64
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform

AGENTS = {"java": "mlflow-java-client/3.15.1", "r": "mlflow-r-client/3.15.1"}
#: How numbers look on the wire of each client: doubles, and longs.
NUMBERS: dict[str, tuple[Any, Any]] = {"java": (float, str), "r": (str, str)}


class Client:
    """Sends what a client of another language sends."""

    def __init__(self, caller: Caller, language: str) -> None:
        self._caller = caller
        secret = base64.b64encode(f"anyone:{caller.token}".encode()).decode()
        self.headers = {
            "user-agent": AGENTS[language],
            # R prefers a name and a password, Java a token.
            "authorization": f"Basic {secret}" if language == "r" else f"Bearer {caller.token}",
            "accept": "application/json, text/xml, application/xml, */*",
        }
        self.double, self.long = NUMBERS[language]

    async def get(self, path: str) -> Any:
        return await self._ask("GET", path, None)

    async def post(self, path: str, body: dict[str, Any], method: str = "POST") -> Any:
        return await self._ask(method, path, body)

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        answer = await self._caller(
            method, f"/api/2.0/mlflow/{path}", body, headers=dict(self.headers)
        )
        assert answer.status == 200, (method, path, answer.body)
        return answer.json()


@pytest.fixture(params=["java", "r"])
def client(request: pytest.FixtureRequest, platform: Platform) -> Client:
    return Client(platform.admin, request.param)


async def test_a_script_of_another_language_tracks_a_run(client: Client) -> None:
    long, double = client.long, client.double
    made = await client.post("experiments/create", {"name": "theirs"})
    experiment = made["experiment_id"]
    named = await client.get("experiments/get-by-name?experiment_name=theirs")
    assert named["experiment"]["experiment_id"] == experiment
    tag = {"experiment_id": experiment, "key": "k", "value": "v"}
    assert await client.post("experiments/set-experiment-tag", tag) == {}
    run = (
        await client.post(
            "runs/create",
            {
                "experiment_id": experiment,
                "user_id": "ada",
                "start_time": long(1_700_000_000_000),
                "tags": [{"key": "mlflow.source.type", "value": "LOCAL"}],
            },
        )
    )["run"]["info"]
    assert run["start_time"] == 1_700_000_000_000
    both = {"run_uuid": run["run_id"], "run_id": run["run_id"]}
    await client.post("runs/log-parameter", {**both, "key": "rate", "value": "0.1"})
    for step, value in enumerate((0.5, 0.25)):
        await client.post(
            "runs/log-metric",
            {
                **both,
                "key": "loss",
                "value": double(value),
                "timestamp": long(1000 + step),
                "step": long(step),
            },
        )
    nan = {"key": "nan", "value": "NaN", "timestamp": long(1), "step": long(0)}
    point = {"key": "acc", "value": double(1.0), "timestamp": long(1), "step": long(0)}
    await client.post(
        "runs/log-batch",
        {
            "run_id": run["run_id"],
            "metrics": [point, nan],
            "params": [{"key": "depth", "value": "3"}],
            "tags": [{"key": "note", "value": "x"}],
        },
    )
    await client.post("runs/set-tag", {**both, "key": "gone", "value": "y"})
    await client.post("runs/delete-tag", {"run_id": run["run_id"], "key": "gone"})
    end = {**both, "status": "FINISHED", "end_time": long(1_700_000_001_000)}
    await client.post("runs/update", end)
    address = f"run_id={run['run_id']}&run_uuid={run['run_id']}"
    found = (await client.get(f"runs/get?{address}"))["run"]
    assert (found["info"]["status"], found["info"]["end_time"]) == ("FINISHED", 1_700_000_001_000)
    assert {one["key"]: one["value"] for one in found["data"]["metrics"]} == {
        "loss": 0.25,
        "acc": 1.0,
        "nan": "NaN",
    }
    assert {one["key"] for one in found["data"]["params"]} == {"rate", "depth"}
    assert "gone" not in {one["key"] for one in found["data"]["tags"]}
    history = await client.get(f"metrics/get-history?{address}&metric_key=loss")
    assert [(one["step"], one["value"]) for one in history["metrics"]] == [(0, 0.5), (1, 0.25)]
    search = {
        "experiment_ids": [experiment],
        "filter": "metrics.loss < 1 and params.depth = '3'",
        "run_view_type": "ACTIVE_ONLY",
        "max_results": 1000 if long is not client.double else long(1000),
        "order_by": ["metrics.loss ASC"],
    }
    runs = (await client.post("runs/search", search))["runs"]
    assert [one["info"]["run_id"] for one in runs] == [run["run_id"]]
    for verb, stage in (("delete", "deleted"), ("restore", "active")):
        await client.post(f"runs/{verb}", {"run_id": run["run_id"]})
        again = await client.get(f"runs/get?{address}")
        assert again["run"]["info"]["lifecycle_stage"] == stage
    listed = await client.get(f"artifacts/list?{address}")
    assert listed["root_uri"] == run["artifact_uri"]
    every = {"view_type": "ACTIVE_ONLY", "max_results": long(50)}
    names = [
        one["name"] for one in (await client.post("experiments/search", every))["experiments"]
    ]
    assert set(names) == {"theirs", "Default"}
    await client.post("experiments/update", {"experiment_id": experiment, "new_name": "other"})
    await client.post("experiments/delete", {"experiment_id": experiment})
    await client.post("experiments/restore", {"experiment_id": experiment})


async def test_a_script_of_another_language_registers_a_model(client: Client) -> None:
    await client.post("registered-models/create", {"name": "theirs", "description": "d"})
    for _ in range(2):
        body = {"name": "theirs", "source": "s3://bucket/model", "run_link": ""}
        await client.post("model-versions/create", body)
    stage = {"name": "theirs", "version": "1", "stage": "Production"}
    moved = await client.post(
        "model-versions/transition-stage", {**stage, "archive_existing_versions": "true"}
    )
    assert moved["model_version"]["current_stage"] == "Production"
    latest = await client.get(
        "registered-models/get-latest-versions?name=theirs&stages=Production"
    )
    assert [one["version"] for one in latest["model_versions"]] == ["1"]
    one = await client.get("model-versions/get?name=theirs&version=2")
    assert one["model_version"]["source"] == "s3://bucket/model"
    where = await client.get("model-versions/get-download-uri?name=theirs&version=2")
    assert where == {"artifact_uri": "s3://bucket/model"}
    found = await client.get("model-versions/search?filter=name%3D'theirs'&max_results=10")
    assert len(found["model_versions"]) == 2
    change = {"name": "theirs", "description": "more"}
    await client.post("registered-models/update", change, "PATCH")
    tag = {"name": "theirs", "version": "1", "key": "k", "value": "v"}
    await client.post("model-versions/set-tag", tag)
    await client.post("model-versions/delete", {"name": "theirs", "version": "2"}, "DELETE")
    await client.post("registered-models/delete", {"name": "theirs"}, "DELETE")
