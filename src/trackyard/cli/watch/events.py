"""`yard events [-f]`: what happened, as a list or live."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from trackyard.cli.output import add_json, emit_json
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("events", help="what happened")
    parser.add_argument("--since", type=int, help="events after this id")
    parser.add_argument("--kind", help="one kind, or a family such as `run.`")
    parser.add_argument("--run", help="events of one run")
    parser.add_argument("-n", "--limit", type=int, default=50, help="at most (default 50)")
    parser.add_argument(
        "--all", action="store_true", help="of every team and the platform itself (admins)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on as events happen")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print events."""
    api = Api.from_environment()
    query: dict[str, Any] = {"limit": args.limit}
    if args.kind:
        query["kind"] = args.kind
    if args.run:
        query |= {"subject": "run", "subject_id": args.run}
    if args.all:
        query["scope"] = "all"
    if args.since is None:
        query["order"] = "newest"
    else:
        query["since"] = args.since
    page = api.get("/api/v1/events", query)
    found = sorted(page["events"], key=lambda event: event["id"])
    if args.json and not args.follow:
        emit_json(found)
        return 0
    for event in found:
        _print(event, as_json=args.json)
    if args.follow:
        last = found[-1]["id"] if found else page["next"]
        _follow(api, args, last)
    return 0


def _follow(api: Api, args: argparse.Namespace, last: int) -> None:
    for line in api.stream("/api/v1/stream", {"since": last}):
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line[6:])
        if "id" in event and _wanted(event, args):
            _print(event, as_json=args.json)


def _wanted(event: dict[str, Any], args: argparse.Namespace) -> bool:
    if args.run and event["subject_id"] != args.run:
        return False
    if not args.kind:
        return True
    kind: str = event["kind"]
    return kind.startswith(args.kind) if args.kind.endswith(".") else kind == args.kind


def _print(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(event), flush=True)
        return
    when = datetime.fromtimestamp(event["time_ms"] / 1000, UTC).astimezone()
    facts = " ".join(f"{key}={value}" for key, value in event["data"].items())
    print(
        f"{when:%Y-%m-%d %H:%M:%S}  {event['kind']:<22} {event['subject']} {event['subject_id']}"
        f"  by {event['actor']}  {facts}",
        flush=True,
    )
