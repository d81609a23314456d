"""`yard secret set|list|rm`: values that jobs are given by name and nobody is shown."""

from __future__ import annotations

import argparse
import getpass
import sys

from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("secret", help="store values that jobs are given by name")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    store = actions.add_parser("set", help="store a value, asked for or read from a pipe")
    store.add_argument("name", help="its name, and that of the variable jobs find it in")
    store.set_defaults(func=set_secret)
    listing = actions.add_parser("list", help="list the names of the team's secrets")
    add_json(listing)
    listing.set_defaults(func=list_secrets)
    remove = actions.add_parser("rm", help="remove a secret")
    remove.add_argument("name", help="its name")
    remove.set_defaults(func=remove_secret)


def set_secret(args: argparse.Namespace) -> int:
    """Store a value that is in no shell history and on no command line."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {args.name}: ")
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise SetupError("no value was given", hint=f"yard secret set {args.name} < FILE")
    Api.from_environment().call("PUT", f"/api/v1/secrets/{args.name}", body={"value": value})
    say(f"{args.name} is stored; `yard submit --secret {args.name}` hands it to a job")
    return 0


def list_secrets(args: argparse.Namespace) -> int:
    """Show the names."""
    found = Api.from_environment().get("/api/v1/secrets")["secrets"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["name", "set", "by"],
        [(row["name"], ago(row["updated_ms"]), row["set_by"]) for row in found],
        empty="no secrets; `yard secret set NAME` stores one",
    )
    return 0


def remove_secret(args: argparse.Namespace) -> int:
    """Remove a secret."""
    Api.from_environment().call("DELETE", f"/api/v1/secrets/{args.name}")
    say(f"{args.name} is removed; jobs that run keep what they were given")
    return 0
