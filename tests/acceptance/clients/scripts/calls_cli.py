"""The verbs of the `mlflow` command against a tracking server, in one process."""

import csv
import io
import json
import tempfile
from pathlib import Path

import mlflow
from checks import Checks
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.cli import cli


def run(*words: str) -> tuple[int, str, str]:
    """Run a command and return its status, what it printed and why it failed."""
    done = CliRunner().invoke(cli, list(words))
    return done.exit_code, done.output, str(done.exception or "")


def verbs(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Create, list, export, rename, delete and restore by the command alone."""
    name = f"{prefix}-cli"
    c.same("experiments create", run("experiments", "create", "-n", name)[0], 0)
    experiment = client.get_experiment_by_name(name).experiment_id
    c.true("experiments search", name in run("experiments", "search")[1])
    with mlflow.start_run(experiment_id=experiment) as active:
        mlflow.log_metric("loss", 0.5)
        mlflow.log_param("rate", "0.1")
        mlflow.log_text("some words", "notes/a.txt")
    run_id = active.info.run_id
    status, out, _ = run("experiments", "csv", "-x", experiment)
    rows = list(csv.DictReader(io.StringIO(out)))
    c.same("experiments csv", (status, len(rows)), (0, 1))
    c.same("its run", rows[0]["run_id"], run_id)
    c.same("its figures", (rows[0]["metrics.loss"], rows[0]["params.rate"]), ("0.5", "0.1"))
    listed = run("runs", "list", "--experiment-id", experiment)
    c.true("runs list", listed[0] == 0 and run_id in listed[1])
    described = json.loads(run("runs", "describe", "--run-id", run_id)[1])
    c.same("runs describe", described["data"]["params"], {"rate": "0.1"})
    files = json.loads(run("artifacts", "list", "--run-id", run_id, "-a", "notes")[1])
    c.same("artifacts list", [one["path"] for one in files], ["notes/a.txt"])
    with tempfile.TemporaryDirectory() as folder:
        got = run("artifacts", "download", "-r", run_id, "-a", "notes", "-d", folder)
        c.same("artifacts download", got[0], 0)
        c.same("a file", Path(folder, "notes/a.txt").read_text(), "some words")
        Path(folder, "b.txt").write_text("more")
        c.same(
            "log-artifact",
            run("artifacts", "log-artifact", "-l", f"{folder}/b.txt", "-r", run_id)[0],
            0,
        )
        c.same(
            "log-artifacts",
            run("artifacts", "log-artifacts", "-l", folder, "-r", run_id, "-a", "all")[0],
            0,
        )
    c.same("a logged one", client.list_artifacts(run_id, "all")[0].path, "all/b.txt")
    for verb, stage in (("delete", "deleted"), ("restore", "active")):
        c.same(f"runs {verb}", run("runs", verb, "--run-id", run_id)[0], 0)
        c.same(f"runs {verb} did it", client.get_run(run_id).info.lifecycle_stage, stage)
        c.same(f"experiments {verb}", run("experiments", verb, "-x", experiment)[0], 0)
        c.same("and did it", client.get_experiment(experiment).lifecycle_stage, stage)
    c.same(
        "rename", run("experiments", "rename", "-x", experiment, "--new-name", name + "2")[0], 0
    )
    c.same("renamed", client.get_experiment(experiment).name, name + "2")


def offline(c: Checks, client: MlflowClient, prefix: str) -> None:
    """`mlflow gc` needs the database itself: it ends with a sentence and removes nothing."""
    status, _, why = run("gc", "--backend-store-uri", mlflow.get_tracking_uri())
    c.true("gc refuses", status != 0 and "hard-deleting" in why)


PARTS = (verbs, offline)
