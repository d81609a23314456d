"""What the lab's other experiments leave open: folders that stay, a lost worker, a whole search.

Plain and infeasible jobs and three halves of a GPU (J1, J2, J5) are in `test_observations`, Ray
Train on one worker and on two (J3, J4) in `test_train_tune`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.jobs.yard import eventually
from tests.acceptance.ray.conftest import Front, lines

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

PATIENCE = 300.0


def yard(front: Front, *words: str) -> str:
    """Run the platform's own command, as a user of the server does."""
    env = {**front.environment(), "YARD_URL": front.server.url, "YARD_TOKEN": front.server.token}
    line = [sys.executable, "-m", "trackyard.cli.main", *words]
    done = subprocess.run(line, env=env, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_driver_and_tasks_keep_their_folder_while_tasks_run_on_every_node(front: Front) -> None:
    """Two workers and the head on one machine: what each writes beside the script stays."""
    job = front.submit("python", "spread.py")
    front.server.wait(job, "succeeded", patience=PATIENCE)
    log = front.server.logs(job)
    assert lines(log, r"parts (\d)") == [("6",)], log
    assert lines(log, r"result (\w+)") == [("True",)], log


def test_a_search_of_sixteen_trials_runs_to_its_end_and_its_trials_are_shown(front: Front) -> None:
    """J7: the scheduler's own table in the log, and sixteen rows under the job."""
    job = front.submit("python", "tune16.py")
    front.server.wait(job, "succeeded", patience=PATIENCE)
    log = front.server.logs(job)
    assert "trials 16 errors 0 True" in log, log
    assert "val_accuracy" in log
    trials: list[dict[str, Any]] = front.server.detail(job)["trials"]
    assert [one["number"] for one in trials] == list(range(1, 17))
    assert {one["state"] for one in trials} == {"terminated"}
    assert all(set(one["params"]) == {"lr", "layers"} for one in trials)
    for one in trials:
        reached = 0.5 + one["params"]["lr"] * one["iterations"] / 10
        assert one["metric"] == "val_accuracy"
        assert abs(one["value"] - reached) < 1e-6
    # ASHA ends the weak ones early and lets good ones go on.
    assert {4} < {one["iterations"] for one in trials}
    shown = yard(front, "show", job)
    rows = [row.split() for row in shown.splitlines()]
    assert sum(len(row) > 1 and row[1] == "terminated" for row in rows) == 16, shown
    assert len(json.loads(yard(front, "show", job, "--json"))["trials"]) == 16
    names = {one["name"] for one in _claims(front, job)}
    assert names == {f"{front.server.detail(job)['job']['name']}: place for a trial"}


def _claims(front: Front, job: str) -> list[dict[str, Any]]:
    rows = front.server.get("/api/v1/jobs", limit=500)["jobs"]
    return [row for row in rows if row["parent"] == job]


def test_a_worker_whose_node_is_killed_goes_on_from_its_checkpoint_elsewhere(
    front: Front, tmp_path: Path
) -> None:
    """J6: the worker's node dies in the middle; training goes on from what was saved."""
    server = front.server
    job = front.submit("python", "resume.py", str(tmp_path))
    eventually((tmp_path / "epoch-2").exists, patience=PATIENCE)
    [claim] = [one for one in server.detail(job)["claims"] if one["state"] == "granted"]
    [node] = claim["nodes"]
    front.cluster.kill_node(node)
    try:
        server.wait(job, "succeeded", patience=PATIENCE)
    finally:
        front.cluster.restore()
    log = server.logs(job)
    # The last report may have been on its way to the driver when the node went.
    assert lines(log, r"starts at (\d)")[-1] in {("2",), ("3",)}, log
    assert "whole epoch-5" in log


def test_a_trainer_given_to_tune_is_answered_with_the_remedy(front: Front) -> None:
    """The newest Ray says no more than that it is improper; the job says what mends it."""
    server = front.server
    job = front.submit("python", "tune_trainer.py")
    eventually(lambda: server.state(job) == "failed", patience=PATIENCE)
    hint = server.detail(job)["hint"]
    assert "RAY_TRAIN_V2_ENABLED=0" in hint
    assert hint in yard(front, "show", job)
    assert server.logs(job).splitlines()[-1] == f"[yard] {hint}"
