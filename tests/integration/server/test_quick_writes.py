"""Quick and careful writes leave the same runs behind, and no reader sees a stale one."""

import json
from typing import Any

import msgspec
import pytest

from tests.integration.server.platform import Caller, Platform
from trackyard.access.principal import Principal
from trackyard.store.database import ReadConnection
from trackyard.tracking.quick import QuickRuns
from trackyard.tracking.runs import find_run, load_runs

NOW = 1_700_000_000_000


async def post(caller: Caller, path: str, body: dict[str, Any], status: int = 200) -> Any:
    answer = await caller.mlflow("POST", path, body)
    assert answer.status == status, answer.body
    return answer.json()


async def served(caller: Caller, run_id: str) -> Any:
    answer = await caller.mlflow("GET", f"runs/get?run_id={run_id}")
    return answer.json()["run"]


async def stored(platform: Platform, run_id: str) -> Any:
    """Return the run as the tables have it, past every cache."""
    principal = await platform.services.directory.authenticate(platform.admin.token or "")
    assert isinstance(principal, Principal)

    def load(reader: ReadConnection) -> Any:
        inner = find_run(reader, principal, run_id).id
        return load_runs(reader, principal, [inner])[0]

    return json.loads(msgspec.json.encode(await platform.services.database.read(load)))


STEPS: list[tuple[str, dict[str, Any], int]] = [
    ("runs/log-metric", {"key": "loss", "value": 1.5, "timestamp": NOW, "step": 0}, 200),
    ("runs/log-metric", {"key": "loss", "value": 0.5, "timestamp": NOW + 1, "step": 1}, 200),
    ("runs/log-metric", {"key": "loss", "value": "NaN", "timestamp": NOW + 2, "step": 2}, 200),
    ("runs/log-metric", {"key": "loss", "value": 9, "timestamp": NOW, "step": 1}, 200),
    ("runs/log-parameter", {"key": "lr", "value": "0.1"}, 200),
    ("runs/log-parameter", {"key": "lr", "value": "0.1"}, 200),
    ("runs/log-parameter", {"key": "lr", "value": "0.2"}, 400),
    ("runs/set-tag", {"key": "stage", "value": "a"}, 200),
    ("runs/set-tag", {"key": "stage", "value": "b"}, 200),
    ("runs/set-tag", {"key": "mlflow.runName", "value": "renamed"}, 200),
    (
        "runs/log-batch",
        {
            "metrics": [
                {"key": "loss", "value": n / 7, "timestamp": NOW + n, "step": n}
                for n in range(120)
            ],
            "params": [{"key": "seed", "value": "7"}],
            "tags": [{"key": "stage", "value": "c"}],
        },
        200,
    ),
    (
        "runs/log-batch",
        {"params": [{"key": "seed", "value": "8"}, {"key": "new", "value": "x"}]},
        400,
    ),
    ("runs/delete-tag", {"key": "stage"}, 200),
    ("runs/update", {"status": "FINISHED", "end_time": NOW + 500}, 200),
    ("runs/update", {"run_name": "again"}, 200),
    ("runs/log-metric", {"key": "late", "value": 1, "timestamp": NOW, "step": 0}, 200),
    ("runs/delete", {}, 200),
    ("runs/log-metric", {"key": "loss", "value": 1, "timestamp": NOW, "step": 9}, 400),
    ("runs/restore", {}, 200),
    ("runs/log-metric", {"key": "loss", "value": 1, "timestamp": NOW, "step": 900}, 200),
]


async def walk(platform: Platform, experiment: str, *, number: int) -> list[Any]:
    """Create a run, take every step with it, and return what was served after each."""
    caller = platform.admin
    body = {
        "experiment_id": experiment,
        "start_time": NOW + number,
        "run_name": f"walk-{number}",
        "tags": [{"key": "mlflow.user", "value": "me"}],
    }
    made = (await post(caller, "runs/create", body))["run"]
    run_id = made["info"]["run_id"]
    assert made == await served(caller, run_id)
    seen = []
    for path, change, status in STEPS:
        await post(caller, path, {"run_id": run_id, **change}, status)
        shown = await served(caller, run_id)
        assert shown == await stored(platform, run_id), path
        found = await post(
            caller, "runs/search", {"experiment_ids": [experiment], "run_view_type": "ALL"}
        )
        assert shown in found["runs"], path
        seen.append(_without_ids(shown, run_id))
    return seen


def _without_ids(run: Any, run_id: str) -> str:
    text = json.dumps(run, sort_keys=True).replace(run_id, "RUN")
    for number in range(3):
        text = text.replace(f"walk-{number}", "walk").replace(str(NOW + number), "START")
    return text


async def test_every_way_of_changing_a_run_is_served_at_once_and_alike(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first walk finds nothing known, the second is quick, the third is made careful."""
    experiment = (await post(platform.admin, "experiments/create", {"name": "walks"}))[
        "experiment_id"
    ]
    first = await walk(platform, experiment, number=0)
    second = await walk(platform, experiment, number=1)
    monkeypatch.setattr(QuickRuns, "_find", lambda *_: None)
    third = await walk(platform, experiment, number=2)
    assert first == second == third


async def test_a_deleted_experiment_takes_no_quick_run_and_shows_its_runs_deleted(
    platform: Platform,
) -> None:
    caller = platform.admin
    experiment = (await post(caller, "experiments/create", {"name": "gone"}))["experiment_id"]
    body = {"experiment_id": experiment, "start_time": NOW}
    run_id = (await post(caller, "runs/create", body))["run"]["info"]["run_id"]
    await post(caller, "runs/create", {**body, "start_time": NOW + 1})
    assert (await served(caller, run_id))["info"]["lifecycle_stage"] == "active"
    await post(caller, "experiments/delete", {"experiment_id": experiment})
    assert (await served(caller, run_id))["info"]["lifecycle_stage"] == "deleted"
    await post(caller, "runs/create", {**body, "start_time": NOW + 2}, 400)
    point = {"run_id": run_id, "key": "loss", "value": 1, "timestamp": NOW, "step": 0}
    await post(caller, "runs/log-metric", point, 400)
    await post(caller, "experiments/restore", {"experiment_id": experiment})
    assert (await served(caller, run_id))["info"]["lifecycle_stage"] == "active"
    await post(caller, "runs/log-metric", point)


async def test_events_of_quick_writes_are_there_in_order(platform: Platform) -> None:
    caller = platform.admin
    kinds = []
    for number in range(3):
        body = {"experiment_id": "0", "start_time": NOW + number}
        run_id = (await post(caller, "runs/create", body))["run"]["info"]["run_id"]
        await post(caller, "runs/set-tag", {"run_id": run_id, "key": "k", "value": "v"})
        await post(caller, "runs/update", {"run_id": run_id, "status": "FINISHED"})
        answer = await caller("GET", f"/api/v1/events?subject=run&subject_id={run_id}")
        events = answer.json()["events"]
        assert [event["id"] for event in events] == sorted(event["id"] for event in events)
        kinds.append([event["kind"] for event in events])
    assert kinds == [["run.created", "run.logged", "run.finished"]] * 3


async def test_another_team_cannot_log_to_a_known_run(platform: Platform) -> None:
    body = {"experiment_id": "0", "start_time": NOW}
    run_id = (await post(platform.admin, "runs/create", body))["run"]["info"]["run_id"]
    point = {"run_id": run_id, "key": "loss", "value": 1, "timestamp": NOW, "step": 0}
    await post(platform.admin, "runs/log-metric", point)
    other = await platform.caller("eve", "others", "member")
    await post(other, "runs/log-metric", point, 404)
