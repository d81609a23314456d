"""Checkpoints go to the run's artifacts in order and come back on another node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.runner.server import AttemptServer
from trackyard.checkpoint import state as states
from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.upload import HttpTarget, run_target

PLACE = "/api/2.0/mlflow-artifacts/artifacts/1/r1/artifacts/checkpoints"


@pytest.fixture
def in_a_job(server: AttemptServer, monkeypatch: pytest.MonkeyPatch) -> AttemptServer:
    """The variables a job has, and a run on the server."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    monkeypatch.setenv("MLFLOW_RUN_ID", "r1")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", server.token)
    run = {"run": {"info": {"artifact_uri": "mlflow-artifacts:/1/r1/artifacts"}}}
    server.files["/api/2.0/mlflow/runs/get?run_id=r1"] = json.dumps(run).encode()
    return server


def test_a_second_node_goes_on_from_what_the_first_uploaded(
    in_a_job: AttemptServer, tmp_path: Path
) -> None:
    first = Saver(tmp_path / "node1", upload="run")
    first.save({"step": 5}, step=5, wait=False)
    first.wait()
    assert first.upload_failures == []
    names = [path.removeprefix(PLACE) for path in in_a_job.uploads]
    assert [name.rsplit("/", 1)[-1] for name in names] == [
        "state.json",
        "manifest.json",
        "latest.json",
    ]
    found = Saver(tmp_path / "node2", upload="run").latest()
    assert found is not None
    assert states.load(found) == {"step": 5}


def test_a_server_that_is_busy_is_asked_again(in_a_job: AttemptServer, tmp_path: Path) -> None:
    in_a_job.refuse_uploads = 2
    saver = Saver(tmp_path / "node1", upload=run_target())
    saver.save({"step": 5}, step=5)
    assert saver.upload_failures == []
    assert len(in_a_job.uploads) == 3


def test_a_damaged_download_is_not_taken_for_a_checkpoint(
    in_a_job: AttemptServer, tmp_path: Path
) -> None:
    Saver(tmp_path / "node1", upload="run").save({"step": 5}, step=5)
    for path in list(in_a_job.files):
        if path.endswith("state.json"):
            in_a_job.files[path] = b'{"step": 6}'
    second = Saver(tmp_path / "node2", upload="run")
    with pytest.raises(Exception, match="damaged"):
        second.latest()
    assert list((tmp_path / "node2").glob("step-*")) == []


def test_a_server_without_checkpoints_has_none(in_a_job: AttemptServer, tmp_path: Path) -> None:
    target = HttpTarget(f"{in_a_job.url}/nothing", {"Authorization": f"Bearer {in_a_job.token}"})
    assert Saver(tmp_path, upload=target).latest() is None
