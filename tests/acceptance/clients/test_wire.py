"""The wire itself: bodies, limits, errors and edges that no client shows but clients rely on."""

import json
import time
import uuid
from typing import Any

import httpx
import pytest

from tests.acceptance.serving import ORACLE, TrackingServer, pairs

INVALID = "INVALID_PARAMETER_VALUE"
JSON = {"Content-Type": "application/json"}
ABSENT = "RESOURCE_DOES_NOT_EXIST"


@pytest.fixture(scope="module")
def experiment(tracking: TrackingServer) -> str:
    """An experiment for this module."""
    made = tracking.post("experiments/create", name=f"wire-{uuid.uuid4().hex[:8]}")
    return str(made["experiment_id"])


@pytest.fixture
def run(tracking: TrackingServer, experiment: str) -> str:
    """A fresh run."""
    name = uuid.uuid4().hex
    made = tracking.post("runs/create", experiment_id=experiment, start_time=1, run_name=name)
    return str(made["run"]["info"]["run_id"])


def _refused(answer: httpx.Response, code: str = INVALID, says: str = "") -> None:
    status = {ABSENT: 404}.get(code, 400)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text
    assert says in answer.json()["message"]


def _points(count: int, key: str = "m") -> list[dict[str, Any]]:
    return [{"key": key, "value": i, "timestamp": i, "step": i} for i in range(count)]


def _pairs(count: int) -> list[dict[str, str]]:
    return [{"key": f"k{i}", "value": "v"} for i in range(count)]


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ({"metrics": _points(1001)}, "1000"),
        ({"params": _pairs(101)}, "100"),
        ({"tags": _pairs(101)}, "100"),
        ({"metrics": _points(950), "params": _pairs(60)}, "1000"),
    ],
)
def test_a_batch_over_its_limit_is_refused_whole(
    tracking: TrackingServer, run: str, batch: dict[str, Any], says: str
) -> None:
    answer = tracking.ask("POST", "runs/log-batch", json={"run_id": run, **batch})
    _refused(answer, says=says)
    data = tracking.get("runs/get", run_id=run)["run"]["data"]
    assert data.get("metrics", []) == data.get("params", []) == []


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("runs/log-metric", {"key": "a", "value": "many", "timestamp": 1}, "value"),
        ("runs/log-metric", {"key": "a", "value": None, "timestamp": 1}, "value"),
        ("runs/log-metric", {"key": "a", "timestamp": 1}, "value"),
        ("runs/log-metric", {"value": 1, "timestamp": 1}, "key"),
        ("runs/log-metric", {"key": "a", "value": 1}, "timestamp"),
        ("runs/log-metric", {"key": "a", "value": 1, "timestamp": 1, "step": "x"}, "step"),
        ("runs/log-parameter", {"value": "x"}, "key"),
        ("runs/log-parameter", {"key": 7, "value": "x"}, "key"),
        ("runs/set-tag", {"value": "x"}, "key"),
        (
            "runs/log-batch",
            {"metrics": [{"key": "a", "value": [], "timestamp": 1}]},
            "metrics[0]",
        ),
        ("runs/log-batch", {"metrics": [{"value": 1, "timestamp": 1}]}, "metrics[0]"),
        ("runs/log-batch", {"params": [{"key": "a/../b", "value": "x"}]}, ""),
    ],
)
def test_a_malformed_body_names_its_field(
    tracking: TrackingServer, run: str, path: str, body: dict[str, Any], says: str
) -> None:
    _refused(tracking.ask("POST", path, json={"run_id": run, **body}), says=says)


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ("NaN", "NaN"),
        ("Infinity", 1.7976931348623157e308),
        ("-Infinity", -1.7976931348623157e308),
        ("1.5", 1.5),
        (True, 1.0),
        (3, 3.0),
        (1e-300, 1e-300),
    ],
)
def test_metric_values_as_words_and_numbers(
    tracking: TrackingServer, run: str, sent: object, got: object
) -> None:
    tracking.post("runs/log-metric", run_id=run, key="m", value=sent, timestamp=5)
    (point,) = tracking.history(run, "m")
    assert point["value"] == got
    batch = [{"key": "b", "value": sent, "timestamp": "7", "step": "2"}]
    tracking.post("runs/log-batch", run_id=run, metrics=batch)
    (point,) = tracking.history(run, "b")
    assert (point["value"], point["timestamp"], point["step"]) == (got, 7, 2)


