"""The registry over its routes: methods, bodies, roles, errors and the tokens of attempts."""

import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Answer, Caller, Platform, open_platform
from trackyard.access.principal import AttemptScope

INVALID, ABSENT, DENIED = "INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "PERMISSION_DENIED"


@pytest.fixture
async def platform(database_url: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """A platform with its first admin."""
    async with open_platform(database_url, tmp_path / "home") as found:
        yield found


class Client:
    """Calls MLflow routes and insists on the outcome."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        if not path.startswith("/"):
            path = f"/api/2.0/mlflow/{path}"
        return await self.caller(method, path, body)

    async def ok(self, method: str, path: str, **body: Any) -> Any:
        answer = await self.ask(method, path, None if method == "GET" else body)
        assert answer.status == 200, (path, answer.body)
        return answer.json()

    async def refused(self, code: str, method: str, path: str, **body: Any) -> str:
        answer = await self.ask(method, path, None if method == "GET" else body)
        status = {INVALID: 400, ABSENT: 404, DENIED: 403}.get(code, 400)
        assert (answer.status, answer.json()["error_code"]) == (status, code), (path, answer.body)
        return str(answer.json()["message"])

    async def put(self, uri: str, data: bytes) -> None:
        path = "/api/2.0/mlflow-artifacts/artifacts/" + uri.removeprefix("mlflow-artifacts:/")
        answer = await self.caller("PUT", path, raw=data)
        assert answer.status == 200, answer.body

    async def run(self, *paths: str) -> tuple[str, str]:
        """Make a run that holds files; return its id and artifact uri."""
        made = await self.ok("POST", "runs/create", experiment_id="0")
        info = made["run"]["info"]
        for path in paths:
            await self.put(f"{info['artifact_uri']}/{path}", b"x")
        return info["run_id"], info["artifact_uri"]


@pytest.fixture
async def client(platform: Platform) -> Client:
    """A maintainer of a team."""
    return Client(await platform.caller("ada", "vision", "maintainer"))


async def test_a_models_life_over_both_prefixes(client: Client) -> None:
    """Every registry call with the method and body that stock clients send."""
    run_id, uri = await client.run("model/MLmodel")
    made = await client.ok("POST", "registered-models/create", name="net", tags=[])
    assert made["registered_model"]["name"] == "net"
    message = await client.refused(
        "RESOURCE_ALREADY_EXISTS", "POST", "registered-models/create", name="net"
    )
    assert message == "Registered Model (name=net) already exists."
    body = {"name": "net", "source": f"{uri}/model", "run_id": run_id, "tags": []}
    for _ in range(2):
        version = (await client.ok("POST", "model-versions/create", **body))["model_version"]
    assert (version["version"], version["status"]) == ("2", "READY")
    named: dict[str, Any] = {"name": "net", "version": "2"}
    await client.ok("PATCH", "registered-models/update", name="net", description="d")
    await client.ok("POST", "registered-models/set-tag", name="net", key="a", value="1")
    await client.ok("DELETE", "registered-models/delete-tag", name="net", key="a")
    await client.ok("PATCH", "model-versions/update", **named, description="words")
    await client.ok("POST", "model-versions/set-tag", **named, key="k", value="v")
    await client.ok("DELETE", "model-versions/delete-tag", **named, key="k")
    await client.ok(
        "POST", "model-versions/transition-stage", **named, stage="production",
        archive_existing_versions=True,
    )  # fmt: skip
    await client.ok("POST", "registered-models/alias", **named, alias="best")
    got = await client.ok("GET", "registered-models/alias?name=net&alias=best")
    assert got["model_version"]["current_stage"] == "Production"
    await client.ok("DELETE", "registered-models/alias", name="net", alias="best")
    for latest in (
        await client.ok("POST", "registered-models/get-latest-versions", name="net"),
        await client.ok("GET", "registered-models/get-latest-versions?name=net&stages=Production"),
    ):
        assert latest["model_versions"][-1]["version"] == "2"
    ajax = "/ajax-api/2.0/mlflow"
    found = await client.ok("GET", f"{ajax}/model-versions/search?filter=name%3D'net'")
    assert len(found["model_versions"]) == 2
    uri_of = await client.ok("GET", f"{ajax}/model-versions/get-download-uri?name=net&version=1")
    assert uri_of == {"artifact_uri": f"{uri}/model"}
    await client.ok("DELETE", "model-versions/delete", **named)
    await client.refused(ABSENT, "GET", "model-versions/get?name=net&version=2")
    await client.ok("POST", "registered-models/rename", name="net", new_name="nest")
    assert (await client.ok("GET", "registered-models/search"))["registered_models"]
    await client.ok("DELETE", "registered-models/delete", name="nest")
    assert await client.ok("GET", "registered-models/search") == {}


async def test_roles_decide_who_curates(platform: Platform, client: Client) -> None:
    """A viewer reads, a member registers, a maintainer promotes and deletes."""
    run_id, _ = await client.run("model/MLmodel")
    member = Client(await platform.caller("ben", "vision", "member"))
    viewer = Client(await platform.caller("cleo", "vision", "viewer"))
    await viewer.refused(DENIED, "POST", "registered-models/create", name="net")
    await member.ok("POST", "registered-models/create", name="net")
    create = {"name": "net", "source": f"runs:/{run_id}/model"}
    await viewer.refused(DENIED, "POST", "model-versions/create", **create)
    await member.ok("POST", "model-versions/create", **create)
    named: dict[str, Any] = {"name": "net", "version": "1"}
    await viewer.ok("GET", "model-versions/get?name=net&version=1")
    await viewer.refused(DENIED, "POST", "model-versions/set-tag", **named, key="k", value="v")
    await member.ok("POST", "model-versions/set-tag", **named, key="k", value="v")
    model = await member.ok("POST", "logged-models", experiment_id="0", name="echo")
    logged = f"logged-models/{model['model']['info']['model_id']}"
    for method, path, body in (
        ("POST", "model-versions/transition-stage", {**named, "stage": "Staging"}),
        ("POST", "registered-models/alias", {**named, "alias": "best"}),
        ("DELETE", "registered-models/alias", {"name": "net", "alias": "best"}),
        ("DELETE", "model-versions/delete", named),
        ("POST", "registered-models/rename", {"name": "net", "new_name": "nest"}),
        ("DELETE", "registered-models/delete", {"name": "nest"}),
        ("DELETE", logged, {}),
    ):
        await viewer.refused(DENIED, method, path, **body)
        await member.refused(DENIED, method, path, **body)
        await client.ok(method, path, **body)


async def test_sources_outside_the_team_are_refused(platform: Platform, client: Client) -> None:
    """Places are 400, what another team holds is 404, and neither leaves a version behind."""
    other = Client(await platform.caller("dan", "speech", "maintainer"))
    foreign, foreign_uri = await other.run("model/MLmodel")
    own, own_uri = await client.run("model/MLmodel")
    prompt = {"key": "mlflow.prompt.is_prompt", "value": "true"}
    await client.ok("POST", "registered-models/create", name="net")
    for code, source, more in (
        (INVALID, "/etc/passwd", {}),
        (INVALID, "file:///etc", {"run_id": own}),
        (INVALID, f"{own_uri}/../../x", {"run_id": own}),
        (INVALID, f"{own_uri}/model#/../../x", {"run_id": own}),
        (INVALID, "s3://bucket/model", {"tags": [prompt]}),
        (INVALID, f"runs:/{own}/missing", {}),
        (ABSENT, f"runs:/{foreign}/model", {}),
        (ABSENT, f"{foreign_uri}/model", {"run_id": foreign}),
        (ABSENT, f"{own_uri}/model", {"run_id": foreign}),
    ):  # fmt: skip
        await client.refused(
            code, "POST", "model-versions/create", name="net", source=source, **more
        )
    assert await client.ok("GET", "model-versions/search") == {}


async def test_arguments_are_checked_with_mlflows_words(client: Client) -> None:
    await client.ok("POST", "registered-models/create", name="net")
    for method, path, body, words in (
        ("POST", "registered-models/create", {}, "Missing value for required parameter 'name'"),
        ("POST", "registered-models/create", {"name": 7.5}, "Invalid value 7.5 for parameter"),
        ("POST", "registered-models/create", {"name": " net"}, "could pass for 'net'"),
        ("POST", "registered-models/create", {"name": "n%65t"}, "could pass for 'net'"),
        ("POST", "registered-models/create", {"name": "a/b"}, "Names cannot contain '/' or ':'."),
        ("POST", "model-versions/create", {"name": "net"}, "required parameter 'source'"),
        ("GET", "model-versions/get?name=net&version=abc", {}, "must be an integer, got 'abc'"),
        ("GET", "registered-models/search?max_results=1001", {}, "'max_results'"),
        ("GET", "registered-models/search?page_token=x", {}, "Invalid page token"),
        ("POST", "logged-models", {"name": "x"}, "required parameter 'experiment_id'"),
        ("POST", "logged-models/search", {}, "required parameter 'experiment_ids'"),
    ):  # fmt: skip
        assert words in await client.refused(INVALID, method, path, **body)


async def test_a_logged_models_life(client: Client) -> None:
    """Create, upload, finalise, tag, list, download, search and delete, as log_model does."""
    run_id, _ = await client.run()
    made = await client.ok(
        "POST", "logged-models", experiment_id="0", name="echo", source_run_id=run_id,
        params=[{"key": "lr", "value": "1"}], tags=[],
    )  # fmt: skip
    info = made["model"]["info"]
    one = f"logged-models/{info['model_id']}"
    await client.put(f"{info['artifact_uri']}/MLmodel", b"flavors: {}")
    await client.put(f"{info['artifact_uri']}/data/weights.bin", b"12345")
    for status in (2, "2", "LOGGED_MODEL_READY", "READY"):
        got = await client.ok("PATCH", one, model_id=info["model_id"], status=status)
        assert got["model"]["info"]["status"] == "LOGGED_MODEL_READY"
    await client.refused(INVALID, "PATCH", one, status=0)
    await client.refused(INVALID, "PATCH", one)
    await client.ok("PATCH", f"{one}/tags", tags=[{"key": "a/b c", "value": "1"}])
    await client.ok("DELETE", f"{one}/tags/a/b%20c")
    await client.refused(ABSENT, "DELETE", f"{one}/tags/a/b%20c")
    await client.ok("POST", f"{one}/params", params=[{"key": "depth", "value": "2"}])
    listed = await client.ok("GET", f"{one}/artifacts/directories")
    assert listed == {
        "root_uri": info["artifact_uri"],
        "files": [
            {"path": "MLmodel", "is_dir": False, "file_size": 11},
            {"path": "data", "is_dir": True},
        ],
    }
    below = await client.ok("GET", f"{one}/artifacts/directories?artifact_directory_path=data")
    assert below["files"] == [{"path": "data/weights.bin", "is_dir": False, "file_size": 5}]
    files = f"/ajax-api/2.0/mlflow/{one}/artifacts/files?artifact_file_path="
    answer = await client.ask("GET", files + "data/weights.bin")
    assert (answer.status, answer.body) == (200, b"12345")
    for climbing in ("../x", "%2e%2e/x", "/etc/passwd"):
        await client.refused(INVALID, "GET", files + climbing)
    await client.ok(
        "POST", "runs/log-metric", run_id=run_id, key="acc", value=0.5, timestamp=1, step=1,
        model_id=info["model_id"], dataset_name="mnist", dataset_digest="d",
    )  # fmt: skip
    found = await client.ok(
        "POST", "logged-models/search", experiment_ids=["0"], filter="metrics.acc >= 0.5",
        datasets=[{"dataset_name": "mnist"}], max_results=10,
        order_by=[{"field_name": "metrics.acc", "ascending": False}],
    )  # fmt: skip
    assert [model["info"]["model_id"] for model in found["models"]] == [info["model_id"]]
    assert found["models"][0]["data"]["metrics"][0]["dataset_name"] == "mnist"
    await client.ok("DELETE", one)
    await client.refused(ABSENT, "GET", one)
    assert (await client.ok("GET", f"{one}?allow_deleted=true"))["model"]["info"]["name"] == "echo"


async def test_an_attempt_registers_its_own_run_and_no_other(
    platform: Platform, client: Client
) -> None:
    own, _ = await client.run("model/MLmodel")
    foreign, _ = await client.run("model/MLmodel")
    principal = await platform.services.directory.authenticate(client.caller.token or "")
    assert principal is not None
    _, token = await platform.services.directory.create_attempt_token(
        team_id=principal.team_id, scope=AttemptScope(run_id=own), expires_ms=None
    )
    attempt = Client(Caller(platform.application, token))
    await attempt.ok("POST", "registered-models/create", name="net")
    await attempt.ok("POST", "model-versions/create", name="net", source=f"runs:/{own}/model")
    await attempt.refused(
        ABSENT, "POST", "model-versions/create", name="net", source=f"runs:/{foreign}/model"
    )
    await attempt.ok("GET", "registered-models/get?name=net")
    made = await attempt.ok(
        "POST", "logged-models", experiment_id="0", name="echo", source_run_id=own
    )
    one = f"logged-models/{made['model']['info']['model_id']}"
    await attempt.ok("PATCH", one, status="LOGGED_MODEL_READY")
    await attempt.refused(
        ABSENT, "POST", "logged-models", experiment_id="0", name="echo", source_run_id=foreign
    )
    named: dict[str, Any] = {"name": "net", "version": "1"}
    for method, path, body in (
        ("POST", "registered-models/alias", {**named, "alias": "best"}),
        ("POST", "registered-models/rename", {"name": "net", "new_name": "x"}),
        ("DELETE", "registered-models/delete", {"name": "net"}),
        ("POST", "model-versions/transition-stage", {**named, "stage": "Staging"}),
        ("DELETE", one, {}),
    ):
        await attempt.refused(DENIED, method, path, **body)


class Canary:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


async def test_a_model_is_never_opened(client: Client, tmp_path: Path) -> None:
    """A pickle and a tagged YAML file are stored, listed and registered, and never loaded."""
    canary = tmp_path / "canary"
    run_id, uri = await client.run()
    await client.put(f"{uri}/model/model.pkl", pickle.dumps(Canary(canary)))
    await client.put(
        f"{uri}/model/MLmodel", f"!!python/object/apply:pathlib.Path.touch [{canary}]".encode()
    )
    await client.ok("POST", "registered-models/create", name="net")
    await client.ok("POST", "model-versions/create", name="net", source=f"runs:/{run_id}/model")
    await client.ok("GET", f"artifacts/list?run_id={run_id}&path=model")
    answer = await client.ask(
        "GET", "/model-versions/get-artifact?name=net&version=1&path=model.pkl"
    )
    assert answer.body == pickle.dumps(Canary(canary))
    assert not canary.exists()
    pickle.loads(answer.body)
    assert canary.exists()
