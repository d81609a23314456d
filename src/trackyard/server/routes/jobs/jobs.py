"""Jobs over HTTP: submit, list, show, why, logs, and what can be done to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.control.forecast.preview import JobPreview
from trackyard.control.listing import ListQuery
from trackyard.core.errors import Denied, InvalidInput
from trackyard.core.ids import JOB_ID, JOB_NAME, QUEUE_NAME, USER_NAME
from trackyard.queue.records import STATES, AttemptRow
from trackyard.queue.requeue import Requeue
from trackyard.queue.specification import JobRequest
from trackyard.queue.submit.packages import LIMIT_BYTES
from trackyard.queue.views import (
    EtaView,
    JobDetail,
    JobList,
    JobView,
    ReasonView,
    SmallerRequestView,
    outline,
)
from trackyard.server.http.live import LiveResponse
from trackyard.server.http.messages import JSONResponse, Request, Response, StreamResponse
from trackyard.server.http.uploads import whole_body
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

MAX_JOBS = 20_000
#: States whose jobs every team may see the outline of.
#: A page of what ended: when its last job ended, and that job's number.
_END_CURSOR = re.compile(r"(\d{1,15})-(\d{1,15})")
_LIVE = {"queued", "starting", "running"}
LOG_BYTES = 1024 * 1024
_FILTERS = {
    "queue": ("queue", QUEUE_NAME),
    "user": ("user_name", USER_NAME),
    "name": ("name", JOB_NAME),
    "array": ("array_id", JOB_ID),
}


#: Bytes of a submission: the command, its environment and a diff, each within its own limit.
SUBMISSION_LIMIT = 4 * 1024 * 1024


class SubmitReply(msgspec.Struct):
    """What was queued, and the answer that came before it."""

    #: ids of the jobs made; empty for a dry run. An array has one per index
    job_ids: list[str]
    #: the array's own id, empty for a single job
    array_id: str
    jobs: list[JobView]
    answer: JobPreview
    dry_run: bool
    repeated: bool


class Why(msgspec.Struct):
    """Why a job is where it is, in one sentence and with the facts behind it."""

    job_id: str
    name: str
    state: str
    sentence: str
    reasons: list[ReasonView]
    position: int | None
    waiting: int
    eta: EtaView | None
    #: what would help, as sentences
    unblock: list[str]
    #: lesser requests that would start now, the largest first
    smaller: list[SmallerRequestView]


class StopJobs(msgspec.Struct, forbid_unknown_fields=True):
    """How to stop."""

    #: seconds to save; null for the job's own
    grace_seconds: float | None = None


class JobsReply(msgspec.Struct):
    """The jobs an action was about, as they stand now."""

    jobs: list[JobView]


class LogPage(msgspec.Struct):
    """A stretch of a log as text."""

    job_id: str
    attempt: int
    rank: int
    offset: int
    next_offset: int
    #: whether the attempt is over and nothing follows
    complete: bool
    text: str


class PackageReply(msgspec.Struct):
    """A package that is here."""

    digest: str
    size_bytes: int
    #: whether this upload brought it
    created: bool


class JobRoutes:
    """Handlers of jobs."""

    def __init__(self, services: Services) -> None:
        self._jobs = services.jobs
        self._alerts = services.alerts

    async def submit(self, request: Request) -> Response:
        """POST /api/v1/jobs: submit a job, or ask with dry_run what would become of it."""
        wish = await decode(request, JobRequest)
        if wish.alerts:
            await self._alerts.check_texts(request.principal, wish.alerts)
        done = await self._jobs.submit(request.principal, wish)
        return JSONResponse(
            SubmitReply(
                job_ids=[job.job_id for job in done.jobs],
                array_id=done.jobs[0].array_id if done.jobs else "",
                jobs=done.jobs,
                answer=done.answer,
                dry_run=wish.dry_run,
                repeated=done.repeated,
            )
        )

    async def list(self, request: Request) -> Response:
        """GET /api/v1/jobs: newest first, or the line in order of start."""
        wish = _list_wish(request)
        found = await self._jobs.listing(wish)
        if wish.team_id is None and not request.principal.is_admin:
            own = request.principal.team
            found.jobs = [job if job.team == own else outline(job) for job in found.jobs]
        return JSONResponse(found)

    async def show(self, request: Request) -> Response:
        """GET /api/v1/jobs/{job}: everything about a job; the id may be its name."""
        detail = await self._jobs.detail(request.principal, request.params["job"])
        if request.arg("smaller") in ("1", "true"):
            detail.smaller = await self._jobs.smaller(detail.job.job_id)
        return JSONResponse(detail)

    async def why(self, request: Request) -> Response:
        """GET /api/v1/jobs/{job}/why: why it waits, behind whom, until about when."""
        detail = await self._jobs.detail(request.principal, request.params["job"])
        job = detail.job
        sentence = _sentence(detail)
        return JSONResponse(
            Why(
                job_id=job.job_id,
                name=job.name,
                state=job.state,
                sentence=sentence,
                reasons=detail.reasons,
                position=detail.position,
                waiting=detail.waiting,
                eta=detail.eta,
                unblock=list(dict.fromkeys(reason.remedy + "." for reason in detail.reasons)),
                smaller=await self._jobs.smaller(job.job_id),
            )
        )

    async def stop(self, request: Request) -> Response:
        """POST /api/v1/jobs/{job}/stop: a job or an array, at any state."""
        wish = await decode(request, StopJobs)
        if wish.grace_seconds is not None and not 0 <= wish.grace_seconds <= 86_400:
            raise InvalidInput("grace_seconds must lie between 0 and a day")
        found = await self._jobs.stop_jobs(
            request.principal, request.params["job"], wish.grace_seconds
        )
        return JSONResponse(JobsReply(found))

    async def requeue(self, request: Request) -> Response:
        """POST /api/v1/jobs/{job}/requeue: again, with changes if any are given."""
        wish = await decode(request, Requeue)
        found = await self._jobs.requeue_jobs(request.principal, request.params["job"], wish)
        return JSONResponse(JobsReply(found))

    async def hold(self, request: Request) -> Response:
        """POST /api/v1/jobs/{job}/hold: keep it from starting."""
        found = await self._jobs.hold_jobs(request.principal, request.params["job"])
        return JSONResponse(JobsReply(found))

    async def release(self, request: Request) -> Response:
        """POST /api/v1/jobs/{job}/release: let it start again."""
        found = await self._jobs.release_jobs(request.principal, request.params["job"])
        return JSONResponse(JobsReply(found))

    # -- logs -------------------------------------------------------------------------------

    async def logs(self, request: Request) -> Response:
        """GET /api/v1/jobs/{job}/logs: bytes as they were printed, or JSON with format=json."""
        for name in ("filename", "glob"):
            if request.arg(name) is not None:
                raise InvalidInput(f"{name} is not taken: a log is named by attempt and rank")
        wanted = request.arg("attempt")
        job, attempt = await self._jobs.log_source(
            request.principal,
            request.params["job"],
            None if wanted is None else request.number("attempt", 0),
        )
        rank, offset = request.number("rank", 0), request.number("offset", 0)
        as_json = request.arg("format") == "json"
        if attempt is None:
            page = LogPage(job.job_id, 0, rank, 0, 0, False, "")
            return JSONResponse(page) if as_json else _plain(b"", 0, 0)
        end = await self._jobs.log_end(attempt, rank)
        if request.arg("tail") is not None:
            lines = request.number("tail", 0)
            offset = await self._jobs.tail(attempt, rank, lines) if lines else end
        if request.arg("follow") in ("1", "true"):
            return LiveResponse(
                self._jobs.follow(attempt, rank, offset),
                headers=[("content-type", "text/plain; charset=utf-8"), *_place(attempt, offset)],
            )
        limit = min(request.number("limit", LOG_BYTES), LOG_BYTES)
        data = await self._jobs.read_log(attempt, rank, offset, limit)
        after = offset + len(data)
        if not as_json:
            return _plain(data, attempt.number, after)
        return JSONResponse(
            LogPage(
                job.job_id,
                attempt.number,
                rank,
                offset,
                after,
                attempt.is_over and after >= end,
                data.decode("utf-8", "replace"),
            )
        )

    # -- packages ---------------------------------------------------------------------------

    async def put_package(self, request: Request) -> Response:
        """PUT /api/v1/packages/{digest}: a working folder as zip, tar or tar.gz."""
        row, created = await self._jobs.packages.put(
            request.principal,
            request.params["digest"],
            whole_body(request),
            length=request.content_length(),
            format_=request.arg("format") or "zip",
        )
        return JSONResponse(PackageReply(row.digest, row.size, created))

    async def post_package(self, request: Request) -> Response:
        """POST /api/v1/packages: the same, from a caller that cannot compute the digest."""
        row, created = await self._jobs.packages.take(
            request.principal,
            whole_body(request),
            length=request.content_length(),
            format_=request.arg("format") or "zip",
        )
        return JSONResponse(PackageReply(row.digest, row.size, created))

    async def get_package(self, request: Request) -> Response:
        """GET /api/v1/packages/{digest}: its bytes, for runners and their owners."""
        packages = self._jobs.packages
        row = await packages.open(request.principal, request.params["digest"])
        headers = [
            ("content-type", "application/octet-stream"),
            ("content-length", str(row.size)),
            ("content-disposition", "attachment"),
        ]
        if request.method == "HEAD":
            return Response(headers=headers)
        return StreamResponse(packages.read(row), headers=headers)


def _plain(data: bytes, attempt: int, after: int) -> Response:
    return Response(
        data,
        content_type="text/plain; charset=utf-8",
        headers=[("x-yard-attempt", str(attempt)), ("x-yard-next-offset", str(after))],
    )


def _place(attempt: AttemptRow, offset: int) -> list[tuple[str, str]]:
    return [("x-yard-attempt", str(attempt.number)), ("x-yard-offset", str(offset))]


def _sentence(detail: JobDetail) -> str:
    job = detail.job
    if job.state == "queued":
        return f"It waits: {detail.reasons[0].sentence}."
    if job.state == "starting":
        notes = detail.attempts[-1].notes if detail.attempts else []
        told = f" Its runner says: {notes[-1]}." if notes else ""
        return f"It is being started on {', '.join(job.on)}.{told}"
    if job.state == "running":
        words = "is being stopped" if job.stopping else "runs"
        later = [
            f" It waits for {one.demand}, which it asked for later as job {one.job_id}."
            for one in detail.claims
            if one.state == "waiting"
        ]
        return f"It {words} on {', '.join(job.on)}.{''.join(later)}"
    return f"It {'was stopped' if job.state == 'stopped' else job.state}. {job.sentence or ''}"


def _list_wish(request: Request) -> ListQuery:
    everyone = request.arg("all") in ("1", "true")
    states = request.query.get("state", [])
    for state in states:
        if state not in STATES:
            raise InvalidInput(f"state {state[:40]!r} is none of {', '.join(STATES)}")
    limit = request.number("limit", 100)
    if not 1 <= limit <= MAX_JOBS:
        raise InvalidInput(f"limit must be between 1 and {MAX_JOBS}")
    order, stuck = _order(request, states)
    by_position, by_end = order == "position", order == "ended"
    filters = _filters(request)
    if everyone and not request.principal.is_admin:
        _check_outline(filters, states, by_position=by_position)
    return ListQuery(
        team_id=None if everyone else request.principal.team_id,
        states=states,
        filters=filters,
        since_ms=request.number("since", 0),
        before=None if by_end else request.number("before", 0) or None,
        before_end=_end_cursor(request) if by_end else None,
        limit=limit,
        by_position=by_position,
        by_end=by_end,
        stuck=stuck,
        with_eta=request.arg("eta") in ("1", "true"),
    )


def _check_outline(filters: dict[str, str], states: Sequence[str], *, by_position: bool) -> None:
    """Insist that a list over all teams asks for no more than who holds or waits for what."""
    if by_position or (states and set(states) <= _LIVE):
        if set(filters) <= {"queue"}:
            return
        raise Denied("names, users and arrays are looked for within your team; leave `all` out")
    raise Denied(
        "of other teams' jobs those that wait, start or run are shown; ask for these states with"
        " `all`, or leave `all` out"
    )


def _filters(request: Request) -> dict[str, str]:
    filters: dict[str, str] = {}
    for name, (column, rule) in _FILTERS.items():
        value = request.arg(name)
        if value is not None:
            if not rule.match(value):
                raise InvalidInput(f"{name} {value[:80]!r} is not allowed")
            filters[column] = value
    if request.arg("mine") in ("1", "true"):
        filters["user_name"] = request.principal.name
    return filters


def _end_cursor(request: Request) -> tuple[int, int] | None:
    cursor = request.arg("before")
    if not cursor:
        return None
    found = _END_CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInput("before is not a cursor of order=ended: pass `next` as it came")
    return int(found[1]), int(found[2])


def _order(request: Request, states: Sequence[str]) -> tuple[str, bool | None]:
    order = request.arg("order") or "newest"
    if order not in ("newest", "position", "ended"):
        raise InvalidInput(f"order {order[:40]!r} is none of newest, position, ended")
    by_position = order == "position"
    if by_position and set(states) - {"queued"}:
        raise InvalidInput("order=position is for waiting jobs: leave `state` out")
    stuck = request.arg("stuck")
    if stuck is not None and (stuck not in ("0", "1") or not by_position):
        raise InvalidInput("stuck is 0 or 1, together with order=position")
    return order, None if stuck is None else stuck == "1"


_LIST_QUERY = {
    "state": f"one of {', '.join(STATES)}; may be repeated",
    "queue": "jobs of this queue",
    "user": "jobs of this user",
    "mine": "1 for the caller's own",
    "name": "jobs of this name",
    "array": "members of this array",
    "since": "submitted or ended at or after this time in ms",
    "before": "the cursor of the page before",
    "limit": f"at most {MAX_JOBS}, default 100",
    "all": "1 for all teams; of other teams' jobs only admins see more than size and times",
    "order": "newest; position: waiting jobs in order of start; ended: the last to end first",
    "stuck": "with order=position: 1 for those that start only when someone acts, 0 for the rest",
    "eta": "1 to have the foreseen start of those at the head of the line, where it is known",
}

_LOG_QUERY = {
    "attempt": "number of the attempt; the latest unless given",
    "rank": "member of the gang, default 0",
    "offset": "first byte",
    "limit": f"bytes at most, up to {LOG_BYTES}",
    "tail": "begin so many lines before the end",
    "follow": "1 to stream until the attempt is over",
    "format": "json for text with offsets; bytes otherwise",
}


def routes(services: Services) -> list[Route]:
    """Return the routes of jobs."""
    do, read, write = JobRoutes(services), Permission.READ, Permission.LOG

    def act(verb: str, handler: Any, takes: Any = None) -> Route:
        path = f"/api/v1/jobs/{{job}}/{verb}"
        return Route(
            method="POST",
            path=path,
            handler=handler,
            permission=write,
            takes=takes,
            gives=JobsReply,
        )

    return [
        Route(
            method="POST",
            path="/api/v1/jobs",
            handler=do.submit,
            permission=write,
            takes=JobRequest,
            gives=SubmitReply,
            body_limit=SUBMISSION_LIMIT,
        ),
        Route(
            method="GET",
            path="/api/v1/jobs",
            handler=do.list,
            permission=read,
            gives=JobList,
            query=_LIST_QUERY,
        ),
        Route(
            method="GET",
            path="/api/v1/jobs/{job}",
            handler=do.show,
            permission=read,
            gives=JobDetail,
            query={"smaller": "1 to be told which lesser requests would start now"},
        ),
        Route(
            method="GET", path="/api/v1/jobs/{job}/why", handler=do.why, permission=read, gives=Why
        ),
        Route(
            method="GET",
            path="/api/v1/jobs/{job}/logs",
            handler=do.logs,
            permission=read,
            gives=LogPage,
            query=_LOG_QUERY,
        ),
        act("stop", do.stop, StopJobs),
        act("requeue", do.requeue, Requeue),
        act("hold", do.hold),
        act("release", do.release),
        *_package_routes(do),
    ]


def _package_routes(do: JobRoutes) -> list[Route]:
    return [
        Route(
            method="POST",
            path="/api/v1/packages",
            handler=do.post_package,
            permission=Permission.LOG,
            gives=PackageReply,
            query={"format": f"zip (default), tar or tar.gz; at most {LIMIT_BYTES} bytes"},
        ),
        Route(
            method="PUT",
            path="/api/v1/packages/{digest}",
            handler=do.put_package,
            permission=Permission.LOG,
            gives=PackageReply,
            query={"format": f"zip (default), tar or tar.gz; at most {LIMIT_BYTES} bytes"},
        ),
        Route(
            method="GET",
            path="/api/v1/packages/{digest}",
            handler=do.get_package,
            permission=Permission.READ,
            attempts=True,
            runners=True,
        ),
    ]
