"""`yard release JOB…`: let held jobs start again."""

from __future__ import annotations

import argparse

from trackyard.cli.jobs.acting import act, add_jobs, tell
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("release", help="let held jobs start again")
    add_jobs(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Release the jobs."""
    return tell(args, act(Api.from_environment(), "release", args.job, {}))
