"""Messages, statuses and samples that MLflow's own tests compare."""

import json
from typing import Any

import pytest

from tests.integration.server.platform import Platform, new_run, refused


async def test_a_bulk_history_says_what_it_misses(platform: Platform) -> None:
    read = platform.admin.mlflow
    for query, words in (
        ("", "GetMetricHistoryBulk request must specify at least one run_id."),
        ("run_id=1", "GetMetricHistoryBulk request must specify a metric_key."),
    ):
        answer = await read("GET", f"metrics/get-history-bulk?{query}")
        assert refused(answer, 400) == words
    many = "&".join(f"run_id={number}" for number in range(101))
    answer = await read("GET", f"metrics/get-history-bulk?metric_key=a&{many}")
    assert "cannot specify more than 100 run_ids. Received 101" in refused(answer, 400)


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (5, [0, 4, 8, 12, 19]),
        (3, [0, 7, 19]),
        (6, [0, 4, 8, 11, 14, 19]),
        (1, [19]),
        (20, list(range(20))),
        (50, list(range(20))),
    ],
)
async def test_samples_are_those_of_mlflow(
    platform: Platform, limit: int, steps: list[int]
) -> None:
    run_id = await new_run(platform.admin)
    points = [
        {"key": "loss", "value": step, "step": step, "timestamp": step} for step in range(20)
    ]
    await platform.admin.mlflow("POST", "runs/log-batch", {"run_id": run_id, "metrics": points})
    answer = await platform.admin.mlflow(
        "GET",
        f"metrics/get-history-bulk-interval?run_ids={run_id}&metric_key=loss&max_results={limit}",
    )
    assert [point["step"] for point in answer.json()["metrics"]] == steps


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("GET", "runs/create", "POST"),
        ("DELETE", "experiments/get", "GET"),
        ("PUT", f"logged-models/m-{'0' * 32}", "DELETE, GET, PATCH"),
    ],
)
async def test_a_wrong_method_is_405(
    platform: Platform, method: str, path: str, takes: str
) -> None:
    answer = await platform.admin.mlflow(method, path)
    assert refused(answer, 405).endswith(f"it takes {takes}")
    assert answer.json()["error_code"] == "ENDPOINT_NOT_FOUND"
    refused(await platform.nobody.mlflow(method, path), 401)


async def test_a_wrong_content_type_is_400(platform: Platform) -> None:
    for path in (
        "runs/create",
        "runs/log-batch",
        "runs/log-metric",
        "experiments/search-datasets",
    ):
        answer = await platform.admin(
            "POST",
            f"/api/2.0/mlflow/{path}",
            raw=json.dumps({"experiment_id": "0"}).encode(),
            headers={"content-type": "text/plain"},
        )
        said = refused(answer, 400)
        assert said == "Bad Request. Content-Type must be one of ['application/json']."


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "SearchDatasets request must specify at least one experiment_id."),
        ({"experiment_ids": []}, "must specify at least one experiment_id."),
        ({"experiment_ids": ["0"] * 21}, "more than 20 experiment_ids. Received 21"),
        ({"experiment_ids": [{}]}, "Invalid value"),
    ],
)
async def test_a_search_for_datasets_refuses_bad_bodies(
    platform: Platform, body: Any, words: str
) -> None:
    answer = await platform.admin.mlflow("POST", "experiments/search-datasets", body)
    assert words in refused(answer, 400)


async def test_a_bad_path_is_refused_in_two_words(platform: Platform) -> None:
    run_id = await new_run(platform.admin)
    for path in ("/etc/passwd", "../x", "%252e%252e/x", "C:/x"):
        answer = await platform.admin.mlflow("GET", f"artifacts/list?run_id={run_id}&path={path}")
        assert refused(answer, 400) == "Invalid path"
        assert answer.json()["details"]["reason"]


async def test_an_experiment_without_a_name_is_refused_in_its_words(platform: Platform) -> None:
    for body in ({}, {"name": ""}, {"name": None}):
        answer = await platform.admin.mlflow("POST", "experiments/create", body)
        assert refused(answer, 400) == "Missing value for required parameter 'name'."


async def test_a_path_that_begins_with_two_slashes_is_found(platform: Platform) -> None:
    answer = await platform.admin(
        "GET", "//model-versions/get-artifact?name=a&version=1&path=../x"
    )
    assert refused(answer, 400) == "Invalid path"
