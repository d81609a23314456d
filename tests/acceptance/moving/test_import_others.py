"""`yard import tensorboard|wandb|trackio|neptune|aim`: files that their own packages wrote.

`tests/data/moving/make_others.py` made them: one run, `first`, with a curve of 25 steps.
"""

import math
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.moving.stores import DATA, new_team, yard
from tests.acceptance.serving import TrackingServer, pairs

#: format -> the experiment it becomes
PROJECTS = {
    "tensorboard": "tensorboard",
    "wandb": "vision",
    "trackio": "vision",
    "neptune": "neptune",
    "aim": "vision",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("others")
    with zipfile.ZipFile(DATA / "others.zip") as packed:
        packed.extractall(made)
    return made


def runs_of(server: TrackingServer, token: str, experiment: str) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}"}
    found = server.ask(
        "GET", "experiments/get-by-name", params={"experiment_name": experiment}, headers=headers
    ).json()["experiment"]
    body = {"experiment_ids": [found["experiment_id"]]}
    answer = server.ask("POST", "runs/search", json=body, headers=headers).json()
    return list(answer["runs"])


@pytest.mark.parametrize("name", PROJECTS)
def test_a_run_comes_with_its_curve(tracking: TrackingServer, folder: Path, name: str) -> None:
    token = new_team(tracking, f"from-{name}")
    words = ("import", name, "--from", str(folder / name))
    report = yard(tracking, *words, token=token, rc=1 if name in ("neptune", "aim") else 0)
    found = runs_of(tracking, token, PROJECTS[name])
    run = next(one for one in found if one["info"]["run_name"] == "first")
    headers = {"Authorization": f"Bearer {token}"}
    asked = {"run_id": run["info"]["run_id"], "metric_key": "train/loss", "max_results": 1000}
    points = tracking.ask("GET", "metrics/get-history", params=asked, headers=headers).json()
    curve = sorted((int(one["step"]), float(one["value"])) for one in points["metrics"])
    assert [step for step, _ in curve] == list(range(25))
    for step, value in curve:
        assert math.isclose(value, 1 / (1 + step), rel_tol=1e-6)
    assert run["info"]["status"] == "FINISHED"
    again = yard(tracking, *words, token=token, rc=None)
    assert again["counts"]["runs"] == {"unchanged": len(found)}
    assert set(again["counts"]["points"]) == {"unchanged"}
    assert again["counts"]["points"]["unchanged"] == report["counts"]["points"]["created"]
    check(name, found, run)


def check(name: str, found: list[dict[str, Any]], run: dict[str, Any]) -> None:
    """What each format has besides."""
    params, tags = pairs(run["data"].get("params")), pairs(run["data"].get("tags"))
    metrics = pairs(run["data"]["metrics"])
    if name == "tensorboard":
        assert metrics["odd"] == "NaN"
        assert tags["note"] == "hello"
        other = next(one for one in found if one["info"]["run_name"] == "first/hp")
        assert pairs(other["data"]["params"]) == {"lr": "0.1", "name": "x"}
        assert pairs(other["data"]["metrics"]) == {"best": 0.5}
        assert run["info"]["start_time"] >= 1_700_000_000_000
    elif name == "wandb":
        assert params == {"lr": "0.1", "nested.depth": "4"}
        assert metrics["odd"] == "NaN"
        assert tags["mlflow.note.content"] == "hello"
        assert (tags["wandb.tags"], tags["wandb.group"]) == ("a, b", "g")
        assert tags["wandb.summary.best"] == "0.5"
    elif name == "trackio":
        assert params == {"lr": "0.1"}
        assert metrics["odd"] == "NaN"
    elif name == "aim":
        assert params == {
            "hparams.lr": "0.1",
            "hparams.nested.depth": "4",
            "hparams.layers": "[1, 2]",
        }
        assert (metrics["odd"], metrics["val/loss"]) == ("NaN", 2 / 25)
        assert (tags["mlflow.note.content"], tags["aim.tags"]) == ("hello", "a, b")
    else:
        assert params == {"params/lr": "0.1", "params/name": "x"}
        assert tags["sys/tags"] == "a"


@pytest.mark.parametrize("name", PROJECTS)
def test_a_folder_of_something_else_is_told_in_a_sentence(
    tracking: TrackingServer, tmp_path: Path, name: str
) -> None:
    (tmp_path / "x.txt").write_text("x")
    yard(tracking, "import", name, "--from", str(tmp_path), rc=2)
    yard(tracking, "import", name, "--from", str(tmp_path / "none"), rc=2)
