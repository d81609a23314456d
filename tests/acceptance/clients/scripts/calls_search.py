"""The run search language, its edges, orders and pages, as a client sees them."""

import math
from typing import Any

import mlflow
from checks import GENERATION, Checks
from mlflow import MlflowClient
from mlflow.entities import ViewType

RUNS: dict[str, dict[str, Any]] = {
    "alpha": {
        "m": {"acc": 0.9, "loss": 1.0},
        "p": {"model": "ResNet", "lr": "0.1"},
        "t": {"team": "blue"},
        "start": 1000,
    },
    "beta": {
        "m": {"acc": 0.7, "loss": math.nan},
        "p": {"model": "resnet-50", "lr": "0.01"},
        "t": {"team": "red"},
        "start": 2000,
    },
    "gamma": {
        "m": {"acc": 0.7},
        "p": {"model": "ViT"},
        "t": {"team": "blue", "x y": "q"},
        "start": 3000,
    },
    "delta": {"m": {"loss": -5.0}, "p": {}, "t": {}, "start": 4000},
}

FILTERS: tuple[tuple[str, str], ...] = (
    ("metrics.acc > 0.7", "alpha"),
    ("metrics.acc >= 0.7", "gamma beta alpha"),
    ("metric.acc = 0.7", "gamma beta"),
    ("metrics.acc != 0.7", "alpha"),
    ("metrics.loss < 0", "delta"),
    ("metrics.loss != 1.0", "delta beta"),
    ("metrics.loss <= 1", "delta alpha"),
    ("metrics.acc > 0.5 AND metrics.loss = 1", "alpha"),
    ("metrics.acc > 0.5 and metrics.loss = 1", "alpha"),
    ("params.model = 'ResNet'", "alpha"),
    ('params.model = "ResNet"', "alpha"),
    ("param.model != 'ResNet'", "gamma beta"),
    ("parameters.model LIKE 'res%'", "beta"),
    ("params.model ILIKE 'res%'", "beta alpha"),
    ("params.model LIKE '%Net'", "alpha"),
    ("params.`model` = 'ViT'", "gamma"),
    ("params.\"model\" = 'ViT'", "gamma"),
    ("tags.team = 'blue'", "gamma alpha"),
    ("tag.team != 'blue'", "beta"),
    ("tags.`x y` = 'q'", "gamma"),
    ("tags.team ILIKE 'B%'", "gamma alpha"),
    ("attributes.run_name = 'beta'", "beta"),
    ("run_name LIKE '%lta'", "delta"),
    ("attribute.`run name` = 'beta'", "beta"),
    ("attributes.status = 'FINISHED'", "delta"),
    ("status != 'FINISHED'", "gamma beta alpha"),
    ("attributes.start_time > 2000", "delta gamma"),
    ("start_time <= 2000", "beta alpha"),
    ("created < 1500", "alpha"),
    ("end_time = 4500", "delta"),
    ("attributes.artifact_uri LIKE 'mlflow-artifacts:/%'", "delta gamma beta alpha"),
    ("metrics.acc > 0.1 AND params.model LIKE '%e%' AND tags.team = 'red'", "beta"),
    ("", "delta gamma beta alpha"),
    ("metrics.acc > 1e-3 AND metrics.acc < 7.5E-1", "gamma beta"),
)

REFUSED = (
    "metrics.acc > 'high'",
    "params.model > 'a'",
    "params.model = 3",
    "metrics.acc LIKE '0%'",
    "colour.acc > 1",
    "attributes.colour = 'x'",
    "metrics.acc",
    "tags.team = blue",
    "run_id > 'a'",
    "start_time = 'x'",
)

ORDERS: tuple[tuple[list[str], str], ...] = (
    ([], "delta gamma beta alpha"),
    (["metrics.acc DESC"], "alpha gamma beta delta"),
    (["metrics.acc ASC"], "gamma beta alpha delta"),
    (["metrics.acc"], "gamma beta alpha delta"),
    (["metrics.loss DESC"], "alpha delta beta gamma"),
    (["metrics.loss ASC"], "delta alpha beta gamma"),
    (["params.model ASC"], "alpha gamma beta delta"),
    (["tags.team DESC", "metrics.acc DESC"], "beta alpha gamma delta"),
    (["attributes.start_time ASC"], "alpha beta gamma delta"),
    (["start_time DESC"], "delta gamma beta alpha"),
    (["run_name ASC"], "alpha beta delta gamma"),
    (["attributes.end_time DESC"], "delta gamma beta alpha"),
    (["metrics.`acc` DESC", "run_name DESC"], "alpha gamma beta delta"),
    (["metrics.absent DESC"], "delta gamma beta alpha"),
)


