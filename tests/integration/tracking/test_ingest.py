"""Logging over the routes, on both databases: MLflow's rules, and what reads give back."""

import math
from pathlib import Path

import pytest

from tests.integration.server.platform import Caller, Platform, open_platform
from trackyard.tracking.metrics import compaction


@pytest.fixture
async def platform(database_url: str, tmp_path: Path):
    async with open_platform(database_url, tmp_path / "home") as found:
        yield found


async def _run(caller: Caller) -> str:
    made = await caller.mlflow("POST", "runs/create", {"experiment_id": "0"})
    return made.json()["run"]["info"]["run_id"]


async def _batch(caller: Caller, run_id: str, **parts) -> int:
    return (await caller.mlflow("POST", "runs/log-batch", {"run_id": run_id, **parts})).status


def _points(key: str, steps, value=lambda step: step / 7, time=lambda step: 1000 + step):
    return [
        {"key": key, "value": value(step), "timestamp": time(step), "step": step} for step in steps
    ]


async def _history(caller: Caller, run_id: str, key: str) -> list[dict]:
    found, token = [], ""
    while True:
        page = (
            await caller.mlflow(
                "GET",
                f"metrics/get-history?run_id={run_id}&metric_key={key}&max_results=70"
                + (f"&page_token={token}" if token else ""),
            )
        ).json()
        found += page.get("metrics", [])
        token = page.get("next_page_token")
        if not token:
            return found


async def test_history_is_the_same_before_and_after_settling(platform: Platform) -> None:
    """What was logged is read back whole from the log, from blocks, and from both."""
    caller = platform.admin
    run_id = await _run(caller)
    assert await _batch(caller, run_id, metrics=_points("loss", range(100))) == 200
    before = await _history(caller, run_id, "loss")
    assert [point["step"] for point in before] == list(range(100))
    assert [point["value"] for point in before] == [step / 7 for step in range(100)]
    await platform.services.tracking.settle_all()
    assert await _history(caller, run_id, "loss") == before
    assert await _batch(caller, run_id, metrics=_points("loss", range(100, 200))) == 200
    assert len(await _history(caller, run_id, "loss")) == 200
    await platform.services.tracking.settle_all()
    after = await _history(caller, run_id, "loss")
    assert [point["step"] for point in after] == list(range(200))


async def test_a_batch_sent_twice_is_kept_once(platform: Platform) -> None:
    """A retried request changes nothing, even across settling."""
    caller = platform.admin
    run_id = await _run(caller)
    for _ in range(2):
        assert await _batch(caller, run_id, metrics=_points("loss", range(50))) == 200
        await platform.services.tracking.settle_all()
        assert len(await _history(caller, run_id, "loss")) == 50


async def test_two_settlers_move_each_point_once(platform: Platform) -> None:
    """Stale work of a second settler is dropped."""
    caller = platform.admin
    run_id = await _run(caller)
    await _batch(caller, run_id, metrics=_points("loss", range(50)))
    database = platform.services.database
    (inner,) = await database.read(
        lambda reader: reader.one("SELECT id FROM runs WHERE uuid = ?", (run_id,))
    )
    work = [
        await database.read(lambda reader: compaction._prepare(reader, inner, final=False))
        for _ in range(2)
    ]
    await database.write(lambda tx: compaction._apply(tx, work[0]))
    with pytest.raises(compaction.Conflict):
        await database.write(lambda tx: compaction._apply(tx, work[1]))
    assert len(await _history(caller, run_id, "loss")) == 50


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("NaN", "NaN"),
        ("Infinity", 1.7976931348623157e308),
        ("-Infinity", -1.7976931348623157e308),
        ("0.5", 0.5),
        (True, 1.0),
        (3, 3),
        (0.1 + 0.2, 0.30000000000000004),
    ],
)
async def test_values_come_back_as_mlflow_gives_them(platform: Platform, sent, shown) -> None:
    """NaN as text, infinities as the largest double, numbers to the last bit."""
    caller = platform.admin
    run_id = await _run(caller)
    metric = {"run_id": run_id, "key": "m", "value": sent, "timestamp": 5}
    assert (await caller.mlflow("POST", "runs/log-metric", metric)).status == 200
    run = (await caller.mlflow("GET", f"runs/get?run_id={run_id}")).json()["run"]
    assert run["data"]["metrics"][0]["value"] == shown
    assert (await _history(caller, run_id, "m"))[0]["value"] == shown


