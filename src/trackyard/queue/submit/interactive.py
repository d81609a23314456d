"""Interactive jobs: what a submission may ask for, and who may reach into a running one.

Owns those rules and the words for what is not possible. Knows neither tunnels nor HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass

from trackyard.access.principal import Principal, Role
from trackyard.core.errors import Conflict, Denied, InvalidInput
from trackyard.core.ids import JOB_NAME
from trackyard.queue.records import JobRow, find_job, latest_attempt, load_spec
from trackyard.queue.specification import InteractiveOptions, JobRequest
from trackyard.store.database import ReadConnection

KINDS = ("terminal", "app", "notebook")
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppAccess:
    """The way into a running job."""

    job_id: str
    attempt_id: str
    #: `terminal`, `app` or `notebook`
    kind: str
    name: str
    user: str


def check_interactive(wish: JobRequest) -> InteractiveOptions | None:
    """Check what a submission asks for."""
    asked = wish.interactive
    if asked is None:
        return None
    if asked.kind not in KINDS:
        raise InvalidInput(f"interactive kind {asked.kind[:40]!r} is none of {', '.join(KINDS)}")
    if wish.array:
        raise InvalidInput("an interactive job is no array: submit one, or drop the array")
    if wish.nodes > 1 and wish.launcher != "batch":
        raise InvalidInput(
            "an interactive job on several nodes runs on the first of them and starts the rest"
            " by itself: use the launcher `batch`"
        )
    if asked.idle_seconds is not None and not 10 <= asked.idle_seconds <= 30 * DAY:
        raise InvalidInput("idle_seconds must lie between ten seconds and 30 days")
    if asked.folder and not JOB_NAME.match(asked.folder):
        raise InvalidInput(
            f"folder {asked.folder[:80]!r} is not allowed: 1-128 letters, digits and . _ -"
        )
    if asked.folder and wish.package:
        raise InvalidInput(
            "a job with a lasting folder takes no package: put files into the folder instead"
        )
    return asked


def folder_of(job: JobRow, team: str, asked: InteractiveOptions) -> str:
    """Return where a job's lasting folder lies below its engine's: per team, user and name."""
    if not asked.folder:
        return ""
    user = f"user-{job.user_id}" if job.user_id is not None else "nobody"
    return f"{team}/{user}/{asked.folder}"


def find_door(reader: ReadConnection, principal: Principal, text: str) -> AppAccess:
    """Return the way into a job that runs; only its owner and the team's owners have one."""
    job = find_job(reader, principal, text)
    check_owner(principal, job)
    asked = load_spec(reader, job.spec_id).interactive
    if asked is None:
        raise Conflict(
            f"job {job.job_id} was not submitted as interactive, so it has no terminal:"
            " `yard idev`, `yard submit --interactive` and `yard notebook` make jobs that have"
        )
    attempt = latest_attempt(reader, job)
    if attempt is None or job.shown not in ("starting", "running"):
        more = "attach once it runs" if job.shown == "queued" else "it has nothing to attach to"
        raise Conflict(f"job {job.job_id} is {job.shown}: {more}", details={"state": job.shown})
    return AppAccess(
        job_id=job.job_id,
        attempt_id=attempt.attempt_id,
        kind=asked.kind,
        name=job.name,
        user=job.user_name,
    )


def check_owner(principal: Principal, job: JobRow) -> None:
    """Refuse who may not type into a job: it acts as its owner, with the owner's secrets."""
    is_own = principal.user_id is not None and job.user_id == principal.user_id
    if not (is_own and principal.may(Role.member)) and not principal.may(Role.owner):
        raise Denied(
            f"job {job.job_id} is {job.user_name}'s: only {job.user_name} and the owners of team"
            f" {principal.team} may reach into it"
        )


def facts_for_runner(asked: InteractiveOptions, job_id: str, prefix: str) -> dict[str, object]:
    """Return what the runner is told."""
    return {
        "kind": "terminal" if asked.kind == "terminal" else "app",
        "is_notebook": asked.kind == "notebook",
        "path": f"{prefix}/apps/{job_id}/",
        "idle_seconds": asked.idle_seconds,
    }
