"""`yard quarantine NODE --why TEXT`: take a node out of service until someone gives it back."""

from __future__ import annotations

import argparse
from urllib.parse import quote

from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("quarantine", help="take a sick node out of service")
    parser.add_argument("node", help="node id, as `yard nodes` shows it")
    parser.add_argument("--why", required=True, help="what is wrong with it, for whoever looks")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Quarantine the node."""
    path = f"/api/v1/nodes/{quote(args.node, safe='')}/quarantine"
    row = Api.from_environment().post(path, {"why": args.why})
    if args.json:
        emit_json(row)
        return 0
    running = f"; {row['job_count']} jobs there run on" if row["job_count"] else ""
    say(
        f"{row['node_id']} is quarantined{running}; no health check lifts this,"
        f" `yard undrain {row['node_id']}` does"
    )
    return 0
