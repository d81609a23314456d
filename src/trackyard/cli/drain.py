"""`yard drain NODE`: let what runs on a node end, and start nothing new there."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("drain", help="start nothing new on a node")
    parser.add_argument("node", help="node id, as `yard nodes` shows it")
    parser.add_argument("--note", default="", help="why, for whoever looks")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Drain the node."""
    row = Api.from_environment().post(f"/api/v1/nodes/{args.node}/drain", {"note": args.note})
    if args.json:
        emit_json(row)
        return 0
    running = f"; {row['job_count']} jobs there run on" if row["job_count"] else ""
    say(f"{row['node_id']} is {row['state']}{running}; `yard undrain {row['node_id']}` undoes it")
    return 0
