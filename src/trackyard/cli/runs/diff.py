"""`yard diff RUN RUN`: what differs between runs: parameters, metrics, source."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.output import add_json, emit_json, say, table
from trackyard.client.api import Api

_SHOWN_TAGS = ("mlflow.source.name", "mlflow.source.git.commit", "mlflow.user")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("diff", help="compare runs")
    parser.add_argument("run", nargs="+", help="two or more run ids")
    parser.add_argument("--all", action="store_true", help="show what is equal, too")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the differences."""
    api = Api.from_environment()
    pages = [api.get(f"/api/v1/runs/{run_id}") for run_id in args.run]
    found: dict[str, Any] = {
        "runs": [page["run"]["info"]["run_id"] for page in pages],
        "params": _differing([_params(page) for page in pages], everything=args.all),
        "metrics": _differing([_metrics(page) for page in pages], everything=args.all),
        "source": _differing([_source(page) for page in pages], everything=args.all),
    }
    if args.json:
        emit_json(found)
        return 0
    headers = [page["run"]["info"]["run_name"] for page in pages]
    shown = False
    for part in ("params", "metrics", "source"):
        if found[part]:
            if shown:
                print()
            shown = True
            table([part, *headers], [(key, *values) for key, values in found[part].items()])
    if not shown:
        say("the runs have the same parameters, metrics and source")
    return 0


def _params(page: dict[str, Any]) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in page["run"]["data"].get("params", [])}


def _metrics(page: dict[str, Any]) -> dict[str, Any]:
    return {row["key"]: row["last"] for row in page["metrics"]}


def _source(page: dict[str, Any]) -> dict[str, Any]:
    tags = {row["key"]: row["value"] for row in page["run"]["data"].get("tags", [])}
    return {key: tags[key] for key in _SHOWN_TAGS if key in tags}


def _differing(sides: list[dict[str, Any]], *, everything: bool) -> dict[str, list[Any]]:
    keys = sorted({key for side in sides for key in side})
    rows = {key: [side.get(key) for side in sides] for key in keys}
    return {
        key: values
        for key, values in rows.items()
        if everything or any(value != values[0] for value in values)
    }