def test_a_bare_nan_in_the_body_is_taken(tracking: TrackingServer, run: str) -> None:
    body = f'{{"run_id": "{run}", "key": "m", "value": NaN, "timestamp": 1}}'
    answer = tracking.ask("POST", "runs/log-metric", content=body, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert tracking.history(run, "m")[0]["value"] == "NaN"


def test_a_bare_infinity_is_never_stored_as_zero(tracking: TrackingServer, run: str) -> None:
    """MLflow stores 0 for it; ours refuses it or keeps the largest number."""
    body = f'{{"run_id": "{run}", "key": "m", "value": Infinity, "timestamp": 9, "step": 3}}'
    answer = tracking.ask("POST", "runs/log-metric", content=body, headers=JSON)
    if ORACLE:
        assert answer.status_code == 200
        return
    points = tracking.history(run, "m")
    if answer.status_code == 200:
        assert [(p["value"], p["step"]) for p in points] == [(1.7976931348623157e308, 3)]
    else:
        _refused(answer)
        assert points == []


@pytest.mark.parametrize("method", ["run_id", "run_uuid"])
def test_either_name_of_the_run_is_taken(tracking: TrackingServer, run: str, method: str) -> None:
    tracking.post("runs/log-metric", **{method: run}, key="m", value=1, timestamp=1)
    tracking.post("runs/log-parameter", **{method: run}, key="p", value="1")
    tracking.post("runs/set-tag", **{method: run}, key="t", value="1")
    tracking.post("runs/update", **{method: run}, status="FINISHED", end_time=9)
    found = tracking.get("runs/get", **{method: run})["run"]
    assert found["info"]["status"] == "FINISHED"
    assert found["info"]["run_uuid"] == found["info"]["run_id"] == run
    assert (pairs(found["data"]["params"]), len(found["data"]["metrics"])) == ({"p": "1"}, 1)


def test_the_same_words_again_make_another_run(tracking: TrackingServer, experiment: str) -> None:
    """A caller who uses the first run and then asks again means a second one, not a retry."""
    runs = []
    for number in range(3):
        made = tracking.post("runs/create", experiment_id=experiment, start_time=77)
        runs.append(made["run"]["info"]["run_id"])
        tracking.post("runs/log-metric", run_id=runs[-1], key="m", value=number, timestamp=1)
    assert len(set(runs)) == 3


def test_a_body_encoded_twice_is_read(tracking: TrackingServer, run: str) -> None:
    """Very old clients send a JSON string that holds JSON."""
    body = json.dumps(json.dumps({"run_id": run, "key": "t", "value": "old"}))
    assert tracking.ask("POST", "runs/set-tag", content=body, headers=JSON).status_code == 200
    tags = pairs(tracking.get("runs/get", run_id=run)["run"]["data"]["tags"])
    assert tags["t"] == "old"


def test_unknown_fields_are_ignored_and_numbers_are_numbers(
    tracking: TrackingServer, run: str
) -> None:
    tracking.post("runs/log-metric", run_id=run, key="m", value=1, timestamp=123, step=4, new=[1])
    info = tracking.get("runs/get", run_id=run)["run"]["info"]
    assert info["start_time"] == 1
    assert isinstance(info["experiment_id"], str)
    assert tracking.history(run, "m") == [{"key": "m", "value": 1.0, "timestamp": 123, "step": 4}]


@pytest.mark.parametrize("prefix", ["/api/2.0/mlflow", "/ajax-api/2.0/mlflow"])
def test_both_prefixes_answer(tracking: TrackingServer, run: str, prefix: str) -> None:
    assert tracking.get(f"{prefix}/runs/get", run_id=run)["run"]["info"]["run_id"] == run
    found = tracking.post(f"{prefix}/experiments/search", max_results=1)
    assert len(found["experiments"]) == 1


@pytest.mark.parametrize(
    ("method", "path", "send", "code"),
    [
        ("GET", "runs/get", {"params": {"run_id": "0" * 32}}, ABSENT),
        ("GET", "runs/get", {}, INVALID),
        ("GET", "experiments/get", {"params": {"experiment_id": "abc"}}, INVALID),
        ("GET", "experiments/get", {"params": {"experiment_id": "99999999"}}, ABSENT),
        ("GET", "experiments/get-by-name", {"params": {"experiment_name": "no such"}}, ABSENT),
        ("POST", "experiments/create", {"json": {}}, INVALID),
        ("POST", "experiments/search", {"json": {"max_results": 0}}, INVALID),
        (
            "POST",
            "runs/search",
            {"json": {"experiment_ids": ["0"], "max_results": 50001}},
            INVALID,
        ),
        ("POST", "runs/search", {"json": {"experiment_ids": ["0"], "page_token": "%%"}}, INVALID),
        ("POST", "runs/update", {"json": {"run_id": "0" * 32}}, ABSENT),
        ("GET", "registered-models/get", {"params": {"name": "no such"}}, ABSENT),
        ("GET", "model-versions/get", {"params": {"name": "no such", "version": "1"}}, ABSENT),
        ("GET", "logged-models/m-00000000000000000000000000000000", {}, ABSENT),
    ],
)
def test_errors_carry_mlflows_codes(
    tracking: TrackingServer, method: str, path: str, send: dict[str, Any], code: str
) -> None:
    _refused(tracking.ask(method, path, **send), code)


def test_an_unknown_route_is_a_clean_404(tracking: TrackingServer) -> None:
    for path in ("/api/3.0/mlflow/no-such-thing", "/api/2.0/mlflow/no-such-call"):
        answer = tracking.ask("POST", path, json={})
        assert answer.status_code in (404, 501) or (ORACLE and answer.status_code < 500)
        assert "Traceback" not in answer.text


def test_health_version_and_server_facts(tracking: TrackingServer) -> None:
    health = tracking.ask("GET", "/health")
    assert (health.status_code, health.text) == (200, "OK")
    assert tracking.ask("GET", "/version").text.strip('"').count(".") >= 1
    facts = tracking.get("/api/3.0/mlflow/server-info")
    assert facts["store_type"] == "SqlStore"


def test_history_in_pages_holds_every_point_once(tracking: TrackingServer, run: str) -> None:
    for first in range(0, 3000, 1000):
        tracking.post(
            "runs/log-batch",
            run_id=run,
            metrics=[
                {"key": "m", "value": i / 3, "timestamp": 10_000 - i, "step": i}
                for i in range(first, first + 1000)
            ],
        )
    points: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    pages = 0
    while True:
        page = tracking.get(
            "metrics/get-history", run_id=run, metric_key="m", max_results=700, **token
        )
        points += page["metrics"]
        pages += 1
        if "next_page_token" not in page:
            break
        token = {"page_token": page["next_page_token"]}
    assert pages == 5
    assert [p["step"] for p in points] == list(range(2999, -1, -1))


def test_bulk_history_and_samples(tracking: TrackingServer, experiment: str) -> None:
    """The chart routes answer for several runs; samples keep the first and the last point."""
    runs = [
        tracking.post("runs/create", experiment_id=experiment, run_name=name)["run"]["info"][
            "run_id"
        ]
        for name in ("one", "two")
    ]
    for run in runs:
        tracking.post("runs/log-batch", run_id=run, metrics=_points(1000))
    bulk = tracking.get(
        "/ajax-api/2.0/mlflow/metrics/get-history-bulk",
        run_id=runs,
        metric_key="m",
        max_results=1500,
    )["metrics"]
    assert len(bulk) == 1500
    assert [p["run_id"] for p in bulk] == sorted(p["run_id"] for p in bulk)
    some = tracking.get(
        "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval",
        run_ids=runs,
        metric_key="m",
        max_results=50,
    )["metrics"]
    for run in runs:
        steps = [p["step"] for p in some if p["run_id"] == run]
        assert steps == sorted(set(steps))
        assert (steps[0], steps[-1]) == (0, 999)
        assert 40 <= len(steps) <= 60
    part = tracking.get(
        "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval",
        run_ids=runs[:1],
        metric_key="m",
        max_results=2500,
        start_step=100,
        end_step=200,
    )
    assert [p["step"] for p in part["metrics"]] == list(range(100, 201))
    half = {"run_ids": runs[0], "metric_key": "m", "max_results": 10, "start_step": 5}
    path = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval"
    _refused(tracking.ask("GET", path, params=half))


def test_log_model_of_the_second_generation_is_kept_as_a_tag(
    tracking: TrackingServer, run: str
) -> None:
    model = {
        "run_id": run,
        "artifact_path": "model",
        "utc_time_created": "2025-01-01 00:00:00",
        "flavors": {"python_function": {}},
        "model_uuid": "a",
    }
    tracking.post("runs/log-model", run_id=run, model_json=json.dumps(model))
    tracking.post("runs/log-model", run_id=run, model_json=json.dumps(model | {"model_uuid": "b"}))
    tags = pairs(tracking.get("runs/get", run_id=run)["run"]["data"]["tags"])
    kept = json.loads(tags["mlflow.log-model.history"])
    assert [m["model_uuid"] for m in kept] == ["a", "b"]
    _refused(tracking.ask("POST", "runs/log-model", json={"run_id": run, "model_json": "{"}))


def _artifact_root(tracking: TrackingServer, run: str) -> str:
    uri = tracking.get("runs/get", run_id=run)["run"]["info"]["artifact_uri"]
    return "/api/2.0/mlflow-artifacts/artifacts/" + uri.removeprefix("mlflow-artifacts:/")


def test_an_artifact_is_served_as_a_download(tracking: TrackingServer, run: str) -> None:
    root = _artifact_root(tracking, run)
    assert tracking.ask("PUT", f"{root}/a/page.html", content=b"<b>x</b>").status_code == 200
    got = tracking.ask("GET", f"{root}/a/page.html")
    assert got.content == b"<b>x</b>"
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-type"].startswith("text/html")
    listed = tracking.get(
        "/api/2.0/mlflow-artifacts/artifacts", path=root.split("/artifacts/", 1)[1]
    )["files"]
    assert [(f["path"], f["is_dir"]) for f in listed] == [("a", True)]
    assert tracking.files(run) == {"a/page.html": 8}
    ui = tracking.ask("GET", "/get-artifact", params={"run_uuid": run, "path": "a/page.html"})
    assert ui.content == b"<b>x</b>"
    assert tracking.ask("DELETE", f"{root}/a/page.html").status_code == 200
    assert tracking.ask("GET", f"{root}/a/page.html").status_code == 404


@pytest.mark.parametrize("path", ["..%2f..%2fetc", "%2e%2e/x", "a/%2e%2e/%2e%2e/b"])
def test_a_path_that_climbs_is_refused(tracking: TrackingServer, run: str, path: str) -> None:
    root = _artifact_root(tracking, run)
    for method in ("PUT", "GET", "DELETE"):
        answer = tracking.ask(method, f"{root}/{path}", content=b"x")
        assert answer.status_code in (400, 404) or (ORACLE and answer.status_code == 500)
    assert tracking.files(run) == {}
    answer = tracking.ask("GET", "artifacts/list", params={"run_id": run, "path": "../.."})
    _refused(answer)


def test_a_model_that_is_not_there_is_refused_by_name(tracking: TrackingServer, run: str) -> None:
    """MLflow registers a path that holds nothing; ours says what the run does hold."""
    root = _artifact_root(tracking, run)
    tracking.ask("PUT", f"{root}/food11/MLmodel", content=b"flavors: {}")
    name = f"absent-{uuid.uuid4().hex[:8]}"
    tracking.post("registered-models/create", name=name)
    uri = tracking.get("runs/get", run_id=run)["run"]["info"]["artifact_uri"]
    body = {"name": name, "source": f"{uri}/model", "run_id": run}
    answer = tracking.ask("POST", "model-versions/create", json=body)
    if ORACLE:
        assert answer.status_code == 200
        return
    assert answer.status_code in (400, 404)
    assert "food11" in answer.json()["message"]
    body["source"] = f"{uri}/food11"
    assert tracking.ask("POST", "model-versions/create", json=body).status_code == 200


@pytest.mark.parametrize("kind", ["absolute", "climbing", "foreign"])
def test_a_version_cannot_point_outside(tracking: TrackingServer, run: str, kind: str) -> None:
    """A local path, a climbing path or somebody else's run are no sources."""
    name = f"outside-{uuid.uuid4().hex[:8]}"
    tracking.post("registered-models/create", name=name)
    uri = tracking.get("runs/get", run_id=run)["run"]["info"]["artifact_uri"]
    source = {"absolute": "file:///etc", "climbing": f"{uri}/../../../x", "foreign": "/etc/passwd"}
    body = {"name": name, "source": source[kind], "run_id": run}
    _refused(tracking.ask("POST", "model-versions/create", json=body))


def test_times_move_forward(tracking: TrackingServer, experiment: str) -> None:
    """Without a start time the run starts at zero, as in MLflow; updates touch the experiment."""
    before = int(time.time() * 1000) - 5
    made = tracking.post("experiments/create", name=f"times-{uuid.uuid4().hex[:8]}")
    found = tracking.get("experiments/get", experiment_id=made["experiment_id"])["experiment"]
    assert before <= found["creation_time"] <= found["last_update_time"]
