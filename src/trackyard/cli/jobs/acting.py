"""Doing one thing to several jobs: stop, requeue, hold, release. Owns the call and what is said of
it; each verb names its path and words.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from trackyard.cli.jobs.jobview import label, state_word
from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Api

#: Above so many jobs, how many are in which state is told instead of each.
MANY = 20


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Give a verb its jobs and --json."""
    parser.add_argument("job", nargs="+", help="job id, array id, or name (the newest of it)")
    add_json(parser)


def act(api: Api, verb: str, names: Sequence[str], body: dict[str, Any]) -> list[dict[str, Any]]:
    """Call `POST /api/v1/jobs/JOB/VERB` for each and return all jobs touched."""
    touched: list[dict[str, Any]] = []
    for name in names:
        answer = api.post(f"/api/v1/jobs/{quote(name, safe='')}/{verb}", body)
        touched += answer["jobs"]
    return touched


def tell(args: argparse.Namespace, jobs: Sequence[dict[str, Any]]) -> int:
    """Say how the jobs stand now."""
    if args.json:
        emit_json(list(jobs))
        return 0
    if len(jobs) > MANY:
        counts = Counter(state_word(job) for job in jobs)
        told = ", ".join(f"{number} {word}" for word, number in counts.most_common())
        say(f"{len(jobs)} jobs: {told}")
        return 0
    for job in jobs:
        sentence = job.get("sentence") if job["state"] in ("failed", "stopped") else None
        tail = f": {sentence}" if sentence else ""
        say(f"{job['job_id']} ({label(job)}) is {state_word(job)}{tail}")
    return 0
