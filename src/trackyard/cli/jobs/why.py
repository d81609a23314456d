"""`yard why JOB`: why a job waits, behind whom, until about when, and what would help."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.jobs.jobview import now_ms, why_text
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api

#: What of a job's page answers the question.
KEYS = ("reasons", "eta", "position", "waiting", "smaller", "waits_for", "claims")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("why", help="say why a job waits")
    parser.add_argument("job", help="job id or name")
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Say why."""
    api = Api.from_environment()

    def fetch() -> dict[str, Any]:
        page = get_job(api, args.job, with_smaller=True)
        job = {key: page["job"][key] for key in ("job_id", "name", "state", "queue", "sentence")}
        job |= {key: page["job"].get(key) for key in ("array_index", "held", "stopping")}
        return {"job": job, **{key: page.get(key) for key in KEYS}}

    return present(
        args,
        fetch,
        lambda page: print(why_text(page, now_ms())),
        done=lambda page: page["job"]["state"] != "queued",
    )
