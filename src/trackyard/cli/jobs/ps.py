"""`yard ps`: the jobs of your team."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.jobs.jobview import ACTIVE, FINAL, draw_jobs
from trackyard.cli.jobs.listing import list_jobs
from trackyard.cli.output import say
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

STATES = (*ACTIVE, *FINAL)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "ps",
        help="list jobs",
        description="List the jobs of your team that have not ended, the newest first.",
    )
    parser.add_argument("-a", "--all", action="store_true", help="ended ones, too")
    parser.add_argument("--state", help=f"only these: {','.join(STATES)}")
    parser.add_argument("--user", help="only of this user")
    parser.add_argument("--mine", action="store_true", help="only yours")
    parser.add_argument("--queue", help="only in this queue")
    parser.add_argument("--name", help="only of this name")
    parser.add_argument("--array", help="only of this array")
    parser.add_argument("--all-teams", action="store_true", help="of every team (admins)")
    parser.add_argument("-n", "--limit", type=int, default=100, help="at most (default 100)")
    parser.add_argument("-q", "--quiet", action="store_true", help="print ids only")
    parser.add_argument("-v", "--verbose", action="store_true", help="more columns")
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List the jobs."""
    api = Api.from_environment()
    user = api.get("/api/v1/session")["user"] if args.mine else args.user
    states = _states(args)

    def fetch() -> list[dict[str, Any]]:
        found = list_jobs(
            api,
            states=states,
            limit=args.limit,
            everyone=args.all_teams,
            user=user,
            queue=args.queue,
            name=args.name,
            array=args.array,
        )
        if found["more"]:
            say(f"more jobs match; raise --limit above {args.limit}")
        jobs: list[dict[str, Any]] = found["jobs"]
        return jobs

    def draw(jobs: list[dict[str, Any]]) -> None:
        if args.quiet:
            for job in jobs:
                print(job["job_id"])
            return
        empty = "no job matches" if args.all or args.state else _NONE
        draw_jobs(jobs, is_wide=args.verbose, empty=empty)

    return present(args, fetch, draw, each=lambda jobs: [(job["job_id"], job) for job in jobs])


_NONE = "no job is queued or running; `yard ps -a` shows those that ended"


def _states(args: argparse.Namespace) -> tuple[str, ...]:
    if args.state:
        wanted = tuple(word.strip() for word in args.state.split(","))
        for word in wanted:
            if word not in STATES:
                raise SetupError(
                    f"no state is called {word!r}", hint=f"there are {', '.join(STATES)}"
                )
        return wanted
    return () if args.all else ACTIVE
