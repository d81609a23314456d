"""Plans over HTTP: the figures of `yard plan`, no file of the server opened, odd input refused."""

import json
from typing import Any

import pytest

from tests.integration.server.platform import Platform
from trackyard.finetune.planning import calibration
from trackyard.finetune.shapes import BUILT_IN

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}


async def plan(platform: Platform, **body: Any) -> Any:
    return await platform.admin("POST", "/api/v1/plans", {"model": "llama-3.1-8b", **body})


async def test_plans_are_ranked_with_memory_by_part_and_rejections_say_why(
    platform: Platform,
) -> None:
    found = (await plan(platform, gpu="L4", tokens=1e9)).json()
    best, second = found["plans"]["plans"][:2]
    assert best["fits"]
    assert best["gpu_hours"] <= second["gpu_hours"]
    parts = best["memory_bytes"]
    assert parts["total"] == pytest.approx(
        sum(value for name, value in parts.items() if name != "total"), rel=1e-6
    )
    full = next(one for one in found["plans"]["rejected"] if one["setup"]["method"] == "full")
    assert "more than L4 has" in full["reason"]
    assert found["plans"]["answers"]["does it fit"].startswith("yes")


async def test_choices_that_are_made_are_kept(platform: Platform) -> None:
    found = (await plan(platform, method="lora", seq=4096, gpus=8, sharding="zero3")).json()
    setups = [one["setup"] for one in found["plans"]["plans"]]
    assert {(one["method"], one["sharding"], one["seq"]) for one in setups} == {
        ("lora", "zero3", 4096)
    }


async def test_a_config_that_is_sent_along_plans_like_the_built_in_model(
    platform: Platform,
) -> None:
    own = (await plan(platform, model="mine", config=CONFIG)).json()
    known = (await plan(platform, model="llama-2-7b")).json()
    assert own["model"]["params"] == known["model"]["params"]
    assert own["plans"]["plans"][0]["memory_bytes"] == known["plans"]["plans"][0]["memory_bytes"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "/etc"}, "is not a built-in model"),
        ({"gpu": "abacus"}, "is not in the table"),
        ({"method": "lorra"}, "method cannot be 'lorra'; did you mean lora?"),
        ({"global_batch": 3, "gpus": 2}, "cannot be split over 2 GPUs"),
        ({"config": {"hidden_size": 8}}, "has no num_hidden_layers"),
        ({"config": CONFIG | {"num_hidden_layers": 10**9}}, "over 1,000 layers"),
        ({"config": CONFIG | {"hidden_size": "wide"}}, "the config cannot be read"),
        ({"config": CONFIG | {"num_attention_heads": 0}}, "the config cannot be read"),
        ({"nodes": 10**9}, "nodes"),
    ],
)
async def test_what_cannot_be_planned_is_refused_with_what_to_do(
    platform: Platform, change: dict[str, Any], words: str
) -> None:
    answer = await plan(platform, **change)
    assert answer.status == 400
    assert words in answer.json()["message"]


async def test_options_name_every_built_in_model_and_choice(platform: Platform) -> None:
    found = (await platform.admin("GET", "/api/v1/plans/options")).json()
    assert [one["name"] for one in found["models"]] == list(BUILT_IN)
    assert "qlora" in found["choices"]["method"]


async def test_finished_runs_say_how_good_plans_have_been(platform: Platform) -> None:
    made = await platform.admin(
        "POST", "/api/2.0/mlflow/runs/create", {"experiment_id": "0", "start_time": 1}
    )
    run_id = made.json()["run"]["info"]["run_id"]
    figures = dict(zip(calibration.METRICS, (10.0, 11.0, 1.0, 1.1), strict=True))
    metrics = [
        {"key": key, "value": value, "timestamp": 1, "step": 0} for key, value in figures.items()
    ]
    settings = {calibration.GPU_PARAM: "H200", calibration.SETUP_PARAM: json.dumps({})}
    params = [{"key": key, "value": value} for key, value in settings.items()]
    body = {"run_id": run_id, "metrics": metrics, "params": params}
    assert (await platform.admin("POST", "/api/2.0/mlflow/runs/log-batch", body)).status == 200
    found = (await plan(platform)).json()
    assert found["so_far"].startswith("peak memory of 1 finished run: off by 9.1%")
