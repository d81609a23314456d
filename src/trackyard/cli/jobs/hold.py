"""`yard hold JOB…`: keep waiting jobs from starting."""

from __future__ import annotations

import argparse

from trackyard.cli.jobs.acting import act, add_jobs, tell
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("hold", help="keep waiting jobs from starting")
    add_jobs(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Hold the jobs."""
    return tell(args, act(Api.from_environment(), "hold", args.job, {}))
