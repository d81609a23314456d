"""`yard log-policy list|add|rm`: what a line in the log of a failed attempt means for its job."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.output import add_json, emit_json, say, table
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("log-policy", help="what lines in the logs of failed jobs mean")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list them, the shipped ones last")
    add_json(listing)
    listing.set_defaults(func=list_policies)
    add = actions.add_parser("add", help="make one for the team")
    add.add_argument("pattern", help="ecc, xid, nccl, cuda-oom, disk-full, or a regex")
    add.add_argument("--label", default="", help="label of the attempt")
    add.add_argument("--exclude-node", action="store_true", help="the next attempt goes elsewhere")
    add.add_argument("--stop-retries", action="store_true", help="there is no next attempt")
    add.add_argument("--message", default="", help="shown in place of the attempt's sentence")
    add.add_argument("--queue", default="", help="for jobs of this queue alone")
    add.add_argument("--all-teams", action="store_true", help="for all teams (admin)")
    add_json(add)
    add.set_defaults(func=add_policy)
    remove = actions.add_parser("rm", help="remove one")
    remove.add_argument("policy", help="its id")
    remove.set_defaults(func=remove_policy)


def list_policies(args: argparse.Namespace) -> int:
    """Show policies."""
    found = Api.from_environment().get("/api/v1/log-policies")["policies"]
    if args.json:
        emit_json(found)
        return 0
    rows = [(one["id"], one["pattern"], one["queue"] or "all", _effect(one)) for one in found]
    table(["policy", "pattern", "queue", "what follows"], rows, empty="none")
    return 0


def _effect(one: dict[str, Any]) -> str:
    words = [f"label {one['label']}"] if one["label"] else []
    words += ["another node"] if one["exclude_node"] else []
    words += ["no further attempt"] if one["stop_retries"] else []
    words += [f"says: {one['message']}"] if one["message"] else []
    return ", ".join(words)


def add_policy(args: argparse.Namespace) -> int:
    """Make a policy."""
    body = {
        "pattern": args.pattern,
        "label": args.label,
        "exclude_node": args.exclude_node,
        "stop_retries": args.stop_retries,
        "message": args.message,
        "queue": args.queue,
        "all_teams": args.all_teams,
    }
    made = Api.from_environment().post("/api/v1/log-policies", body)
    if args.json:
        emit_json(made)
    else:
        print(made["id"])
        say(f"from now on: {_effect(made)}")
    return 0


def remove_policy(args: argparse.Namespace) -> int:
    """Remove a policy."""
    Api.from_environment().call("DELETE", f"/api/v1/log-policies/{args.policy}")
    say(f"{args.policy} is removed")
    return 0
