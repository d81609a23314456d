"""Ray's job endpoints: what `ray job submit|status|logs|list|stop|delete` and JobSubmissionClient
ask for, with Ray's own address or under `/ray`. Answers come from our own queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from trackyard.core.errors import InvalidInput, NotFound, TooBusy, YardError
from trackyard.queue.submit.packages import RAY_LIMIT_BYTES, PackageRow
from trackyard.rayjobs import records
from trackyard.rayjobs.service import RayJobsService
from trackyard.rayjobs.specification import RayBody, package_format, package_name
from trackyard.rayjobs.views import MARK
from trackyard.server.app import taken_over
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.http.sockets import NORMAL, POLICY, RESTART, TextSocket
from trackyard.server.http.uploads import whole_body
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import Tx

#: Where Ray's clients look: at the address itself, or below it.
PREFIXES = ("", "/ray")
#: The number by which Ray's clients know how jobs are spoken of; unchanged from 2.42 to 2.60.
API_VERSION = "4"
#: Ray's words for jobs that are over.
FINAL = ("SUCCEEDED", "FAILED", "STOPPED")


class RayRoutes:
    """Handlers of Ray's job protocol."""

    def __init__(self, services: Services) -> None:
        self._jobs = services.jobs
        self._database = services.database
        self._door = RayJobsService(
            services.database, services.jobs, on_ray=services.settings.engine.startswith("ray")
        )

    async def version(self, request: Request) -> Response:
        """GET /api/version: every command of a Ray client begins with it."""
        return JSONResponse(
            {
                "version": API_VERSION,
                "ray_version": await self._door.version(),
                "ray_commit": "",
                "session_name": "trackyard",
            }
        )

    # -- packages ---------------------------------------------------------------------------

    async def has_package(self, request: Request) -> Response:
        """GET /api/packages/{protocol}/{name}: 200 if the team has it, 404 if not."""
        name = _package(request)
        found = await self._database.peek(
            lambda reader: records.named_package(reader, request.principal, name)
        )
        if found is None:
            raise NotFound(f"Package gcs://{name} does not exist")
        return Response(content_type="text/plain; charset=utf-8")

    async def put_package(self, request: Request) -> Response:
        """PUT /api/packages/{protocol}/{name}: kept under the digest of its bytes."""
        name = _package(request)

        def note(tx: Tx, row: PackageRow) -> None:
            records.note_package(tx, request.principal, name, row.digest)

        await self._jobs.packages.take(
            request.principal,
            whole_body(request),
            length=request.content_length(),
            format_=package_format(name),
            limit=RAY_LIMIT_BYTES,
            also=note,
        )
        return Response(content_type="text/plain; charset=utf-8")

    # -- jobs -------------------------------------------------------------------------------

    async def submit(self, request: Request) -> Response:
        """POST /api/jobs/: queue a job."""
        name = await self._door.submit(request.principal, await decode(request, RayBody))
        return JSONResponse({"job_id": name, "submission_id": name})

    async def list(self, request: Request) -> Response:
        """GET /api/jobs/: the team's jobs."""
        return JSONResponse(await self._door.listing(request.principal))

    async def show(self, request: Request) -> Response:
        """GET /api/jobs/{job}; how clients that followed it end."""
        job = request.params["job"]
        found = await self._door.show(request.principal, job)
        if self._door.is_stopping and found.status not in FINAL:
            self._jobs.followers.leave(job)
            raise TooBusy(_restarts(job))
        return JSONResponse(found)

    async def stop(self, request: Request) -> Response:
        """POST /api/jobs/{job}/stop: at any state, waiting ones at once."""
        await request.body()
        done = await self._door.stop(request.principal, request.params["job"])
        return JSONResponse({"stopped": done})

    async def delete(self, request: Request) -> Response:
        """DELETE /api/jobs/{job}: out of Ray's list; job, run and logs stay."""
        await self._door.delete(request.principal, request.params["job"])
        return JSONResponse({"deleted": True})

    async def logs(self, request: Request) -> Response:
        """GET /api/jobs/{job}/logs: all that it has printed."""
        text = await self._door.output(request.principal, request.params["job"])
        return JSONResponse({"logs": text})

    async def tail(self, request: Request) -> Response:
        """Follow a job's output on a WebSocket until the job is over."""
        job = request.params["job"]
        # A job that is not there is refused before the connection is taken over.
        await self._door.show(request.principal, job)
        socket = await TextSocket.accept(request)
        self._jobs.followers.enter(job)
        stayed = await socket.pump(self._told(request, job))
        is_restarting = self._door.is_stopping and not socket.is_refused
        if not stayed or not is_restarting:
            self._jobs.followers.leave(job)
        # Its client asks how the job stands next, and is told the same in words.
        code = RESTART if is_restarting else POLICY if socket.is_refused else NORMAL
        await socket.close(code if stayed else None)
        return taken_over()

    async def _told(self, request: Request, job: str) -> AsyncGenerator[str, None]:
        pieces = self._door.follow(request.principal, job)
        async with contextlib.aclosing(pieces):
            try:
                async for piece in pieces:
                    yield piece
            except YardError as fault:
                yield f"{MARK}{fault.message}.\n"
        if self._door.is_stopping:
            yield f"{MARK}{_restarts(job)}\n"


def _restarts(job: str) -> str:
    return f"The server restarts; the job goes on. Look again with: ray job logs --follow {job}"


def _package(request: Request) -> str:
    if request.params["protocol"] != "gcs":
        raise InvalidInput(f"packages are kept as gcs, not as {request.params['protocol'][:20]!r}")
    return package_name(f"gcs://{request.params['name']}")


def routes(services: Services) -> list[Route]:
    """Return the routes of Ray's job protocol."""
    do, read, write = RayRoutes(services), Permission.READ, Permission.LOG
    table: list[tuple[str, str, Any, Permission]] = [
        ("GET", "/api/version", do.version, read),
        ("GET", "/api/packages/{protocol}/{name}", do.has_package, read),
        ("PUT", "/api/packages/{protocol}/{name}", do.put_package, write),
        ("POST", "/api/jobs/", do.submit, write),
        ("GET", "/api/jobs/", do.list, read),
        ("GET", "/api/jobs/{job}", do.show, read),
        ("DELETE", "/api/jobs/{job}", do.delete, write),
        ("POST", "/api/jobs/{job}/stop", do.stop, write),
        ("GET", "/api/jobs/{job}/logs", do.logs, read),
    ]
    found = []
    for prefix in PREFIXES:
        found += [
            Route(
                method=method,
                path=prefix + path,
                handler=handler,
                permission=right,
                plain=True,
                takes=RayBody if handler == do.submit else None,
            )
            for method, path, handler, right in table
        ]
        tail = f"{prefix}/api/jobs/{{job}}/logs/tail"
        found.append(
            Route(
                method="GET",
                path=tail,
                handler=do.tail,
                permission=read,
                plain=True,
                websocket=True,
            )
        )
    return found
