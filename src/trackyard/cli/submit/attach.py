"""`yard attach JOB`: back to the shell of an interactive job."""

from __future__ import annotations

import argparse

from trackyard.cli.submit.interacting import enter
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "attach",
        help="back to the shell of an interactive job",
        description="Attach this terminal to a job of `yard idev` or `yard submit --interactive`."
        " Its recent output is shown again. Detach with Enter ~ . and it lives on.",
    )
    parser.add_argument("job", help="job id, or name (the newest of it)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Attach."""
    return enter(Api.from_environment(), args.job)
