"""`yard models [NAME]`: registered models, or the versions of one."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.output import add_json, ago, emit_json, table
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("models", help="list registered models or one model's versions")
    parser.add_argument("name", nargs="?", help="a model, to list its versions")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List models or versions."""
    api = Api.from_environment()
    return _versions(api, args) if args.name else _models(api, args)


def _models(api: Api, args: argparse.Namespace) -> int:
    found = _pages(api, "registered-models/search", "registered_models", {"max_results": 1000})
    if args.json:
        emit_json(found)
        return 0
    table(
        ["model", "latest", "aliases", "updated"],
        [
            (
                row["name"],
                max((int(v["version"]) for v in row.get("latest_versions", [])), default=None),
                ", ".join(f"{a['alias']}→v{a['version']}" for a in row.get("aliases", [])),
                ago(row.get("last_updated_timestamp")),
            )
            for row in found
        ],
        empty="no registered models yet; mlflow.register_model makes the first one",
    )
    return 0


def _versions(api: Api, args: argparse.Namespace) -> int:
    model = api.mlflow("GET", "registered-models/get", {"name": args.name})["registered_model"]
    quoted = args.name.replace("'", "''")
    query = {"filter": f"name='{quoted}'", "max_results": 10_000}
    found = _pages(api, "model-versions/search", "model_versions", query)
    if args.json:
        emit_json({"model": model, "versions": found})
        return 0
    aliases: dict[str, list[str]] = {}
    for alias in model.get("aliases", []):
        aliases.setdefault(alias["version"], []).append(alias["alias"])
    table(
        ["version", "aliases", "stage", "status", "files", "run", "created"],
        [
            (
                f"v{row['version']}",
                ", ".join(aliases.get(row["version"], [])),
                row.get("current_stage"),
                row.get("status"),
                row.get("status_message") or None,
                row.get("run_id") or None,
                ago(row.get("creation_timestamp")),
            )
            for row in sorted(found, key=lambda row: -int(row["version"]))
        ],
    )
    return 0


def _pages(api: Api, path: str, name: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    token = None
    while True:
        page = api.mlflow("GET", path, {**query, **({"page_token": token} if token else {})})
        found += page.get(name, [])
        token = page.get("next_page_token")
        if not token:
            return found