def _fill(client: MlflowClient, prefix: str) -> str:
    experiment = client.create_experiment(f"{prefix}-search")
    for name, what in RUNS.items():
        run = client.create_run(experiment, run_name=name, start_time=what["start"]).info.run_id
        for key, value in what["m"].items():
            client.log_metric(run, key, value, timestamp=1)
        for key, value in what["p"].items():
            client.log_param(run, key, value)
        for key, value in what["t"].items():
            client.set_tag(run, key, value)
        if name == "delta":
            client.set_terminated(run, "FINISHED", end_time=4500)
    return str(experiment)


def language(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Every operator and entity; every refusal; every order."""
    where = [_fill(client, prefix)]

    def names(text: str = "", **how: Any) -> str:
        return " ".join(r.info.run_name for r in client.search_runs(where, text, **how))

    for text, expected in FILTERS:
        c.section(text, lambda t=text, e=expected: c.same(f"filter {t!r}", names(t), e))
    for text in REFUSED:
        c.refused(f"filter {text!r}", lambda text=text: names(text), "INVALID_PARAMETER_VALUE")
    for order, expected in ORDERS:
        c.section(
            str(order), lambda o=order, e=expected: c.same(f"order {o}", names(order_by=o), e)
        )
    for order in (["colour.x"], ["metrics.acc SIDEWAYS"]):
        c.refused(
            f"order {order}", lambda order=order: names(order_by=order), "INVALID_PARAMETER_VALUE"
        )
    c.fails("a key ordered by twice", lambda: names(order_by=["metrics.acc", "metrics.acc DESC"]))
    some = client.search_runs(where, "run_name = 'alpha'")[0].info.run_id
    other = client.search_runs(where, "run_name = 'gamma'")[0].info.run_id
    c.same("run id", names(f"attributes.run_id = '{some}'"), "alpha")
    c.same("run id in", names(f"run_id IN ('{some}', '{other}')"), "gamma alpha")
    c.same("run id not in", names(f"run_id NOT IN ('{some}', '{other}')"), "delta beta")
    if GENERATION >= 3:
        c.same("no such param", names("params.model IS NULL"), "delta")
        c.same("has the tag", names("tags.team IS NOT NULL"), "gamma beta alpha")
    c.same("no experiments, no runs", list(client.search_runs([])), [])
    both = mlflow.search_runs(experiment_ids=where, order_by=["metrics.acc DESC"], max_results=2)
    c.same("as a frame", list(both["tags.mlflow.runName"]), ["alpha", "gamma"])
    c.same("frame columns", float(both["metrics.acc"][0]), 0.9)


def views_and_pages(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Deleted runs have their own view; pages follow each other without gap or repeat."""
    experiment = client.create_experiment(f"{prefix}-pages")
    ids = [client.create_run(experiment, start_time=1000 + i).info.run_id for i in range(25)]
    client.delete_run(ids[3])

    def count(view: int) -> int:
        return len(client.search_runs([experiment], run_view_type=view))

    c.same(
        "views",
        (count(ViewType.ACTIVE_ONLY), count(ViewType.DELETED_ONLY), count(ViewType.ALL)),
        (24, 1, 25),
    )
    seen: list[str] = []
    token, pages = None, 0
    while True:
        page = client.search_runs([experiment], max_results=10, page_token=token)
        seen += [r.info.run_id for r in page]
        token, pages = page.token, pages + 1
        if not token:
            break
    c.same("three pages", pages, 3)
    c.same("in order, each once", seen, [i for i in reversed(ids) if i != ids[3]])
    c.refused(
        "bad token",
        lambda: client.search_runs([experiment], page_token="not a token"),
        "INVALID_PARAMETER_VALUE",
    )
    c.refused(
        "too large a page",
        lambda: client.search_runs([experiment], max_results=50_001),
        "INVALID_PARAMETER_VALUE",
    )
    frame = mlflow.search_runs(experiment_ids=[experiment], max_results=5)
    c.same("frame of five", len(frame), 5)
    c.same("by experiment name", len(mlflow.search_runs(experiment_names=[f"{prefix}-pages"])), 24)
    other = client.create_experiment(f"{prefix}-pages-2")
    client.create_run(other, start_time=5000)
    c.same("two experiments", len(client.search_runs([experiment, other])), 25)


PARTS = (language, views_and_pages)
