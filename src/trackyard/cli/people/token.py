"""`yard token create|list|revoke`: access tokens."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("token", help="create, list and revoke access tokens")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="issue a token; it is shown once")
    create.add_argument("--label", default="", help="what it is for")
    create.add_argument("--role", default="member", help="viewer, member, maintainer or owner")
    create.add_argument("--user", help="for another user of the team (owners)")
    create.add_argument("--team", help="for another team (admins)")
    create.add_argument("--days", type=int, default=90, help="life in days; 0 for no end")
    add_json(create)
    create.set_defaults(func=create_token)
    listing = actions.add_parser("list", help="list tokens")
    add_json(listing)
    listing.set_defaults(func=list_tokens)
    revoke = actions.add_parser("revoke", help="end a token at once")
    revoke.add_argument("id", help="the token's id, as `yard token list` shows it")
    revoke.set_defaults(func=revoke_token)


def create_token(args: argparse.Namespace) -> int:
    """Issue a token and print it."""
    wish = {
        "label": args.label,
        "role": args.role,
        "user": args.user,
        "team": args.team,
        "days": args.days or None,
    }
    made = Api.from_environment().post("/api/v1/tokens", wish)
    if args.json:
        emit_json(made)
        return 0
    print(made["token"])
    say(f"token {made['id']} acts for {made['user']} in team {made['team']} as {made['role']}")
    say(f"it ends {_end(made)}")
    return 0


def _end(token: dict[str, Any]) -> str:
    """Say when a token ends."""
    ends = token["expires_ms"]
    when = "never by itself" if ends is None else f"on {_day(ends)}"
    parent = token.get("parent_id")
    return f"{when}, and with token {parent} at the latest" if parent else when


def _day(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def list_tokens(args: argparse.Namespace) -> int:
    """Show the tokens one may see."""
    found = Api.from_environment().get("/api/v1/tokens")["tokens"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["id", "user", "team", "role", "label", "created", "used", "state"],
        [
            (
                row["id"],
                row["user"],
                row["team"],
                row["role"],
                row["label"],
                ago(row["created_ms"]),
                ago(row["used_ms"]),
                "revoked" if row["revoked_ms"] else "live",
            )
            for row in found
        ],
    )
    return 0


def revoke_token(args: argparse.Namespace) -> int:
    """End a token."""
    Api.from_environment().call("DELETE", f"/api/v1/tokens/{args.id}")
    say(f"token {args.id} is revoked")
    return 0
