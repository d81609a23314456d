"""`yard explain-policy`: what the settings in force promise each team, in words."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any
from urllib.parse import urlencode

from trackyard.cli.output import add_json, emit_json
from trackyard.client.api import Api

_WIDTH = 96


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "explain-policy",
        help="say what the queue's settings promise",
        description="Say in words what the settings in force promise a team: who goes first, how"
        " long one waits, who may stop whom, what a quota means, which classes one may use.",
    )
    parser.add_argument("--queue", help="this queue alone (default: all)")
    parser.add_argument("--team", help="this team alone (default: yours; for admins, all)")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the promises."""
    asked = {key: value for key in ("queue", "team") if (value := getattr(args, key))}
    query = f"?{urlencode(asked)}" if asked else ""
    found = Api.from_environment().get(f"/api/v1/policy{query}")
    if args.json:
        emit_json(found)
        return 0
    print(f"policy {found['policy']}")
    for one in found["promises"]:
        print()
        print("\n".join(lines(one)))
    return 0


def lines(one: dict[str, Any]) -> list[str]:
    """Say what one team is promised in one queue."""
    found = [f"team {one['team']}, queue {one['queue']}"]
    for topic in one["topics"]:
        found.append(f"  {topic['topic']}")
        for sentence in topic["sentences"]:
            found += textwrap.wrap(
                sentence, _WIDTH, initial_indent="    - ", subsequent_indent="      "
            )
    return found
