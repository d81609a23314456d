"""`yard idev [flags] [-- SHELL]`: a shell on a node that the queue gives."""

from __future__ import annotations

import argparse
import uuid
from typing import Any

from trackyard.cli.amounts import seconds
from trackyard.cli.output import say
from trackyard.cli.submit import sending, wish
from trackyard.cli.submit.interacting import enter
from trackyard.client.api import Api

SHELL = ["bash", "-i"]
TIME_SECONDS = 2 * 3600.0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "idev",
        help="a shell on a node, in this terminal",
        usage="yard idev [flags] [-- SHELL [ARGUMENT …]]",
        description="Queue a shell, wait for its node and attach this terminal to it. This folder"
        " travels along, as with `yard submit`. It ends with `exit`, or two hours later unless"
        " --time says otherwise.",
    )
    wish.add_flags(parser)
    parser.add_argument("--idle", metavar="T", help="end it when nobody typed for so long")
    parser.add_argument("--detach", action="store_true", help="queue it and print its id")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="another shell, after --")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Submit, wait, attach."""
    if not args.command and not args.file:
        args.command = list(SHELL)
    asked = wish.collect(args)
    fields = {"time_limit_seconds": TIME_SECONDS, **asked.fields}
    fields["interactive"] = terminal(args.idle)
    if fields.get("nodes", 1) > 1:
        fields["launcher"] = "batch"
    api = Api.from_environment()
    made = sending.build(asked)
    if made is not None:
        sending.send(api, made)
        fields |= {"package": made.digest, "source": sending.source_fields(asked.folder)}
    answer = api.post("/api/v1/jobs", {**fields, "key": uuid.uuid4().hex})
    job_id = answer["jobs"][0]["job_id"]
    if args.detach:
        print(job_id, flush=True)
        say(f"attach with: yard attach {job_id}")
        return 0
    return enter(api, job_id)


def terminal(idle: str | None) -> dict[str, Any]:
    """Return what a submission says of a terminal."""
    found: dict[str, Any] = {"kind": "terminal"}
    if idle is not None:
        found["idle_seconds"] = seconds(idle, what="--idle")
    return found
