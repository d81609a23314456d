"""`yard requeue JOB`: queue a job again, with changes if wished.

An ended job starts anew from its last checkpoint; a running one saves and goes back into the
line; a waiting one is only changed.
"""

from __future__ import annotations

import argparse

from trackyard.cli import amounts
from trackyard.cli.jobs.acting import act, add_jobs, tell
from trackyard.cli.submit.wish import PRIORITIES
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "requeue",
        help="queue a job again, with changes if wished",
        description="Queue an ended job again from its last checkpoint, have a running one save"
        " and go back into the line, or change a waiting one.",
    )
    add_jobs(parser)
    parser.add_argument("--gpus", metavar="N", help="GPUs on each node from now on")
    parser.add_argument("--nodes", metavar="N", help="nodes from now on")
    parser.add_argument("--time", metavar="T", help="time limit from now on")
    parser.add_argument("--priority", choices=PRIORITIES, metavar="CLASS", help="priority class")
    parser.add_argument("--queue", help="move it to this queue")
    parser.add_argument(
        "--anywhere", action="store_true", help="forget on which nodes it failed before"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Queue the jobs again."""
    body: dict[str, object] = {}
    if args.gpus is not None:
        body["gpus"] = amounts.number(args.gpus, what="--gpus")
    if args.nodes is not None:
        body["nodes"] = amounts.whole(args.nodes, what="--nodes")
    if args.time is not None:
        body["time_limit_seconds"] = amounts.seconds(args.time, what="--time")
    if args.priority:
        body["priority"] = args.priority
    if args.queue:
        body["queue"] = args.queue
    if args.anywhere:
        body["anywhere"] = True
    return tell(args, act(Api.from_environment(), "requeue", args.job, body))
