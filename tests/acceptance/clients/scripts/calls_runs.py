"""Runs, and everything logged to them, as a client sees it."""

import math
import time

import mlflow
from checks import GENERATION, Checks
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

LARGEST = 1.7976931348623157e308


def life_cycle(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Create, name, finish, delete and restore a run."""
    experiment = client.create_experiment(f"{prefix}-runs")
    run = client.create_run(experiment, tags={"kind": "first"})
    info = run.info
    c.same("id of 32 hex", len(info.run_id), 32)
    c.same("status", info.status, "RUNNING")
    c.same("stage", info.lifecycle_stage, "active")
    c.true("a name was invented", len(info.run_name.split("-")) == 3)
    c.same("name is a tag", run.data.tags["mlflow.runName"], info.run_name)
    c.same("own tag", run.data.tags["kind"], "first")
    c.same("no end", info.end_time, None)
    where = f"mlflow-artifacts:/{experiment}/{info.run_id}/artifacts"
    c.same("artifacts", info.artifact_uri, where)
    named = client.create_run(experiment, run_name="by hand", start_time=1234)
    c.same("given name", named.info.run_name, "by hand")
    c.same("given start", named.info.start_time, 1234)
    c.refused(
        "two names that differ",
        lambda: client.create_run(experiment, run_name="a", tags={"mlflow.runName": "b"}),
        "INVALID_PARAMETER_VALUE",
    )
    client.set_tag(info.run_id, "mlflow.runName", "through the tag")
    c.same("renamed by tag", client.get_run(info.run_id).info.run_name, "through the tag")
    client.update_run(info.run_id, name="through update")
    c.same(
        "renamed by update",
        client.get_run(info.run_id).data.tags["mlflow.runName"],
        "through update",
    )
    client.set_terminated(info.run_id, "FAILED", end_time=5678)
    ended = client.get_run(info.run_id).info
    c.same("ended", (ended.status, ended.end_time), ("FAILED", 5678))
    client.log_metric(info.run_id, "late", 1.0)
    client.delete_run(info.run_id)
    c.same("deleted", client.get_run(info.run_id).info.lifecycle_stage, "deleted")
    c.refused(
        "no writes when deleted",
        lambda: client.set_tag(info.run_id, "a", "b"),
        "INVALID_PARAMETER_VALUE",
        "must be in the 'active' state",
    )
    client.restore_run(info.run_id)
    c.same("restored", client.get_run(info.run_id).info.lifecycle_stage, "active")
    c.refused(
        "unknown run", lambda: client.get_run("0" * 32), "RESOURCE_DOES_NOT_EXIST", "not found"
    )
    c.refused(
        "run in unknown experiment",
        lambda: client.create_run("987654321"),
        "RESOURCE_DOES_NOT_EXIST",
    )


def values(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Metrics of every kind, and which of them is the latest."""
    experiment = client.create_experiment(f"{prefix}-values")
    run = client.create_run(experiment).info.run_id
    for key, value in (("nan", math.nan), ("up", math.inf), ("down", -math.inf), ("one", True)):
        client.log_metric(run, key, value, timestamp=10, step=0)
    client.log_metric(run, "text", "7", timestamp=10)
    client.log_metric(run, "tiny", 5e-324, timestamp=10)
    client.log_metric(run, "negative step", 1.5, timestamp=10, step=-3)
    got = client.get_run(run).data.metrics
    c.true("NaN stays", math.isnan(got["nan"]))
    c.same("infinities are clamped", (got["up"], got["down"]), (LARGEST, -LARGEST))
    c.same("a string is a number", got["text"], 7.0)
    c.same("True is one", got["one"], 1.0)
    c.same("smallest", got["tiny"], 5e-324)
    point = client.get_metric_history(run, "negative step")[0]
    c.same("negative step", (point.step, point.value, point.timestamp), (-3, 1.5, 10))
    for step, stamp, value in ((0, 5, 1.0), (2, 4, 9.0), (1, 9, 3.0), (2, 4, 8.0), (2, 4, 9.0)):
        client.log_metric(run, "order", value, timestamp=stamp, step=step)
    c.same("latest is by step, time, value", client.get_run(run).data.metrics["order"], 9.0)
    history = [(p.timestamp, p.step, p.value) for p in client.get_metric_history(run, "order")]
    c.same(
        "history by time, step, value; a repeat is one point",
        history,
        [(4, 2, 8.0), (4, 2, 9.0), (5, 0, 1.0), (9, 1, 3.0)],
    )
    c.same("no such metric", list(client.get_metric_history(run, "absent")), [])
    c.same("history of no run", list(client.get_metric_history("0" * 32, "a")), [])
    for bad in ("a" * 251, "x/../y", "/lead", "a//b", "hash#", "", "."):
        c.refused(
            f"metric named {bad[:12]!r}",
            lambda bad=bad: client.log_metric(run, bad, 1),
            "INVALID_PARAMETER_VALUE",
        )
    for good in ("train/loss", "a.b-c_d e", "sys: 1", "ünï"):
        client.log_metric(run, good, 1.0)
    c.true(
        "names with spaces, dots, slashes, colons",
        {"train/loss", "a.b-c_d e", "sys: 1", "ünï"} <= set(client.get_run(run).data.metrics),
    )
    c.fact("values run", run)


def params_and_tags(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Params cannot change; tags can; long values are cut or refused as MLflow does."""
    experiment = client.create_experiment(f"{prefix}-params")
    run = client.create_run(experiment).info.run_id
    client.log_param(run, "lr", 0.1)
    client.log_param(run, "lr", 0.1)
    c.refused(
        "another value",
        lambda: client.log_param(run, "lr", 0.2),
        "INVALID_PARAMETER_VALUE",
        "Changing param values is not allowed",
    )
    c.refused(
        "another value in a batch",
        lambda: client.log_batch(run, params=[Param("lr", "3")], metrics=[Metric("m", 1, 1, 1)]),
        "INVALID_PARAMETER_VALUE",
    )
    c.same("no metric of a refused batch", client.get_run(run).data.metrics, {})
    c.refused(
        "a key twice in a batch",
        lambda: client.log_batch(run, params=[Param("d", "1"), Param("d", "2")]),
        "INVALID_PARAMETER_VALUE",
    )
    client.log_param(run, "empty", "")
    client.log_param(run, "none", None)
    client.log_param(run, "list", [1, {"a": 2}])
    client.log_param(run, "long", "x" * 6000)
    client.log_param(run, "unicode", "größe ✓ 雪\n2")
    got = client.get_run(run).data.params
    c.same("empty", got["empty"], "")
    c.same("none", got["none"], "None")
    c.same("list", got["list"], "[1, {'a': 2}]")
    c.same("long", len(got["long"]), 6000)
    c.same("unicode", got["unicode"], "größe ✓ 雪\n2")
    client.set_tag(run, "t", "1")
    client.set_tag(run, "t", 2)
    client.set_tag(run, "empty", "")
    client.set_tag(run, "mlflow.note.content", "# A note\n\nwith *text*")
    tags = client.get_run(run).data.tags
    c.same("tag changed", tags["t"], "2")
    c.same("tag empty", tags["empty"], "")
    c.same("note", tags["mlflow.note.content"], "# A note\n\nwith *text*")
    client.delete_tag(run, "t")
    c.true("tag gone", "t" not in client.get_run(run).data.tags)
    c.refused(
        "tag that is not there",
        lambda: client.delete_tag(run, "t"),
        "RESOURCE_DOES_NOT_EXIST",
        "No tag with name",
    )
    client.set_tag(run, "long", "y" * 8100)
    c.same("a long tag is cut", len(client.get_run(run).data.tags["long"]), 8000)
    for what, call in (
        ("param key", lambda: client.log_param(run, "k" * 251, 1)),
        ("tag key", lambda: client.set_tag(run, "k" * 251, 1)),
        ("param name", lambda: client.log_param(run, "../up", 1)),
        ("tag name", lambda: client.set_tag(run, "a//b", 1)),
    ):
        c.refused(what, call, "INVALID_PARAMETER_VALUE")
    c.fact("params run", run)


def batches(c: Checks, client: MlflowClient, prefix: str) -> None:
    """The limits of log-batch, and what log_metrics and log_params do with more."""
    experiment = mlflow.set_experiment(f"{prefix}-batches").experiment_id
    run = client.create_run(experiment).info.run_id
    now = int(time.time() * 1000)
    client.log_batch(
        run,
        metrics=[Metric(f"m{i}", i, now, 1) for i in range(800)],
        params=[Param(f"p{i}", str(i)) for i in range(100)],
        tags=[RunTag(f"t{i}", str(i)) for i in range(100)],
    )
    got = client.get_run(run).data
    c.same("a full batch", (len(got.metrics), len(got.params)), (800, 100))
    c.same(
        "last of each",
        (got.metrics["m799"], got.params["p99"], got.tags["t99"]),
        (799.0, "99", "99"),
    )
    client.log_batch(run, metrics=[Metric("many", i / 7, now + i, i) for i in range(1000)])
    c.same("a thousand points", len(client.get_metric_history(run, "many")), 1000)
    client.log_batch(run, metrics=[Metric("many", i / 7, now + i, i) for i in range(1000)])
    c.same("sent again, still a thousand", len(client.get_metric_history(run, "many")), 1000)
    client.log_batch(run, metrics=[Metric("more", i, now, i) for i in range(2500)])
    c.same("the client cuts what is too large", len(client.get_metric_history(run, "more")), 2500)
    c.refused(
        "a bad name in a batch",
        lambda: client.log_batch(run, metrics=[Metric("fine", 1, 1, 1), Metric("no#", 1, 1, 1)]),
        "INVALID_PARAMETER_VALUE",
    )
    client.log_batch(run)
    with mlflow.start_run(run_id=run):
        mlflow.log_metrics({f"f{i}": i for i in range(50)}, step=3)
        mlflow.log_params({f"f{i}": i for i in range(150)})
        mlflow.set_tags({"one": 1, "two": "zwei"})
    got = client.get_run(run).data
    c.same("150 params in two batches", len(got.params), 250)
    c.same("step", client.get_metric_history(run, "f49")[0].step, 3)
    c.fact("batch run", run)


def nested_and_resumed(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Nested runs name their parent; a run can be taken up again; a crash marks it failed."""
    mlflow.set_experiment(f"{prefix}-nested")
    with (
        mlflow.start_run(run_name="parent", description="the outer") as outer,
        mlflow.start_run(run_name="child", nested=True) as inner,
    ):
        mlflow.log_metric("depth", 2)
    c.same(
        "parent",
        client.get_run(inner.info.run_id).data.tags["mlflow.parentRunId"],
        outer.info.run_id,
    )
    c.same(
        "description",
        client.get_run(outer.info.run_id).data.tags["mlflow.note.content"],
        "the outer",
    )
    children = client.search_runs(
        [outer.info.experiment_id], f"tags.mlflow.parentRunId = '{outer.info.run_id}'"
    )
    c.same("children", [r.info.run_id for r in children], [inner.info.run_id])
    c.same("finished", client.get_run(outer.info.run_id).info.status, "FINISHED")
    with mlflow.start_run(run_id=outer.info.run_id):
        c.same("running again", client.get_run(outer.info.run_id).info.status, "RUNNING")
        mlflow.log_metric("more", 1)
    try:
        with mlflow.start_run() as broken:
            raise RuntimeError("training broke")
    except RuntimeError:
        pass
    c.same("failed", client.get_run(broken.info.run_id).info.status, "FAILED")
    tags = client.get_run(broken.info.run_id).data.tags
    c.true(
        "user and source", {"mlflow.user", "mlflow.source.name", "mlflow.source.type"} <= set(tags)
    )
    c.fact("nested", [outer.info.run_id, inner.info.run_id])


def asynchronous(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Async logging arrives whole after a flush."""
    mlflow.set_experiment(f"{prefix}-async")
    with mlflow.start_run() as run:
        pending = [
            mlflow.log_metric("loss", 1 / (1 + i), step=i, synchronous=False) for i in range(200)
        ]
        mlflow.log_params({f"p{i}": i for i in range(20)}, synchronous=False)
        mlflow.set_tag("async", "yes", synchronous=False)
        for waiting in pending:
            waiting.wait()
        mlflow.flush_async_logging()
    got = client.get_run(run.info.run_id).data
    c.same("every point", len(client.get_metric_history(run.info.run_id, "loss")), 200)
    c.same("params and tags", (len(got.params), got.tags["async"]), (20, "yes"))
    c.fact("async run", run.info.run_id)


def datasets(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Datasets are inputs of a run and can be searched by."""
    import numpy
    import pandas

    mlflow.set_experiment(f"{prefix}-datasets")
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "label": [0, 1, 0]})
    table = mlflow.data.from_pandas(frame, source="local.csv", name="food", targets="label")
    array = mlflow.data.from_numpy(numpy.arange(6.0).reshape(3, 2), name="grid")
    with mlflow.start_run() as run:
        mlflow.log_input(table, context="training", tags={"fold": "1"})
        mlflow.log_input(array)
        mlflow.log_input(table, context="training")
    inputs = {d.dataset.name: d for d in client.get_run(run.info.run_id).inputs.dataset_inputs}
    c.same("two datasets", sorted(inputs), ["food", "grid"])
    food = inputs["food"].dataset
    c.same("digest", food.digest, table.digest)
    c.true("schema and profile", "x" in food.schema and "num_rows" in food.profile)
    tags = {t.key: t.value for t in inputs["food"].tags}
    c.same("context", tags["mlflow.data.context"], "training")
    where = [run.info.experiment_id]
    for text, found in (
        ("datasets.name = 'food'", 1),
        ("dataset.name LIKE 'fo%'", 1),
        (f"datasets.digest = '{food.digest}'", 1),
        ("datasets.context = 'training'", 1),
        ("datasets.name IN ('grid', 'none')", 1),
        ("datasets.name = 'absent'", 0),
    ):
        c.same(text, len(client.search_runs(where, text)), found)
    if GENERATION >= 3:
        c.same("model inputs", client.get_run(run.info.run_id).inputs.model_inputs, [])


PARTS = (
    life_cycle,
    values,
    params_and_tags,
    batches,
    nested_and_resumed,
    asynchronous,
    datasets,
)
