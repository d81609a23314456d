"""`yard teams`: teams with their share of the GPUs and what they use."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.output import table
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "teams", help="teams with their share of the GPUs", description="Yours, or all for admins."
    )
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """List the teams."""
    api = Api.from_environment()
    return present(
        args,
        lambda: api.get("/api/v1/shares")["teams"],
        draw,
        each=lambda rows: [(row["team"], row) for row in rows],
    )


def draw(rows: list[dict[str, Any]]) -> None:
    """Print teams as a table."""
    table(
        [
            "team",
            "department",
            "share",
            "quota",
            "limit",
            "lends",
            "waiting",
            "running",
            "gpus in use",
            "gpu-hours",
        ],
        [
            (
                row["team"],
                row["parent"] or None,
                f"{row['share']:g}",
                row["quota_gpus"],
                row["limit_gpus"],
                row["lendable_gpus"] or None,
                row["queued"],
                row["running"],
                row["gpus_running"],
                f"{row['used_gpu_hours']:.3f}",
            )
            for row in rows
        ],
    )
