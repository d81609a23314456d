"""`yard undrain NODE`: let a node take work again."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("undrain", help="let a node take work again")
    parser.add_argument("node", help="node id, as `yard nodes` shows it")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Return the node to service."""
    row = Api.from_environment().post(f"/api/v1/nodes/{args.node}/undrain")
    if args.json:
        emit_json(row)
        return 0
    say(f"{row['node_id']} is {row['state']}")
    return 0
