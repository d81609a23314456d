"""An experiment's own place for files: recorded, handed to clients, opened by nobody here."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform, open_platform, refused


async def create(caller: Caller, name: str, location: Any) -> Any:
    return await caller.mlflow(
        "POST", "experiments/create", {"name": name, "artifact_location": location}
    )


async def test_clients_are_told_where_files_go(platform: Platform) -> None:
    made = await create(platform.admin, "far", "s3://bucket/team/")
    experiment = made.json()["experiment_id"]
    shown = await platform.admin.mlflow("GET", f"experiments/get?experiment_id={experiment}")
    assert shown.json()["experiment"]["artifact_location"] == "s3://bucket/team"
    for _ in range(2):  # the careful form, then the quick one
        answer = await platform.admin.mlflow("POST", "runs/create", {"experiment_id": experiment})
        info = answer.json()["run"]["info"]
        assert info["artifact_uri"] == f"s3://bucket/team/{info['run_id']}/artifacts"
    model = await platform.admin.mlflow(
        "POST", "logged-models", {"experiment_id": experiment, "name": "net"}
    )
    info = model.json()["model"]["info"]
    assert info["artifact_uri"] == f"s3://bucket/team/models/{info['model_id']}/artifacts"


async def test_a_listing_says_where_they_are_and_looks_at_none(platform: Platform) -> None:
    made = await create(platform.admin, "far", "gs://bucket")
    answer = await platform.admin.mlflow(
        "POST", "runs/create", {"experiment_id": made.json()["experiment_id"]}
    )
    run_id = answer.json()["run"]["info"]["run_id"]
    listed = await platform.admin.mlflow("GET", f"artifacts/list?run_id={run_id}")
    assert listed.json() == {"root_uri": f"gs://bucket/{run_id}/artifacts"}


async def test_a_version_held_elsewhere_is_not_served(platform: Platform) -> None:
    await platform.admin.mlflow("POST", "registered-models/create", {"name": "net"})
    made = await platform.admin.mlflow(
        "POST", "model-versions/create", {"name": "net", "source": "s3://bucket/net"}
    )
    assert made.json()["model_version"]["status_message"] == "held elsewhere, not checked"
    answer = await platform.admin("GET", "/model-versions/get-artifact?name=net&version=1&path=x")
    assert "held elsewhere" in refused(answer, 404)


@pytest.mark.parametrize("location", [None, "", "mlflow-artifacts:/", "mlflow-artifacts:"])
async def test_the_servers_own_store_is_the_default(platform: Platform, location: Any) -> None:
    made = await create(platform.admin, "near", location)
    experiment = made.json()["experiment_id"]
    shown = await platform.admin.mlflow("GET", f"experiments/get?experiment_id={experiment}")
    assert shown.json()["experiment"]["artifact_location"] == f"mlflow-artifacts:/{experiment}"


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/tmp/x", "Local paths"),
        ("my_location", "Local paths"),
        ("file:///tmp", "Local paths"),
        ("http://host/x", "artifact_schemes"),
        ("mlflow-artifacts://host/x", "artifact_schemes"),
        ("runs:/x/y", "cannot be a runs:/ URI"),
        ("s3://b/../x", "steps up"),
        ("s3://b/%2e%2e/x", "steps up"),
        ("s3://", "in full"),
        ("s3://b/x#y", "can't include fragments"),
        ("s3://b/x?y=../z", "can't include fragments"),
        ("s3://b/" + "x" * 3000, "cannot be greater than 2048"),
        (9.0, "Invalid value 9.0 for parameter 'artifact_location'"),
    ],
)
async def test_other_places_are_refused(platform: Platform, location: Any, words: str) -> None:
    assert words in refused(await create(platform.admin, "far", location), 400)


async def test_settings_name_the_schemes(database_url: str, tmp_path: Path) -> None:
    async with open_platform(database_url, tmp_path / "home", artifact_schemes=("hdfs",)) as found:
        assert "artifact_schemes" in refused(await create(found.admin, "a", "s3://b"), 400)
        assert (await create(found.admin, "b", "hdfs://node/b")).status == 200
