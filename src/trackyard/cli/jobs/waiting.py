"""Waiting for jobs to end, through restarts of the server. Owns patience and the exit code that a
job's end stands for; draws nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from trackyard.cli.jobs.jobview import ACTIVE, FINAL
from trackyard.cli.jobs.listing import get_job, list_jobs
from trackyard.cli.output import say
from trackyard.client.api import Api, ApiFault, Unreachable

FIRST_SECONDS, LAST_SECONDS = 0.1, 1.0
#: How long a server may be away before waiting is given up; its jobs run on meanwhile.
AWAY_SECONDS = 300.0
OK, FAILED = 0, 1


def wait_for_end(
    api: Api, jobs: Sequence[str], *, sleep: Callable[[float], None] = time.sleep
) -> list[dict[str, Any]]:
    """Return the jobs when all of them have ended."""
    ended = []
    for job in jobs:
        pause = FIRST_SECONDS
        while True:
            found = ask(lambda job=job: get_job(api, job)["job"], sleep=sleep)  # type: ignore[misc]
            if found["state"] in FINAL:
                ended.append(found)
                break
            sleep(pause)
            pause = min(pause * 1.5, LAST_SECONDS)
    return ended


def wait_for_array(
    api: Api, array: str, *, sleep: Callable[[float], None] = time.sleep
) -> dict[str, int]:
    """Return how many jobs of an array ended how, when all have; its size does not matter."""
    pause = FIRST_SECONDS
    while True:
        found = ask(lambda: list_jobs(api, array=array, limit=1), sleep=sleep)
        counts: dict[str, int] = found["counts"]
        if not any(counts.get(state) for state in ACTIVE):
            return counts
        sleep(pause)
        pause = min(pause * 1.5, LAST_SECONDS)


def ask(
    call: Callable[[], Any],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Any:
    """Call the server, and again while it is away or too busy."""
    away_since: float | None = None
    while True:
        try:
            return call()
        except (Unreachable, ApiFault) as fault:
            if isinstance(fault, ApiFault) and fault.status not in (429, 502, 503, 504):
                raise
            if away_since is None:
                away_since = clock()
                say(f"{fault}; the job is not touched by that, trying again")
            elif clock() - away_since > AWAY_SECONDS:
                raise
            sleep(LAST_SECONDS)


def exit_code(jobs: Sequence[dict[str, Any]]) -> int:
    """Return 0 if every job succeeded, else 1."""
    return OK if all(job["state"] == "succeeded" for job in jobs) else FAILED
