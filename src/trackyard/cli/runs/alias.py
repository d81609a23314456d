"""`yard alias MODEL ALIAS VERSION`: point an alias at a version, which promotes it."""

from __future__ import annotations

import argparse

from trackyard.cli.output import say
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("alias", help="point a model's alias at a version")
    parser.add_argument("model", help="name of the model")
    parser.add_argument("alias", help="such as champion")
    parser.add_argument("version", nargs="?", help="the version it is to point at")
    parser.add_argument("--remove", action="store_true", help="remove the alias")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Set or remove the alias."""
    if args.remove == (args.version is not None):
        raise SetupError("give a version, or --remove", hint="yard alias food11 champion 3")
    body = {"name": args.model, "alias": args.alias.removeprefix("@")}
    api = Api.from_environment()
    if args.remove:
        api.mlflow("DELETE", "registered-models/alias", body)
        say(f"removed @{body['alias']} of {args.model}")
    else:
        api.mlflow("POST", "registered-models/alias", {**body, "version": args.version})
        say(f"@{body['alias']} of {args.model} points at version {args.version}")
    return 0
