"""Makes a store with the installed MLflow, or adds to it; works with 2.20 and 3.x.

    MLFLOW_TRACKING_URI=sqlite:///mlflow.db python make_mlflow.py first
    MLFLOW_TRACKING_URI=sqlite:///mlflow.db python make_mlflow.py second

`first` makes experiments, runs and models of every kind; `second` goes on with them, as an old
server does between two passes of an import.
"""

import sys
import time

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

IS_3 = int(mlflow.__version__.split(".")[0]) >= 3
NOW = 1_700_000_000_000


def curve(count: int, start: int = 0) -> list[Metric]:
    steps = range(start, start + count)
    return [Metric("train/loss", 1 / (1 + step), NOW + 10 * step, step) for step in steps]


def log(client: MlflowClient, run_id: str, points: list[Metric]) -> None:
    for at in range(0, len(points), 1000):
        client.log_batch(run_id, metrics=points[at : at + 1000])


def first(client: MlflowClient) -> None:
    vision = client.create_experiment("vision", tags={"team": "eyes", "mlflow.note.content": "n"})
    gone = client.create_experiment("abandoned")
    base = client.create_run(vision, start_time=NOW, run_name="base", tags={"a b": "x\ny"})
    run_id = base.info.run_id
    client.log_batch(
        run_id,
        params=[Param("lr", "0.1"), Param("empty", ""), Param("long", "p" * 5000)],
        tags=[RunTag("mlflow.note.content", "# A note\nwith *lines*"), RunTag("ünï", "☃")],
    )
    log(client, run_id, curve(1500))
    odd = [float("nan"), float("inf"), float("-inf"), 1e-300, -0.0]
    log(client, run_id, [Metric("odd", value, NOW + at, at) for at, value in enumerate(odd)])
    log(client, run_id, [Metric("twice", 1.0, NOW, 7), Metric("twice", 2.0, NOW + 1, 7)])
    client.log_text(run_id, "hello", "notes/a.txt")
    client.log_dict(run_id, {"k": [1, 2]}, "conf.json")
    data = mlflow.data.from_numpy(np.arange(12.0), name="pixels")
    with mlflow.start_run(run_id=run_id):
        mlflow.log_input(data, context="training")
        mlflow.log_text("1,2", "table.csv")
    child = client.create_run(vision, start_time=NOW + 5, tags={"mlflow.parentRunId": run_id})
    client.set_terminated(child.info.run_id, "FAILED", NOW + 900)
    still = client.create_run(vision, start_time=NOW + 6, run_name="still")
    log(client, still.info.run_id, curve(20))
    dead = client.create_run(vision, start_time=NOW + 7, run_name="dead")
    client.log_text(dead.info.run_id, "late", "last.txt")
    client.delete_run(dead.info.run_id)
    client.create_run(gone, run_name="lost")
    client.delete_experiment(gone)
    client.create_run("0", run_name="in-default")
    register(client, run_id)
    trace(client, vision)
    if IS_3:
        only_in_3(client, vision, run_id)


def register(client: MlflowClient, run_id: str) -> None:
    client.create_registered_model("net", tags={"kind": "cnn"}, description="a model")
    for number in range(3):
        source = f"{client.get_run(run_id).info.artifact_uri}/notes"
        made = client.create_model_version(
            "net", source, run_id=run_id, tags={"n": str(number)}, description=f"v{number}"
        )
    client.set_registered_model_alias("net", "champion", "1")
    client.transition_model_version_stage("net", "1", "Production")
    client.delete_model_version("net", made.version)
    client.create_registered_model("empty")


def trace(client: MlflowClient, experiment: str) -> None:
    mlflow.set_experiment(experiment_id=experiment)

    @mlflow.trace
    def inner(x: int) -> int:
        return x + 1

    @mlflow.trace(attributes={"deep": {"a": [1, "b"]}})
    def outer(x: int) -> int:
        return inner(x) * 2

    outer(3)
    if hasattr(mlflow, "flush_trace_async_logging"):
        try:
            mlflow.flush_trace_async_logging()
        except Exception as fault:
            print("no queue to flush:", fault)


def only_in_3(client: MlflowClient, experiment: str, run_id: str) -> None:
    found = mlflow.search_traces(locations=[experiment], return_type="list")[0]
    client.set_trace_tag(found.info.trace_id, "checked", "yes")
    mlflow.log_feedback(
        trace_id=found.info.trace_id,
        name="good",
        value=0.5,
        rationale="because",
        metadata={"m": "1"},
    )
    mlflow.log_expectation(trace_id=found.info.trace_id, name="wanted", value={"answer": [8]})
    model = mlflow.initialize_logged_model(
        name="weights", source_run_id=run_id, params={"depth": "4"}, tags={"t": "u"}
    )
    client.log_model_artifact(model.model_id, __file__)
    client.finalize_logged_model(model.model_id, "READY")
    data = mlflow.data.from_numpy(np.arange(12.0), name="pixels")
    client.log_metric(
        run_id,
        "acc",
        0.75,
        NOW,
        3,
        model_id=model.model_id,
        dataset_name=data.name,
        dataset_digest=data.digest,
    )
    client.log_outputs(run_id, [mlflow.entities.LoggedModelOutput(model.model_id, 3)])
    client.create_registered_model("logged")
    client.create_model_version("logged", f"models:/{model.model_id}", model_id=model.model_id)
    for text in ("Say {{word}}.", "Say {{word}} twice."):
        mlflow.genai.register_prompt(name="greeting", template=text, commit_message="c")
    mlflow.genai.set_prompt_alias("greeting", alias="live", version=1)


def second(client: MlflowClient) -> None:
    vision = client.get_experiment_by_name("vision")
    runs = client.search_runs([vision.experiment_id])
    still = next(run for run in runs if run.info.run_name == "still")
    log(client, still.info.run_id, curve(30, start=20))
    client.log_text(still.info.run_id, "new", "new.txt")
    client.set_terminated(still.info.run_id, "FINISHED", NOW + 10_000)
    base = next(run for run in runs if run.info.run_name == "base")
    client.set_tag(base.info.run_id, "a b", "changed")
    client.log_text(base.info.run_id, "hello, longer", "notes/a.txt")
    fresh = client.create_run(vision.experiment_id, run_name="fresh")
    client.log_metric(fresh.info.run_id, "m", 1.0)
    client.set_experiment_tag(vision.experiment_id, "team", "ears")
    client.set_registered_model_alias("net", "champion", "2")
    client.create_model_version("net", f"{base.info.artifact_uri}/notes", run_id=base.info.run_id)
    time.sleep(0.01)


if __name__ == "__main__":
    {"first": first, "second": second}[sys.argv[1]](MlflowClient())
