"""`yard user add|list|disable|enable`: the platform's users."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, emit_json, say, table
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("user", help="add, list and disable users")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a user")
    add.add_argument("name")
    add.add_argument("--team", help="put the user into this team")
    add.add_argument("--role", default="member", help="role in that team (default member)")
    add.add_argument("--admin", action="store_true", help="make a platform admin")
    add.set_defaults(func=add_user)
    listing = actions.add_parser("list", help="list users")
    add_json(listing)
    listing.set_defaults(func=list_users)
    for word, disabled in (("disable", True), ("enable", False)):
        change = actions.add_parser(word, help=f"{word} a user")
        change.add_argument("name")
        change.set_defaults(func=change_user, disabled=disabled)


def add_user(args: argparse.Namespace) -> int:
    """Create a user, in a team if one is named."""
    api = Api.from_environment()
    api.post("/api/v1/users", {"name": args.name, "is_admin": args.admin})
    if args.team:
        api.call("PUT", f"/api/v1/teams/{args.team}/members/{args.name}", body={"role": args.role})
    say(f"user {args.name} is there")
    say(f"hint: `yard token create --user {args.name}` makes a token to hand over")
    return 0


def list_users(args: argparse.Namespace) -> int:
    """Show the users."""
    found = Api.from_environment().get("/api/v1/users")["users"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["user", "teams", "admin", "state"],
        [
            (
                row["name"],
                ", ".join(f"{team}:{role}" for team, role in row["teams"].items()),
                "yes" if row["is_admin"] else "",
                "disabled" if row["disabled"] else "active",
            )
            for row in found
        ],
    )
    return 0


def change_user(args: argparse.Namespace) -> int:
    """Shut a user out or let the user in again."""
    api = Api.from_environment()
    api.call("PATCH", f"/api/v1/users/{args.name}", body={"disabled": args.disabled})
    say(f"user {args.name} is {'disabled' if args.disabled else 'active'}")
    return 0
