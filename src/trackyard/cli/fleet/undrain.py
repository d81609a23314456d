"""`yard undrain NODE`: let a node take work again, whatever kept work off it."""

from __future__ import annotations

import argparse
from urllib.parse import quote

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
    row = Api.from_environment().post(f"/api/v1/nodes/{quote(args.node, safe='')}/undrain")
    if args.json:
        emit_json(row)
        return 0
    say(f"{row['node_id']} is {row['state']}")
    failing = [check["name"] for check in row["checks"] if check["verdict"] == "fail"]
    if failing:
        say(
            f"{', '.join(failing)} failed at the last look: what was counted so far is accepted,"
            " and it is quarantined again if that goes on"
        )
    return 0
