"""From a submission to a shell: wait for the job to start, attach, and tell how it was left.

Shared by `yard idev`, `yard submit --interactive` and `yard attach`.
"""

from __future__ import annotations

import time
from typing import Any

from trackyard.cli.jobs.jobview import FINAL, label
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.jobs.waiting import ask, exit_code, wait_for_end
from trackyard.cli.output import say
from trackyard.cli.submit.attaching import Left, attach
from trackyard.client.api import Api

POLL_SECONDS = 0.5


def wait_for_start(api: Api, job_id: str) -> dict[str, Any]:
    """Return the job once it runs or has ended, telling meanwhile why it waits."""
    told = ""
    while True:
        detail = ask(lambda: get_job(api, job_id))
        job: dict[str, Any] = detail["job"]
        if job["state"] == "running" or job["state"] in FINAL:
            return job
        sentence = job["state"]
        if job["state"] == "queued" and detail.get("reasons"):
            sentence = f"queued: {detail['reasons'][0]['sentence']}"
        if sentence != told:
            told = sentence
            say(sentence)
        time.sleep(POLL_SECONDS)


def enter(api: Api, job_id: str) -> int:
    """Attach to a job once it runs; return the exit code of the command line."""
    job = wait_for_start(api, job_id)
    if job["state"] in FINAL:
        return told_end(job)
    on = ", ".join(job["on"]) or "its node"
    say(f"{job['job_id']} ({label(job)}) runs on {on}; detach with Enter ~ . and come back with")
    say(f"  yard attach {job['job_id']}")
    if attach(api, job["job_id"]) is Left.DETACHED:
        say(f"\ndetached; the shell lives on: yard attach {job['job_id']}")
        say(f"end it with: yard stop {job['job_id']}")
        return 0
    return told_end(wait_for_end(api, [job["job_id"]])[0])


def told_end(job: dict[str, Any]) -> int:
    """Say how a job ended."""
    tail = f": {job['sentence']}" if job.get("sentence") else ""
    say(f"{job['job_id']} ({label(job)}) {job['state']}{tail}")
    return exit_code([job])
