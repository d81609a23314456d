"""Logged models, which clients of the third generation make with every log_model."""

import mlflow
from checks import Checks
from mlflow import MlflowClient


class Echo(mlflow.pyfunc.PythonModel):  # type: ignore[name-defined,misc]
    """The smallest model there is."""

    def predict(self, context: object, model_input: list[str]) -> list[str]:
        """Return what came in."""
        return model_input


def by_hand(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Create, finalise, tag, search and delete logged models."""
    experiment = mlflow.set_experiment(f"{prefix}-logged").experiment_id
    run = client.create_run(experiment).info.run_id
    model = client.create_logged_model(
        experiment,
        name="net",
        source_run_id=run,
        tags={"a": "1"},
        params={"lr": "0.1"},
        model_type="torch",
    )
    c.true("id", model.model_id.startswith("m-") and len(model.model_id) == 34)
    c.same("pending", str(model.status.value), "PENDING")
    c.true("location", model.artifact_location.endswith(f"/models/{model.model_id}/artifacts"))
    client.finalize_logged_model(model.model_id, "READY")
    client.set_logged_model_tags(model.model_id, {"b": "2"})
    client.delete_logged_model_tag(model.model_id, "a")
    got = client.get_logged_model(model.model_id)
    c.same("ready", str(got.status.value), "READY")
    c.same("tags", {k: v for k, v in got.tags.items() if not k.startswith("mlflow.")}, {"b": "2"})
    c.same("params", got.params, {"lr": "0.1"})
    c.same("source", got.source_run_id, run)
    c.same("type and name", (got.model_type, got.name), ("torch", "net"))
    client.log_metric(run, "acc", 0.8, step=1, model_id=model.model_id)
    metrics = client.get_logged_model(model.model_id).metrics or []
    c.same("metrics of the model", [(m.key, m.value) for m in metrics], [("acc", 0.8)])
    other = client.create_logged_model(experiment, name="second", params={"lr": "0.2"})
    client.log_metric(run, "acc", 0.9, step=1, model_id=other.model_id)

    def names(text: str | None = None, **how: object) -> str:
        found = client.search_logged_models([experiment], filter_string=text, **how)
        return " ".join(m.name for m in found)

    c.same("newest first", names(), "second net")
    c.same("by name", names("name = 'net'"), "net")
    c.same("by param", names("params.lr = '0.2'"), "second")
    c.same("by metric", names("metrics.acc >= 0.85"), "second")
    c.same("by tag", names("tags.b = '2'"), "net")
    c.same(
        "order", names(order_by=[{"field_name": "metrics.acc", "ascending": True}]), "net second"
    )
    page = client.search_logged_models([experiment], max_results=1)
    rest = client.search_logged_models([experiment], max_results=1, page_token=page.token)
    c.same("pages", [page[0].name, rest[0].name, bool(rest.token)], ["second", "net", False])
    client.delete_logged_model(other.model_id)
    c.same("deleted", names(), "net")
    c.refused(
        "deleted one", lambda: client.get_logged_model(other.model_id), "RESOURCE_DOES_NOT_EXIST"
    )
    c.refused(
        "unknown", lambda: client.get_logged_model("m-" + "0" * 32), "RESOURCE_DOES_NOT_EXIST"
    )


def with_log_model(c: Checks, client: MlflowClient, prefix: str) -> None:
    """log_model makes a logged model that is an output of its run, that loads."""
    mlflow.set_experiment(f"{prefix}-logged")
    with mlflow.start_run() as run:
        mlflow.log_metric("loss", 0.5, step=3)
        info = mlflow.pyfunc.log_model(
            name="echo",
            python_model=Echo(),
            pip_requirements=["mlflow"],
            step=3,
            registered_model_name=f"{prefix}-echo",
        )
    outputs = client.get_run(run.info.run_id).outputs.model_outputs
    c.same("output of the run", [(o.model_id, o.step) for o in outputs], [(info.model_id, 3)])
    got = client.get_logged_model(info.model_id)
    c.same("ready", str(got.status.value), "READY")
    c.same(
        "its metric of that step",
        [(m.key, m.value, m.step) for m in got.metrics or []],
        [("loss", 0.5, 3)],
    )
    version = client.get_model_version(f"{prefix}-echo", "1")
    c.same("registered", version.run_id, run.info.run_id)
    loaded = mlflow.pyfunc.load_model(f"models:/{prefix}-echo/1")
    c.same("answers", loaded.predict(["a", "b"]), ["a", "b"])
    loaded = mlflow.pyfunc.load_model(f"models:/{info.model_id}")
    c.same("answers by id", loaded.predict(["x"]), ["x"])
    listed = client.list_artifacts(run.info.run_id, "echo")
    c.true("listed under the run", any(f.path.endswith("MLmodel") for f in listed))
    files = client.list_logged_model_artifacts(info.model_id)
    c.true("listed under the model", any(f.path == "MLmodel" for f in files))
    c.fact("model", info.model_id)


PARTS = (by_hand, with_log_model)
