"""`yard alert channel list|add|rm`: where alerts go. Part of `yard alert`."""

from __future__ import annotations

import argparse
import getpass
import sys

from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

KINDS = ("email", "slack", "teams", "webhook")


def register_channel(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of channels."""
    parser = actions.add_parser("channel", help="list, make and remove channels")
    does = parser.add_subparsers(dest="does", metavar="ACTION", required=True)
    listing = does.add_parser("list", help="list the channels that rules may name")
    add_json(listing)
    listing.set_defaults(func=list_channels)
    add = does.add_parser(
        "add",
        help="make a channel; its address is asked for or read from a pipe",
        description="Make a channel. The address of a chat service is a secret, so it is asked"
        " for or read from a pipe: echo https://… | yard alert channel add ops --kind slack",
    )
    add.add_argument("name", help="what rules call it")
    add.add_argument("--kind", choices=KINDS, required=True, help="what is at its address")
    add.add_argument("--to", metavar="ADDRESS", help="the address, where it is no secret")
    add.add_argument("--secret", metavar="FILE", help="file with the key that signs deliveries")
    add.add_argument("--all-teams", action="store_true", help="for all teams (admin)")
    add_json(add)
    add.set_defaults(func=add_channel)
    remove = does.add_parser("rm", help="remove a channel")
    remove.add_argument("name", help="its name")
    remove.set_defaults(func=remove_channel)


def list_channels(args: argparse.Namespace) -> int:
    """Show channels."""
    found = Api.from_environment().get("/api/v1/alert-channels")["channels"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["channel", "kind", "goes to", "signed", "for", "made"],
        [
            (
                one["name"],
                one["kind"],
                one["shown"],
                "yes" if one["is_signed"] else "no",
                "all teams" if one["is_all_teams"] else "the team",
                ago(one["created_ms"]),
            )
            for one in found
        ],
        empty="no channels but inboxes; `yard alert channel add NAME --kind slack` makes one",
    )
    return 0


def add_channel(args: argparse.Namespace) -> int:
    """Make a channel."""
    target = args.to
    if target is None and sys.stdin.isatty():
        target = getpass.getpass(f"address of {args.name}: ")
    elif target is None:
        target = sys.stdin.read().strip()
    if not target:
        raise SetupError("no address was given", hint="give --to, or send it through a pipe")
    secret = ""
    if args.secret:
        try:
            with open(args.secret, encoding="utf-8") as file:  # noqa: PTH123 - /dev/stdin, too
                secret = file.read().strip()
        except OSError as fault:
            raise SetupError(f"{args.secret} cannot be read: {fault.strerror}") from fault
    body = {
        "name": args.name,
        "kind": args.kind,
        "target": target,
        "secret": secret,
        "all_teams": args.all_teams,
    }
    made = Api.from_environment().post("/api/v1/alert-channels", body)
    if args.json:
        emit_json(made)
    else:
        say(f"{made['name']} is there; `yard alert test {made['name']}` tries it out")
    return 0


def remove_channel(args: argparse.Namespace) -> int:
    """Remove a channel."""
    Api.from_environment().call("DELETE", f"/api/v1/alert-channels/{args.name}")
    say(f"{args.name} is removed")
    return 0
