"""Stock clients of both generations ask everything light; what they see is what MLflow shows."""

import uuid
from typing import Any

import pytest

from tests.acceptance.serving import SCRIPTS, TrackingServer, pairs, reports, run_client

SECTIONS = ("experiments", "runs", "search", "registry", "artifacts", "cli")
SEEN = dict[str, Any]


@pytest.fixture(scope="module", params=["mlflow2", "mlflow3"])
def seen(
    request: pytest.FixtureRequest,
    tracking: TrackingServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> SEEN:
    """Run all light calls of one client generation in one process."""
    sections = [*SECTIONS, *(["models", "genai"] if request.param == "mlflow3" else [])]
    prefix = f"{request.param}-{uuid.uuid4().hex[:6]}"
    home = tmp_path_factory.mktemp("client")
    output = run_client(
        tracking, request.param, SCRIPTS / "calls.py", prefix, *sections, home=home
    )
    return {"prefix": prefix, "generation": request.param, **reports(output)}


def _judge(seen: SEEN, section: str, least: int) -> None:
    report = seen[section]
    assert not report["failed"], "\n".join(report["failed"])
    assert report["passed"] >= least


def test_experiments_live_and_are_found_as_in_mlflow(seen: SEEN) -> None:
    _judge(seen, "experiments", 49)


def test_runs_and_all_that_is_logged_behave_as_in_mlflow(seen: SEEN) -> None:
    _judge(seen, "runs", 85)


def test_the_search_language_is_mlflows(seen: SEEN) -> None:
    _judge(seen, "search", 73)


def test_the_registry_behaves_as_in_mlflow(seen: SEEN) -> None:
    _judge(seen, "registry", 55)


def test_artifacts_of_every_kind_come_back_equal(seen: SEEN) -> None:
    _judge(seen, "artifacts", 26)


def test_the_verbs_of_the_mlflow_command_work(seen: SEEN) -> None:
    _judge(seen, "cli", 22)


def test_logged_models_behave_as_in_mlflow(seen: SEEN) -> None:
    """Clients of the second generation have no logged models and ask for none."""
    if seen["generation"] == "mlflow3":
        _judge(seen, "models", 25)
    else:
        assert "models" not in seen


def test_traces_prompts_and_evaluation_behave_as_in_mlflow(seen: SEEN) -> None:
    """Clients of the second generation have other calls for traces, and ask for none."""
    if seen["generation"] == "mlflow3":
        _judge(seen, "genai", 35)
    else:
        assert "genai" not in seen


def test_the_server_holds_what_the_client_logged(seen: SEEN, tracking: TrackingServer) -> None:
    """Values, params and points read by plain requests are those the client sent."""
    facts = seen["runs"]["facts"]
    run = tracking.get("runs/get", run_id=facts["values run"])["run"]
    metrics = pairs(run["data"]["metrics"])
    assert metrics["nan"] == "NaN"
    assert metrics["up"] == 1.7976931348623157e308
    assert metrics["text"] == 7
    batch = tracking.get("runs/get", run_id=facts["batch run"])["run"]
    assert len(batch["data"]["params"]) == 250
    assert [p["step"] for p in tracking.history(facts["batch run"], "many")] == list(range(1000))
    params = tracking.get("runs/get", run_id=facts["params run"])["run"]["data"]["params"]
    assert pairs(params)["unicode"] == "größe ✓ 雪\n2"
    assert len(tracking.history(facts["async run"], "loss")) == 200


def test_the_server_holds_the_files(seen: SEEN, tracking: TrackingServer) -> None:
    """Every file lies where the client put it, with its size and either image separator."""
    files = tracking.files(seen["artifacts"]["facts"]["run"])
    assert files["gpu-info.txt"] == 13
    assert files["tree/top.bin"] == 3_000_000
    assert files["tree/sub dir/empty name/zero"] == 0
    images = [name for name in files if name.startswith("images/")]
    separator = "%" if seen["generation"] == "mlflow2" else "+"
    assert len(images) == 2
    assert all(f"sample{separator}step{separator}4{separator}" in name for name in images)


def test_the_registry_holds_the_versions(seen: SEEN, tracking: TrackingServer) -> None:
    """Versions registered by URI name their run and are ready."""
    facts = seen["registry"]["facts"]["registered"]
    found = tracking.get("model-versions/search", filter=f"name = '{facts['name']}'")
    versions = found["model_versions"]
    assert sorted(v["version"] for v in versions) == ["1", "2"]
    assert {(v["run_id"], v["status"]) for v in versions} == {(facts["run"], "READY")}
