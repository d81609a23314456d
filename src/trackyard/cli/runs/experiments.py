"""`yard experiments`: the team's experiments with their runs counted."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, ago, emit_json, table
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("experiments", help="list experiments")
    parser.add_argument("--create", metavar="NAME", help="make an experiment first")
    parser.add_argument("--deleted", action="store_true", help="list deleted ones instead")
    parser.add_argument("-q", "--quiet", action="store_true", help="print ids only")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List the experiments."""
    query = {"deleted": "1"} if args.deleted else None
    api = Api.from_environment()
    if args.create:
        api.mlflow("POST", "experiments/create", {"name": args.create})
    found = api.get("/api/v1/experiments", query)["experiments"]
    if args.json:
        emit_json(found)
    elif args.quiet:
        for row in found:
            print(row["experiment_id"])
    else:
        table(
            ["id", "experiment", "runs", "running", "last run"],
            [
                (
                    row["experiment_id"],
                    row["name"],
                    row["runs"],
                    row["running"] or "",
                    ago(row["last_start_ms"]),
                )
                for row in found
            ],
            empty="no experiments yet; any mlflow script makes the first one",
        )
    return 0
