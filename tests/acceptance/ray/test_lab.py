"""What the lab's other experiments leave open: folders that stay, and a whole search.

Plain and infeasible jobs and three halves of a GPU (J1, J2, J5) are in `test_observations`, Ray
Train on one worker and on two (J3, J4) in `test_train_tune`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

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
