"""A logged model that was just answered is there for every caller and every kind of read, while
other writes commit, fail and are run again around it.
"""

import asyncio
from typing import Any

from tests.integration.server.platform import Caller, Platform, new_run
from trackyard.core.errors import InvalidInput
from trackyard.store.database import Tx

ROUNDS, MAKERS = 12, 4


def write_then_refuse(tx: Tx) -> None:
    """Fail after a write: the whole group is undone, and each of its writes is run again."""
    tx.run("UPDATE teams SET name = name")
    raise InvalidInput("on purpose")


async def _spoil(platform: Platform) -> None:
    outcome = await asyncio.gather(
        platform.services.database.write(write_then_refuse), return_exceptions=True
    )
    assert isinstance(outcome[0], InvalidInput)


async def _make_and_look(maker: Caller, others: list[Caller], number: int) -> list[Any]:
    """Make a model, then look at it in every way at once by other callers."""
    run_id = await new_run(maker)
    body = {"experiment_id": "0", "name": f"m{number}", "source_run_id": run_id}
    made = (await maker.mlflow("POST", "logged-models", body)).json()["model"]["info"]
    model_id = made["model_id"]
    point = {"key": "a", "value": 1.0, "timestamp": 1, "step": 1, "model_id": model_id}
    search = {"experiment_ids": ["0"], "filter": f"source_run_id = '{run_id}'"}
    calls: list[tuple[str, str, Any]] = [
        ("GET", f"logged-models/{model_id}", None),
        ("POST", "logged-models/search", search),
        ("POST", "logged-models/search", {**search, "filter": f"model_id = '{model_id}'"}),
        ("POST", "runs/log-batch", {"run_id": run_id, "metrics": [point]}),
        ("POST", "runs/outputs", {"run_id": run_id, "models": [{"model_id": model_id}]}),
        ("PATCH", f"logged-models/{model_id}/tags", {"tags": [{"key": "k", "value": "v"}]}),
        ("GET", f"logged-models/{model_id}/artifacts/directories", None),
    ]
    answers = await asyncio.gather(
        *(
            others[at % len(others)].mlflow(method, path, given)
            for at, (method, path, given) in enumerate(calls)
        )
    )
    file = await maker(
        "PUT",
        f"/api/2.0/mlflow-artifacts/artifacts/0/models/{model_id}/artifacts/MLmodel",
        raw=b"x",
    )
    ready = await maker.mlflow("PATCH", f"logged-models/{model_id}", {"status": "READY"})
    found = [
        f"{call[:2]}: {answer.status} {answer.body!r}"
        for call, answer in zip(calls, answers, strict=True)
        if answer.status != 200
        or (call[1].startswith("logged-models/search") and model_id.encode() not in answer.body)
    ]
    return [*found, *(str(one.body) for one in (file, ready) if one.status != 200)]


async def test_a_model_just_made_is_found_whatever_else_is_written(platform: Platform) -> None:
    callers = [
        platform.admin,
        *[await platform.caller(f"u{n}", "default", "member") for n in "ab"],
    ]
    busy = await new_run(platform.admin)
    missing: list[Any] = []
    for turn in range(ROUNDS):
        metric = {"run_id": busy, "key": "x", "value": turn, "timestamp": turn, "step": turn}
        clash = {"run_id": busy, "params": [{"key": "p", "value": str(turn)}]}
        done = await asyncio.gather(
            *(_make_and_look(callers[n % 3], callers, turn * MAKERS + n) for n in range(MAKERS)),
            *(_spoil(platform) for _ in range(3)),
            *(platform.admin.mlflow("POST", "runs/log-metric", metric) for _ in range(3)),
            platform.admin.mlflow("POST", "runs/log-batch", clash),
            platform.admin.mlflow("POST", "experiments/create", {"name": "same"}),
        )
        missing += [fault for faults in done[:MAKERS] for fault in faults or ()]
    assert missing == []
