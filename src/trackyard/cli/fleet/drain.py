"""`yard drain NODE`: let what runs on a node end, and start nothing new there."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from trackyard.cli.amounts import seconds
from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("drain", help="start nothing new on a node")
    parser.add_argument("node", help="node id, as `yard nodes` shows it")
    parser.add_argument("--note", default="", help="why, for whoever looks")
    parser.add_argument(
        "--until",
        help="when it takes work again by itself: a length of time as 2h30m, or a local time as"
        " '2026-03-01 14:00'",
    )
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Drain the node."""
    body: dict[str, Any] = {"note": args.note}
    if args.until is not None:
        body["until_ms"] = until_ms(args.until, datetime.now(UTC))
    row = Api.from_environment().post(f"/api/v1/nodes/{quote(args.node, safe='')}/drain", body)
    if args.json:
        emit_json(row)
        return 0
    until = f" until {moment_words(row['until_ms'])}" if row["until_ms"] else ""
    running = f"; {row['job_count']} jobs there run on" if row["job_count"] else ""
    say(
        f"{row['node_id']} is {row['state']}{until}{running};"
        f" `yard undrain {row['node_id']}` undoes it"
    )
    return 0


def until_ms(text: str, now: datetime) -> int:
    """Read when a drain ends: so long from now, or a moment in this machine's zone."""
    if text.strip()[:4].isdigit() and "-" in text:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise SetupError(
                f"--until {text!r} is not a time", hint="write it as '2026-03-01 14:00' or as 2h"
            ) from None
        return round(moment.astimezone(UTC).timestamp() * 1000)
    later = now + timedelta(seconds=seconds(text, what="--until"))
    return round(later.timestamp() * 1000)


def moment_words(moment_ms: int) -> str:
    """Say a moment in this machine's zone, with its offset."""
    moment = datetime.fromtimestamp(moment_ms / 1000, tz=UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M %z")
