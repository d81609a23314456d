"""`yard team add|list|members|set|remove`: teams and who is in them."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("team", help="add teams and manage their members")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a team")
    add.add_argument("name")
    add.set_defaults(func=add_team)
    listing = actions.add_parser("list", help="list teams")
    add_json(listing)
    listing.set_defaults(func=list_teams)
    members = actions.add_parser("members", help="list the members of your team")
    add_json(members)
    members.set_defaults(func=list_members)
    member = actions.add_parser("member", help="put a user into a team, or change the role")
    member.add_argument("team")
    member.add_argument("user")
    member.add_argument("--role", default="member", help="viewer, member, maintainer or owner")
    member.set_defaults(func=set_member)
    remove = actions.add_parser("remove", help="take a user out of a team")
    remove.add_argument("team")
    remove.add_argument("user")
    remove.set_defaults(func=remove_member)


def add_team(args: argparse.Namespace) -> int:
    """Create a team."""
    Api.from_environment().post("/api/v1/teams", {"name": args.name})
    say(f"team {args.name} is there")
    return 0


def list_teams(args: argparse.Namespace) -> int:
    """Show the teams."""
    found = Api.from_environment().get("/api/v1/teams")["teams"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["team", "members", "created"],
        [(row["name"], row["members"], ago(row["created_ms"])) for row in found],
    )
    return 0


def list_members(args: argparse.Namespace) -> int:
    """Show who is in one's team."""
    found = Api.from_environment().get("/api/v1/members")["members"]
    if args.json:
        emit_json(found)
        return 0
    table(["user", "role"], [(row["user"], row["role"]) for row in found])
    return 0


def set_member(args: argparse.Namespace) -> int:
    """Give a user a role in a team."""
    path = f"/api/v1/teams/{args.team}/members/{args.user}"
    Api.from_environment().call("PUT", path, body={"role": args.role})
    say(f"{args.user} is {args.role} in team {args.team}")
    return 0


def remove_member(args: argparse.Namespace) -> int:
    """Take a user out of a team."""
    Api.from_environment().call("DELETE", f"/api/v1/teams/{args.team}/members/{args.user}")
    say(f"{args.user} left team {args.team}")
    return 0
