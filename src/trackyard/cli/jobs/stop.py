"""`yard stop JOB…`: stop jobs, waiting or running."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli import amounts
from trackyard.cli.jobs.acting import act, tell
from trackyard.cli.jobs.jobview import ACTIVE
from trackyard.cli.jobs.listing import list_jobs
from trackyard.cli.jobs.waiting import wait_for_end
from trackyard.cli.output import add_json, say
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "stop",
        help="stop jobs",
        description="Stop jobs. A running one gets SIGTERM and its grace to save.",
    )
    parser.add_argument("job", nargs="*", help="job id, array id, or name (the newest of it)")
    parser.add_argument(
        "--mine", action="store_true", help="all jobs of yours that have not ended"
    )
    grace = parser.add_mutually_exclusive_group()
    grace.add_argument("--grace", metavar="T", help="time to save (default: the job's own)")
    grace.add_argument("--now", action="store_true", help="no time to save")
    parser.add_argument("--wait", action="store_true", help="return when they have ended")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Stop the jobs."""
    api = Api.from_environment()
    names = [*args.job, *(_mine(api) if args.mine else [])]
    if not names and args.mine:
        say("none of your jobs is queued or running")
        return 0
    if not names:
        raise SetupError(
            "stop needs a job", hint="`yard ps` lists them; --mine takes all of yours"
        )
    body: dict[str, Any] = {}
    if args.now:
        body["grace_seconds"] = 0.0
    elif args.grace is not None:
        body["grace_seconds"] = amounts.seconds(args.grace, what="--grace")
    jobs = act(api, "stop", names, body)
    if args.wait:
        jobs = wait_for_end(api, [job["job_id"] for job in jobs])
    return tell(args, jobs)


def _mine(api: Api) -> list[str]:
    me = api.get("/api/v1/session")["user"]
    found = list_jobs(api, states=ACTIVE, user=me, limit=10_000)
    return [job["job_id"] for job in found["jobs"]]