async def test_bare_nan_and_infinity_literals_are_understood(platform: Platform) -> None:
    """What Python's json writes for NaN and Infinity is read as such, never as zero."""
    caller = platform.admin
    run_id = await _run(caller)
    raw = (
        f'{{"run_id": "{run_id}", "metrics": [{{"key": "a", "value": NaN, "timestamp": 1}},'
        ' {"key": "b", "value": Infinity, "timestamp": 1}, {"key": "c", "value": 1e400,'
        ' "timestamp": 1}]}'
    )
    answer = await caller(
        "POST",
        "/api/2.0/mlflow/runs/log-batch",
        raw=raw.encode(),
        headers={"content-type": "application/json"},
    )
    assert answer.status == 200
    run = (await caller.mlflow("GET", f"runs/get?run_id={run_id}")).json()["run"]
    values = {metric["key"]: metric["value"] for metric in run["data"]["metrics"]}
    assert values == {"a": "NaN", "b": 1.7976931348623157e308, "c": 1.7976931348623157e308}


async def test_latest_is_by_step_then_time_then_value(platform: Platform) -> None:
    """The latest value is not the last arrival; least and greatest are kept beside it."""
    caller = platform.admin
    run_id = await _run(caller)
    for step, time, value in ((5, 10, 1.0), (9, 10, 2.0), (7, 99, 3.0), (9, 10, 1.5)):
        await _batch(
            caller,
            run_id,
            metrics=[{"key": "m", "value": value, "timestamp": time, "step": step}],
        )
    page = (await caller("GET", f"/api/v1/runs/{run_id}")).json()
    (metric,) = page["metrics"]
    assert (metric["last"], metric["step"]) == (2.0, 9)
    assert (metric["min"], metric["max"]) == (1.0, 3.0)


async def test_params_cannot_change(platform: Platform) -> None:
    """The same value again is fine, another one is refused and nothing of the batch lands."""
    caller = platform.admin
    run_id = await _run(caller)
    first = [{"key": "lr", "value": "0.1"}]
    assert await _batch(caller, run_id, params=first) == 200
    assert await _batch(caller, run_id, params=first) == 200
    other = await caller.mlflow(
        "POST",
        "runs/log-batch",
        {
            "run_id": run_id,
            "params": [{"key": "lr", "value": "0.2"}, {"key": "new", "value": "1"}],
            "metrics": _points("m", [1]),
        },
    )
    assert other.status == 400
    assert other.json()["error_code"] == "INVALID_PARAMETER_VALUE"
    assert "Changing param values is not allowed" in other.json()["message"]
    data = (await caller.mlflow("GET", f"runs/get?run_id={run_id}")).json()["run"]["data"]
    assert data["params"] == first
    assert "metrics" not in data


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"metrics": _points("m", range(1001))}, "at most 1000 metrics"),
        ({"params": [{"key": str(n), "value": ""} for n in range(101)]}, "at most 100 params"),
        ({"tags": [{"key": str(n), "value": ""} for n in range(101)]}, "at most 100 tags"),
        ({"metrics": [{"key": "m", "timestamp": 1}]}, "metrics[0].value"),
        ({"metrics": [{"key": "m", "value": "abc", "timestamp": 1}]}, "metrics[0].value"),
        ({"metrics": [{"key": "m", "value": 1, "timestamp": "x"}]}, "metrics[0].timestamp"),
        ({"metrics": [{"key": "../m", "value": 1, "timestamp": 1}]}, "metrics[0].key"),
        ({"metrics": [{"key": "m" * 251, "value": 1, "timestamp": 1}]}, "250"),
        ({"metrics": "m"}, "metrics"),
        ({"params": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}, "Duplicate"),
    ],
)
async def test_bad_batches_are_refused_by_name(platform: Platform, parts, says) -> None:
    """The message names the field at fault, and nothing is written."""
    caller = platform.admin
    run_id = await _run(caller)
    answer = await caller.mlflow("POST", "runs/log-batch", {"run_id": run_id, **parts})
    assert answer.status == 400
    assert says in answer.json()["message"]
    assert answer.json()["error_code"] == "INVALID_PARAMETER_VALUE"


