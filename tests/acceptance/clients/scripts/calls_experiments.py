"""Experiments from birth to restore, as a client sees them."""

from typing import Any

import mlflow
from checks import GENERATION, Checks
from mlflow import MlflowClient
from mlflow.entities import ViewType


def life_cycle(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Create, tag, rename, delete, restore."""
    name = f"{prefix}-life"
    made = client.create_experiment(name, tags={"a": "1"})
    c.true("an experiment id is a string of digits", isinstance(made, str) and made.isdigit())
    got = client.get_experiment(made)
    c.same("name", got.name, name)
    c.same("stage", got.lifecycle_stage, "active")
    c.same("tags", got.tags, {"a": "1"})
    c.true("creation time in ms", got.creation_time > 1_600_000_000_000)
    c.true("artifact location is proxied", got.artifact_location.startswith("mlflow-artifacts:/"))
    c.same("by name", client.get_experiment_by_name(name).experiment_id, made)
    c.same("absent name", client.get_experiment_by_name(f"{name}-none"), None)
    c.refused("same name twice", lambda: client.create_experiment(name), "RESOURCE_ALREADY_EXISTS")
    c.refused("unknown id", lambda: client.get_experiment("987654321"), "RESOURCE_DOES_NOT_EXIST")
    c.refused("id not a number", lambda: client.get_experiment("abc"), "INVALID_PARAMETER_VALUE")
    c.refused("empty name", lambda: client.create_experiment(""), "INVALID_PARAMETER_VALUE")
    c.refused(
        "name of 501 characters",
        lambda: client.create_experiment("n" * 501),
        "INVALID_PARAMETER_VALUE",
    )
    client.set_experiment_tag(made, "b", "zwei")
    client.set_experiment_tag(made, "a", "")
    c.same("tags set again", client.get_experiment(made).tags, {"a": "", "b": "zwei"})
    if GENERATION >= 3:
        client.delete_experiment_tag(made, "b")
        c.same("tag deleted", client.get_experiment(made).tags, {"a": ""})
    client.rename_experiment(made, f"{name}-renamed")
    c.same("renamed", client.get_experiment(made).name, f"{name}-renamed")
    c.same("old name is free", client.get_experiment_by_name(name), None)
    c.fact("experiment", made)


def deletion(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Deleting hides runs, refuses writes, keeps the name; restoring revives all."""
    name = f"{prefix}-deleted"
    made = client.create_experiment(name)
    run = client.create_run(made).info.run_id
    client.delete_experiment(made)
    c.same("deleted stage", client.get_experiment(made).lifecycle_stage, "deleted")
    c.same("by name too", client.get_experiment_by_name(name).lifecycle_stage, "deleted")
    c.same("runs go with it", client.get_run(run).info.lifecycle_stage, "deleted")
    c.refused(
        "its name stays taken", lambda: client.create_experiment(name), "RESOURCE_ALREADY_EXISTS"
    )
    c.refused(
        "no run in it",
        lambda: client.create_run(made),
        "INVALID_PARAMETER_VALUE",
        "must be in the 'active' state",
    )
    c.refused(
        "no writes to its runs",
        lambda: client.log_metric(run, "m", 1),
        "INVALID_PARAMETER_VALUE",
        "must be in the 'active' state",
    )
    c.fails("no rename", lambda: client.rename_experiment(made, f"{name}-2"))
    c.refused(
        "no second delete", lambda: client.delete_experiment(made), "RESOURCE_DOES_NOT_EXIST"
    )
    client.restore_experiment(made)
    c.same("restored", client.get_experiment(made).lifecycle_stage, "active")
    c.same("its runs too", client.get_run(run).info.lifecycle_stage, "active")
    client.log_metric(run, "m", 1)


def search(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Views, filters, orders and pages."""
    ids = [
        client.create_experiment(f"{prefix}-Find-{letter}", tags={"team": team, "n": str(n)})
        for n, (letter, team) in enumerate((("a", "x"), ("b", "y"), ("c", "x"), ("D", "y")))
    ]
    client.delete_experiment(ids[3])
    near = f"name LIKE '{prefix}-Find-%'"

    def names(**how: Any) -> list[str]:
        return [e.name.rsplit("-", 1)[1] for e in client.search_experiments(**how)]

    c.same("newest first, active alone", names(filter_string=near), ["c", "b", "a"])
    c.same("by name", names(filter_string=near, order_by=["name ASC"]), ["a", "b", "c"])
    c.same(
        "all views",
        sorted(names(filter_string=near, view_type=ViewType.ALL)),
        ["D", "a", "b", "c"],
    )
    c.same("deleted alone", names(filter_string=near, view_type=ViewType.DELETED_ONLY), ["D"])
    c.same(
        "tag", names(filter_string=f"{near} AND tags.team = 'x'", order_by=["name"]), ["a", "c"]
    )
    c.same("tag differs", names(filter_string=f"{near} AND tags.team != 'x'"), ["b"])
    c.same("LIKE minds case", names(filter_string=f"name LIKE '{prefix}-find-%'"), [])
    c.same("ILIKE does not", names(filter_string=f"name ILIKE '{prefix}-find-A'"), ["a"])
    c.same("equal", names(filter_string=f"name = '{prefix}-Find-b'"), ["b"])
    c.same("times", names(filter_string=f"{near} AND creation_time > 99"), ["c", "b", "a"])
    first = client.search_experiments(filter_string=near, order_by=["name ASC"], max_results=2)
    c.same("page of two", len(first), 2)
    c.true("has a token", first.token)
    rest = client.search_experiments(
        filter_string=near, order_by=["name ASC"], max_results=2, page_token=first.token
    )
    c.same("second page", [e.name[-1] for e in rest], ["c"])
    c.true("the last page has no token", not rest.token)
    c.refused(
        "bad filter",
        lambda: client.search_experiments(filter_string="name ~ 'x'"),
        "INVALID_PARAMETER_VALUE",
    )
    c.refused(
        "unknown attribute",
        lambda: client.search_experiments(filter_string="colour = 'x'"),
        "INVALID_PARAMETER_VALUE",
    )
    c.refused(
        "bad order",
        lambda: client.search_experiments(order_by=["colour"]),
        "INVALID_PARAMETER_VALUE",
    )
    c.refused(
        "too many",
        lambda: client.search_experiments(max_results=50_001),
        "INVALID_PARAMETER_VALUE",
    )


def fluent(c: Checks, client: MlflowClient, prefix: str) -> None:
    """set_experiment makes one when there is none, and finds it again."""
    made = mlflow.set_experiment(f"{prefix}-fluent")
    again = mlflow.set_experiment(f"{prefix}-fluent")
    c.same("one experiment", again.experiment_id, made.experiment_id)
    c.same("by id", mlflow.set_experiment(experiment_id=made.experiment_id).name, made.name)
    c.same("the default one", client.get_experiment("0").name, "Default")
    client.delete_experiment(made.experiment_id)
    c.refused(
        "a deleted one",
        lambda: mlflow.set_experiment(f"{prefix}-fluent"),
        "INVALID_PARAMETER_VALUE",
    )
    client.restore_experiment(made.experiment_id)


PARTS = (life_cycle, deletion, search, fluent)
