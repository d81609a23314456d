"""`yard register RUN PATH MODEL`: make a run's artifact the next version of a model."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, emit_json
from trackyard.client.api import Api, ApiFault


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("register", help="register a run's model")
    parser.add_argument("run", help="run id")
    parser.add_argument("path", help="the model's folder among the run's artifacts")
    parser.add_argument("model", help="name of the model; it is made if there is none")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Make the model where there is none, then its next version."""
    api = Api.from_environment()
    try:
        api.mlflow("POST", "registered-models/create", {"name": args.model})
    except ApiFault as fault:
        if fault.code != "RESOURCE_ALREADY_EXISTS":
            raise
    source = f"runs:/{args.run}/{args.path}"
    body = {"name": args.model, "source": source, "run_id": args.run}
    made = api.mlflow("POST", "model-versions/create", body)["model_version"]
    if args.json:
        emit_json(made)
    else:
        print(f"{made['name']} version {made['version']}")
    return 0