async def test_deleted_runs_take_nothing(platform: Platform) -> None:
    """Writing to a deleted run is refused until it is restored."""
    caller = platform.admin
    run_id = await _run(caller)
    await caller.mlflow("POST", "runs/delete", {"run_id": run_id})
    assert await _batch(caller, run_id, metrics=_points("m", [1])) == 400
    await caller.mlflow("POST", "runs/restore", {"run_id": run_id})
    assert await _batch(caller, run_id, metrics=_points("m", [1])) == 200


async def test_charts_agree_with_the_points(platform: Platform) -> None:
    """Roll-ups from blocks, from the log and from both say the same."""
    caller = platform.admin
    run_id = await _run(caller)
    for start in range(0, 20_000, 1000):
        points = _points("m", range(start, start + 1000), value=lambda step: math.sin(step / 50))
        await _batch(caller, run_id, metrics=points)
    target = f"/api/v1/series?run_id={run_id}&key=m&points=64"
    (unsettled,) = (await caller("GET", target)).json()["series"]
    await platform.services.tracking.settle_all()
    (settled,) = (await caller("GET", target)).json()["series"]
    assert settled == unsettled
    assert settled["width"] == 512
    assert sum(settled["count"]) == 20_000
    assert max(settled["max"]) > 0.999
    zoom = f"{target}&first_step=1000&last_step=1100"
    (near,) = (await caller("GET", zoom)).json()["series"]
    assert near["width"] == 2
    assert near["step"][0] in (1000, 1001)
    assert near["step"][-1] == 1100


async def test_rolled_back_points_are_kept_and_told_apart(platform: Platform) -> None:
    """A later attempt that goes back takes the curve with it; what it undid can still be drawn."""
    from trackyard.access.principal import AttemptScope

    caller = platform.admin
    run_id = await _run(caller)
    principal = await platform.services.directory.authenticate(caller.token or "")
    assert principal is not None
    for attempt, steps, level in ((1, range(10), 1.0), (2, range(6, 12), 2.0)):
        _, token = await platform.services.directory.create_attempt_token(
            team_id=principal.team_id,
            scope=AttemptScope(run_id=run_id, attempt=attempt),
            expires_ms=None,
        )
        points = _points("m", steps, value=lambda step, level=level: level)
        assert await _batch(Caller(platform.application, token), run_id, metrics=points) == 200
    for _ in range(2):
        visible = await _history(caller, run_id, "m")
        assert [(p["step"], p["value"]) for p in visible] == [(s, 1.0) for s in range(6)] + [
            (s, 2.0) for s in range(6, 12)
        ]
        target = f"/api/v1/series?run_id={run_id}&key=m&orphans=1"
        (orphans,) = (await caller("GET", target)).json()["series"]
        assert orphans["step"] == [6, 7, 8, 9]
        await platform.services.tracking.settle_all()


async def test_events_follow_each_change_and_resume(platform: Platform) -> None:
    """Each state change appends its event; a cursor misses none and repeats none."""
    caller = platform.admin
    start = (await caller("GET", "/api/v1/events?order=newest&limit=1")).json()["next"]
    run_id = await _run(caller)
    await _batch(caller, run_id, params=[{"key": "a", "value": "1"}])
    await caller.mlflow("POST", "runs/update", {"run_id": run_id, "status": "FINISHED"})
    await caller.mlflow("POST", "runs/delete", {"run_id": run_id})
    kinds, cursor = [], start
    while True:
        page = (await caller("GET", f"/api/v1/events?since={cursor}&limit=1")).json()
        if not page["events"]:
            break
        kinds += [event["kind"] for event in page["events"]]
        cursor = page["next"]
    assert kinds == ["run.created", "run.logged", "run.finished", "run.deleted"]
