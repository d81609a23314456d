"""The model registry from creation to deletion, as a client sees it."""

import tempfile
from pathlib import Path
from typing import Any

import mlflow
from checks import Checks
from mlflow import MlflowClient


def _run_with_model(client: MlflowClient, prefix: str) -> tuple[str, str]:
    experiment = mlflow.set_experiment(f"{prefix}-registry").experiment_id
    run = client.create_run(experiment).info.run_id
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "MLmodel").write_text("flavors: {}\n")
        Path(folder, "weights.bin").write_bytes(b"\x00\x01" * 500)
        client.log_artifacts(run, folder, "model")
    return run, f"{client.get_run(run).info.artifact_uri}/model"


def models(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Create, describe, tag, rename, search, delete registered models."""
    name = f"{prefix}-net"
    made = client.create_registered_model(name, tags={"a": "1"}, description="first words")
    c.same("name", made.name, name)
    c.same("description", made.description, "first words")
    c.refused("same name", lambda: client.create_registered_model(name), "RESOURCE_ALREADY_EXISTS")
    c.refused("empty name", lambda: client.create_registered_model(""), "INVALID_PARAMETER_VALUE")
    c.refused(
        "name with a slash",
        lambda: client.create_registered_model("a/b"),
        "INVALID_PARAMETER_VALUE",
    )
    c.refused(
        "name with a colon",
        lambda: client.create_registered_model("a:b"),
        "INVALID_PARAMETER_VALUE",
    )
    c.refused(
        "unknown", lambda: client.get_registered_model(f"{name}-none"), "RESOURCE_DOES_NOT_EXIST"
    )
    client.update_registered_model(name, description="better words")
    client.set_registered_model_tag(name, "b", "2")
    client.delete_registered_model_tag(name, "a")
    got = client.get_registered_model(name)
    c.same("updated", (got.description, got.tags), ("better words", {"b": "2"}))
    c.same("no versions", list(got.latest_versions), [])
    client.rename_registered_model(name, f"{name}-2")
    c.same("renamed", client.get_registered_model(f"{name}-2").tags, {"b": "2"})
    c.refused("old name", lambda: client.get_registered_model(name), "RESOURCE_DOES_NOT_EXIST")
    client.delete_registered_model(f"{name}-2")
    c.refused(
        "deleted", lambda: client.get_registered_model(f"{name}-2"), "RESOURCE_DOES_NOT_EXIST"
    )
    for letter, team in (("c", "x"), ("a", "y"), ("b", "x")):
        client.create_registered_model(f"{prefix}-Many-{letter}", tags={"team": team})
    near = f"name LIKE '{prefix}-Many-%'"

    def names(text: str = near, **how: Any) -> str:
        return "".join(m.name[-1] for m in client.search_registered_models(text, **how))

    c.same("by name", names(), "abc")
    c.same("name downwards", names(order_by=["name DESC"]), "cba")
    c.same("newest change first", names(order_by=["last_updated_timestamp DESC"])[0], "b")
    c.same("tag", names(f"{near} AND tags.team = 'x'"), "bc")
    c.same("case", names(f"name LIKE '{prefix}-many-%'"), "")
    c.same("no case", names(f"name ILIKE '{prefix}-MANY-%'"), "abc")
    page = client.search_registered_models(near, max_results=2)
    rest = client.search_registered_models(near, max_results=2, page_token=page.token)
    c.same(
        "pages",
        ([m.name[-1] for m in page], [m.name[-1] for m in rest], bool(rest.token)),
        (["a", "b"], ["c"], False),
    )
    c.refused("bad filter", lambda: names("colour = 'x'"), "INVALID_PARAMETER_VALUE")


def versions(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Versions count up, move through stages, carry tags, and never reuse a number."""
    run, source = _run_with_model(client, prefix)
    name = f"{prefix}-versions"
    client.create_registered_model(name)
    one = client.create_model_version(name, source, run_id=run, tags={"k": "v"}, description="d")
    c.same(
        "first",
        (one.version, one.current_stage, one.status, one.run_id, one.tags, one.description),
        (one.version, "None", "READY", run, {"k": "v"}, "d"),
    )
    c.same("number", int(one.version), 1)
    c.same("source", one.source, source)
    two = client.create_model_version(name, source, run_id=run)
    c.same("second", int(two.version), 2)
    c.refused(
        "of no model",
        lambda: client.create_model_version(f"{name}-none", source, run_id=run),
        "RESOURCE_DOES_NOT_EXIST",
    )
    client.update_model_version(name, "1", description="new")
    client.set_model_version_tag(name, "1", "x", "y")
    client.delete_model_version_tag(name, "1", "k")
    got = client.get_model_version(name, "1")
    c.same("updated", (got.description, got.tags), ("new", {"x": "y"}))
    c.same("download uri", client.get_model_version_download_uri(name, "1"), source)
    moved = client.transition_model_version_stage(name, "1", "production")
    c.same("stage", moved.current_stage, "Production")
    client.transition_model_version_stage(name, "2", "Production", archive_existing_versions=True)
    c.same("archived", client.get_model_version(name, "1").current_stage, "Archived")
    c.refused(
        "no such stage",
        lambda: client.transition_model_version_stage(name, "1", "Moon"),
        "INVALID_PARAMETER_VALUE",
    )
    c.fails(
        "archive others from None",
        lambda: client.transition_model_version_stage(
            name, "1", "None", archive_existing_versions=True
        ),
    )
    latest = client.get_latest_versions(name)
    c.same(
        "latest by stage",
        sorted((v.current_stage, int(v.version)) for v in latest),
        [("Archived", 1), ("Production", 2)],
    )
    c.same(
        "latest of one stage",
        [int(v.version) for v in client.get_latest_versions(name, ["Production"])],
        [2],
    )
    client.delete_model_version(name, "2")
    c.refused("deleted", lambda: client.get_model_version(name, "2"), "RESOURCE_DOES_NOT_EXIST")
    c.same("numbers go on", int(client.create_model_version(name, source, run_id=run).version), 3)
    c.refused(
        "version not a number",
        lambda: client.get_model_version(name, "abc"),
        "INVALID_PARAMETER_VALUE",
    )

    def found(text: str, **how: Any) -> list[int]:
        return [int(v.version) for v in client.search_model_versions(text, **how)]

    c.same("by name", sorted(found(f"name = '{name}'")), [1, 3])
    c.same("by run", sorted(found(f"run_id = '{run}' and name = '{name}'")), [1, 3])
    c.same("by tag", found(f"name = '{name}' and tags.x = 'y'"), [1])
    c.same("by source", sorted(found(f"source_path = '{source}' and name = '{name}'")), [1, 3])
    c.same("by number", found(f"name = '{name}' and version_number = 3"), [3])
    c.same("ordered", found(f"name = '{name}'", order_by=["version_number ASC"]), [1, 3])
    c.same("one page", len(found(f"name = '{name}'", max_results=1)), 1)
    c.refused("bad version filter", lambda: found("colour = 'x'"), "INVALID_PARAMETER_VALUE")
    c.fact("versions", {"name": name, "run": run})


def aliases(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Aliases point at one version, move, and vanish with it."""
    run, source = _run_with_model(client, prefix)
    name = f"{prefix}-aliases"
    client.create_registered_model(name)
    for _ in range(2):
        client.create_model_version(name, source, run_id=run)
    client.set_registered_model_alias(name, "champion", "1")
    c.same("by alias", int(client.get_model_version_by_alias(name, "champion").version), 1)
    client.set_registered_model_alias(name, "champion", "2")
    client.set_registered_model_alias(name, "next", "2")
    c.same("moved", int(client.get_model_version_by_alias(name, "champion").version), 2)
    c.same(
        "on the version", sorted(client.get_model_version(name, "2").aliases), ["champion", "next"]
    )
    got = {k: int(v) for k, v in client.get_registered_model(name).aliases.items()}
    c.same("on the model", got, {"champion": 2, "next": 2})
    client.delete_registered_model_alias(name, "next")
    c.refused(
        "gone", lambda: client.get_model_version_by_alias(name, "next"), "INVALID_PARAMETER_VALUE"
    )
    for bad in ("latest", "v7", "a b", ""):
        c.refused(
            f"alias {bad!r}",
            lambda bad=bad: client.set_registered_model_alias(name, bad, "1"),
            "INVALID_PARAMETER_VALUE",
        )
    c.refused(
        "of no version",
        lambda: client.set_registered_model_alias(name, "x", "9"),
        "RESOURCE_DOES_NOT_EXIST",
    )
    client.delete_model_version(name, "2")
    c.same("aliases go with it", client.get_registered_model(name).aliases, {})


def by_uri(c: Checks, client: MlflowClient, prefix: str) -> None:
    """register_model from runs:/, search, and download what was registered."""
    run, source = _run_with_model(client, prefix)
    name = f"{prefix}-staging"
    made = mlflow.register_model(f"runs:/{run}/model", name)
    again = mlflow.register_model(f"runs:/{run}/model", name, tags={"try": "2"})
    c.same("versions", (int(made.version), int(again.version)), (1, 2))
    found = client.search_model_versions(f"name='{name}'")
    best = max(found, key=lambda v: int(v.version))
    c.same("highest", (int(best.version), best.status, best.source), (2, "READY", source))
    with tempfile.TemporaryDirectory() as folder:
        got = mlflow.artifacts.download_artifacts(best.source, dst_path=f"{folder}/downloaded")
        c.same("downloaded", Path(got, "weights.bin").read_bytes(), b"\x00\x01" * 500)
        model = mlflow.artifacts.download_artifacts(f"models:/{name}/1", dst_path=f"{folder}/two")
        c.same(
            "by model uri",
            sorted(p.name for p in Path(model).iterdir() if p.stem != "registered_model_meta"),
            ["MLmodel", "weights.bin"],
        )
    c.fact("registered", {"name": name, "run": run})


PARTS = (models, versions, aliases, by_uri)
