"""`yard` beside a tracking server: runs, models and people, as a user types it and as scripts
read it. The keys of each `--json` answer are written down here: they are a promise.
"""

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.serving import ROOT, TrackingServer

EXPERIMENT = set(
    "experiment_id name lifecycle created_ms updated_ms runs running last_start_ms".split()
)
RUN = set("run_id experiment_id name user status start_ms end_ms metrics params".split())
TOKEN = set("id user team role label created_ms expires_ms used_ms revoked_ms parent_id".split())


class Yard:
    """The command line of one user."""

    def __init__(self, server: TrackingServer, home: Path, token: str | None = None) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(ROOT / "src"),
            "NO_COLOR": "1",
            "YARD_URL": server.url,
            "YARD_TOKEN": token or server.token,
        }

    def run(self, *words: str, code: int = 0, given: str = "") -> str:
        """Run a command, insist on its exit code and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "trackyard.cli.main", *words],
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == code, done.stderr or done.stdout
        return done.stdout + done.stderr

    def read(self, *words: str) -> Any:
        """Run a reading command with --json and return what it says."""
        return json.loads(self.run(*words, "--json"))


@pytest.fixture
def yard(tracking: TrackingServer, tmp_path: Path) -> Yard:
    return Yard(tracking, tmp_path)


@pytest.fixture
def name() -> str:
    return f"lab-{uuid.uuid4().hex[:8]}"


def make_run(server: TrackingServer, experiment: str, rate: str, loss: float) -> str:
    """A finished run with a parameter, a metric and a file that may become a model."""
    info = server.post("runs/create", experiment_id=experiment)["run"]["info"]
    run_id = str(info["run_id"])
    point = {"key": "loss", "value": loss, "timestamp": 1, "step": 1}
    params = [{"key": "rate", "value": rate}, {"key": "size", "value": "32"}]
    server.post("runs/log-batch", run_id=run_id, metrics=[point], params=params)
    server.post("runs/update", run_id=run_id, status="FINISHED", end_time=2)
    inside = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    path = f"/api/2.0/mlflow-artifacts/artifacts/{inside}/model/MLmodel"
    assert server.ask("PUT", path, content=b"flavors: {}\n").status_code == 200
    return run_id


def test_runs_are_listed_shown_and_compared(
    tracking: TrackingServer, yard: Yard, name: str
) -> None:
    experiment = tracking.post("experiments/create", name=name)["experiment_id"]
    worse, better = (
        make_run(tracking, experiment, rate, loss) for rate, loss in (("0.1", 2.0), ("0.2", 1.0))
    )
    known = {one["name"]: one for one in yard.read("experiments")}
    assert set(known[name]) == EXPERIMENT
    assert (known[name]["experiment_id"], known[name]["runs"]) == (experiment, 2)
    found = yard.read("runs", "-e", name, "-o", "metrics.loss ASC", "-f", "params.size = '32'")
    assert [run["run_id"] for run in found] == [better, worse]
    assert set(found[0]) == RUN
    assert yard.run("runs", "-e", name, "-q").split() == [better, worse]
    shown = yard.read("show", better)["run"]
    assert shown["info"]["status"] == "FINISHED"
    assert {one["key"]: one["value"] for one in shown["data"]["params"]} == {
        "rate": "0.2",
        "size": "32",
    }
    said = yard.run("diff", worse, better)
    assert "rate" in said
    assert "size" not in said
    assert "size" in yard.run("diff", worse, better, "--all")
    assert yard.read("diff", worse, better) == {
        "runs": [worse, better],
        "params": {"rate": ["0.1", "0.2"]},
        "metrics": {"loss": [2.0, 1.0]},
        "source": {},
    }


def test_a_model_is_registered_and_one_that_is_not_there_is_refused(
    tracking: TrackingServer, yard: Yard, name: str
) -> None:
    experiment = tracking.post("experiments/create", name=name)["experiment_id"]
    run_id = make_run(tracking, experiment, "0.1", 1.0)
    said = yard.run("register", run_id, "weights", name, code=2)
    assert "has no artifact 'weights'" in said
    assert "it holds the artifacts model/" in said
    yard.run("register", run_id, "model", name)
    yard.run("alias", name, "champion", "1")
    [version] = yard.read("models", name)["versions"]
    assert (version["version"], version["run_id"]) == ("1", run_id)
    assert version["aliases"] == ["champion"]
    assert name in {one["name"] for one in yard.read("models")}


def test_people_and_tokens_come_and_go(
    tracking: TrackingServer, yard: Yard, name: str, tmp_path: Path
) -> None:
    """A token works from its first second to its last, and env and login speak of it."""
    yard.run("team", "add", name)
    yard.run("user", "add", name)
    yard.run("team", "member", name, name, "--role", "member")
    made = json.loads(yard.run("token", "create", "--user", name, "--team", name, "--json"))
    home = tmp_path / "theirs"
    home.mkdir()
    theirs = Yard(tracking, home, made["token"])
    assert theirs.read("runs") == []
    lines = theirs.run("env")
    assert f"export MLFLOW_TRACKING_URI={tracking.url}" in lines
    assert f"export MLFLOW_TRACKING_TOKEN={made['token']}" in lines
    assert "export RAY_ADDRESS=" in lines
    said = theirs.run("login", tracking.url, given=f"{made['token']}\n")
    assert made["token"] not in said
    del theirs.environment["YARD_URL"], theirs.environment["YARD_TOKEN"]
    assert theirs.read("runs") == []
    assert {one["id"]: set(one) for one in theirs.read("token", "list")}[made["id"]] == TOKEN
    assert name in {one["name"] for one in yard.read("user", "list")}
    yard.run("token", "revoke", made["id"])
    assert "hint: `yard login`" in theirs.run("runs", code=4)
    assert "ok" in yard.run("doctor")


def test_a_stream_resumes_where_it_broke_off(tracking: TrackingServer, name: str) -> None:
    """Events come live with their ids; who comes back with the last one misses none."""
    cursor = tracking.get("/api/v1/events", order="newest", limit=1)["next"]
    experiment = tracking.post("experiments/create", name=name)["experiment_id"]
    made = [tracking.post("runs/create", experiment_id=experiment) for _ in range(3)]
    ids = [one["run"]["info"]["run_id"] for one in made]
    page = tracking.get("/api/v1/events", since=cursor, kind="run.created", limit=2)
    assert [event["subject_id"] for event in page["events"]] == ids[:2]
    headers = {**tracking.headers, "Last-Event-ID": str(page["events"][0]["id"])}
    seen: list[str] = []
    live = threading.Event()
    with httpx.stream(
        "GET", f"{tracking.url}/api/v1/stream", headers=headers, timeout=120
    ) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event.get("kind") == "run.created" and event["data"]["experiment_id"] == experiment:
                seen.append(event["subject_id"])
            if len(seen) == 2 and not live.is_set():
                live.set()
                ids.append(
                    tracking.post("runs/create", experiment_id=experiment)["run"]["info"]["run_id"]
                )
            if len(seen) == 3:
                break
    assert seen == ids[1:]
