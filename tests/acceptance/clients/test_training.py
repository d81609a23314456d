"""Training scripts, unmodified, of both client generations, against the server."""

import os
import signal
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.serving import (
    SCRIPTS,
    TrackingServer,
    client_environment,
    pairs,
    python_of,
    run_client,
)

GENERATIONS = pytest.mark.parametrize("generation", ["mlflow2", "mlflow3"])
Checkout = Callable[[str], tuple[Path, str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Put a script into a git repository of its own; return its path and the commit."""

    def make(name: str) -> tuple[Path, str]:
        folder = tmp_path / "repo"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text((SCRIPTS / name).read_text())
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "train"]):
            subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
        )
        return folder / name, head.stdout.strip()

    return make


def _name() -> str:
    return f"food11-{uuid.uuid4().hex[:8]}"


@GENERATIONS
def test_the_lab_logs_everything_it_says(
    tracking: TrackingServer, checkout: Checkout, tmp_path: Path, generation: str
) -> None:
    """Params, metrics by epoch, system metrics, text, model, source and commit are all there."""
    script, commit = checkout("train_lab.py")
    experiment = _name()
    run_client(
        tracking,
        generation,
        script,
        home=tmp_path,
        LAB_EXPERIMENT=experiment,
        LAB_LINGER="1",
        MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL="0.3",
    )
    (run,) = tracking.runs(experiment)
    tags, params = pairs(run["data"]["tags"]), pairs(run["data"]["params"])
    metrics = pairs(run["data"]["metrics"])
    assert run["info"]["status"] == "FINISHED"
    assert len(run["info"]["run_name"].split("-")) == 3
    assert tags["mlflow.source.git.commit"] == commit
    assert tags["mlflow.source.name"] == str(script)
    assert tags["mlflow.source.type"] == "LOCAL"
    assert len(params) == 14
    assert params["lr"] == "0.001"
    assert params["model_architecture"] == "TinyNet"
    assert metrics["early_stopping_epoch"] == 2
    assert {"test_loss", "test_accuracy", "epoch_time"} <= set(metrics)
    assert any(key.startswith("system/cpu_utilization") for key in metrics)
    losses = tracking.history(run["info"]["run_id"], "train_loss")
    assert [point["step"] for point in losses] == [0, 1, 2]
    trainable = [
        int(p["value"]) for p in tracking.history(run["info"]["run_id"], "trainable_params")
    ]
    assert trainable[0] < trainable[1] == trainable[2]
    files = tracking.files(run["info"]["run_id"])
    assert files["gpu-info.txt"]
    assert any(name.endswith("MLmodel") for name in _model_files(tracking, run, "food11"))


def _model_files(
    tracking: TrackingServer, run: dict[str, dict[str, str]], name: str
) -> dict[str, int | None]:
    """List a model's files, wherever this client generation put them."""
    inside = tracking.files(run["info"]["run_id"], name)
    if inside:
        return inside
    outputs = run.get("outputs", {}).get("model_outputs", [])
    assert outputs, f"no model {name!r} among the run's files or outputs"
    found: dict[str, int | None] = {}
    for output in outputs:
        path = f"logged-models/{output['model_id']}/artifacts/directories"
        for entry in tracking.get(path).get("files", []):
            found[entry["path"]] = entry.get("file_size")
    return found


@GENERATIONS
def test_lightning_autolog_logs_the_progress_bar(
    tracking: TrackingServer, checkout: Checkout, tmp_path: Path, generation: str
) -> None:
    """Autolog keeps optimizer and trainer params, epoch metrics, the summary and the model."""
    script, _ = checkout("train_lightning.py")
    experiment = _name()
    run_client(
        tracking,
        generation,
        script,
        home=tmp_path,
        LAB_EXPERIMENT=experiment,
        MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL="0.3",
    )
    (run,) = tracking.runs(experiment)
    params, metrics = pairs(run["data"]["params"]), pairs(run["data"]["metrics"])
    assert run["info"]["status"] == "FINISHED"
    assert params["optimizer_name"] == "Adam"
    assert params["epochs"] == "2"
    stages = {f"{s}_{m}" for s in ("train", "val", "test") for m in ("loss", "accuracy")}
    assert stages <= set(metrics)
    assert len(tracking.history(run["info"]["run_id"], "val_loss")) == 2
    assert any(key.startswith("system/") for key in metrics)
    assert "model_summary.txt" in tracking.files(run["info"]["run_id"])
    assert any(name.endswith("MLmodel") for name in _model_files(tracking, run, "model"))


def test_the_hugging_face_trainer_reports(tracking: TrackingServer, tmp_path: Path) -> None:
    """Trainer's asynchronous logging arrives: its arguments as params, a loss for each step."""
    experiment = _name()
    run_client(tracking, "mlflow3", SCRIPTS / "train_transformers.py", experiment, home=tmp_path)
    (run,) = tracking.runs(experiment)
    params, metrics = pairs(run["data"]["params"]), pairs(run["data"]["metrics"])
    assert run["info"]["status"] == "FINISHED"
    assert run["info"]["run_name"] == "tiny-bert"
    assert params["num_train_epochs"] == "2"
    assert params["hidden_size"] == "16"
    assert len(params) > 100
    losses = tracking.history(run["info"]["run_id"], "loss")
    assert [point["step"] for point in losses] == list(range(1, 9))
    assert "train_runtime" in metrics


@GENERATIONS
def test_scikit_learn_autolog(tracking: TrackingServer, tmp_path: Path, generation: str) -> None:
    """A fit logs its params, metrics, data and model; a grid search makes child runs."""
    experiment = _name()
    run_client(tracking, generation, SCRIPTS / "train_sklearn.py", experiment, home=tmp_path)
    runs = {run["info"]["run_name"]: run for run in tracking.runs(experiment)}
    fit = runs["fit"]
    assert pairs(fit["data"]["params"])["C"] == "0.5"
    assert {"training_accuracy_score", "training_score"} <= set(pairs(fit["data"]["metrics"]))
    assert any(name.endswith("MLmodel") for name in _model_files(tracking, fit, "model"))
    contexts = [pairs(d["tags"]) for d in fit["inputs"]["dataset_inputs"]]
    assert {"mlflow.data.context": "train"} in contexts
    grid = runs["grid"]["info"]["run_id"]
    children = tracking.runs(experiment, filter=f"tags.mlflow.parentRunId = '{grid}'")
    assert sorted(pairs(c["data"]["params"])["C"] for c in children) == ["0.1", "1.0"]


def test_an_interrupted_run_does_not_block_the_next(
    tracking: TrackingServer, tmp_path: Path
) -> None:
    """Ctrl+C marks the run failed; the same script then starts another."""
    experiment = _name()
    script = SCRIPTS / "train_interrupted.py"
    with subprocess.Popen(
        [python_of("mlflow3"), script, experiment, "first"],
        stdout=subprocess.PIPE,
        text=True,
        env=client_environment(tracking, tmp_path),
    ) as training:
        assert training.stdout is not None
        line = next(line for line in training.stdout if line.startswith("STARTED"))
        os.kill(training.pid, signal.SIGINT)
        assert training.wait(60) != 0
    run_client(tracking, "mlflow3", script, experiment, "second", home=tmp_path)
    states = {r["info"]["run_name"]: r["info"]["status"] for r in tracking.runs(experiment)}
    assert states == {"first": "FAILED", "second": "FINISHED"}
    assert line.split()[1] in {r["info"]["run_id"] for r in tracking.runs(experiment)}
