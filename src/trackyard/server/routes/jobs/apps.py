"""Apps of jobs over HTTP: opening one, entering it with a ticket, and all that is below it."""

from __future__ import annotations

import html
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.access.app_tokens import (
    COOKIE_MS,
    PROGRAM_MS,
    TICKET_MS,
    issue_app_token,
    trade_app_ticket,
)
from trackyard.core.errors import Conflict, Denied, TooBusy
from trackyard.queue.submit.interactive import AppAccess, find_door
from trackyard.server.access import APP_COOKIE
from trackyard.server.app import taken_over
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.server.tunnels.apps import carry, carry_socket
from trackyard.server.wire.heads import Lines

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: An app's answer to a program, on the server's own host: were a browser to show it, it would be
#: nobody's page.
SANDBOX: Lines = [("content-security-policy", "sandbox"), ("x-content-type-options", "nosniff")]
NO_HOST = (
    "this server has no host of its own for pages of apps, which must not share the origin of its"
    " own pages: set apps_host in the config file to a second name of this server, as"
    ' "*.apps.example.org"; docs/notebooks.md says how'
)

#: Seconds after which the page of an app that is still starting asks again.
AGAIN_SECONDS = 2
WAITING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Starting…</title>
<meta http-equiv="refresh" content="{seconds}"></head>
<body><h1>The app does not answer yet</h1>
<p>It may still be starting. This page tries again every {seconds} seconds.</p>
<p>{words}</p></body></html>
"""


class AppRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How an app is to be opened."""

    #: a token in the address, for a program such as VS Code, in place of a browser's visit
    program: bool = False
    #: where in the app to begin
    path: Annotated[str, Meta(max_length=1000)] = ""


class AppReply(msgspec.Struct):
    """Where the app is; the address is good once, or for a program until it ends."""

    job_id: str
    kind: str
    url: str
    expires_ms: int
    #: whether its runner has opened the way to it
    ready: bool
    #: when it will be stopped because nobody uses it, if that is near
    idle_stop_ms: int | None = None


class AppState(msgspec.Struct):
    """How a job's terminal or app is reached now."""

    job_id: str
    kind: str
    ready: bool
    idle_stop_ms: int | None


class AppRoutes:
    """Handlers of apps."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._database = services.database
        self._tunnels = services.tunnels
        self._gate = services.gate

    async def state(self, request: Request) -> Response:
        """GET /api/v1/jobs/{job}/app: whether a job's terminal or app can be reached now."""
        door = await self._door(request)
        ready, stop = self._look(door)
        return JSONResponse(AppState(door.job_id, door.kind, ready, stop))

    async def open(self, request: Request) -> Response:
        """POST /api/v1/jobs/{job}/app: an address that opens a job's app, once."""
        wish = await decode(request, AppRequest)
        door = await self._door(request)
        if door.kind == "terminal":
            raise Conflict(f"job {door.job_id} has a terminal and no app: `yard attach` opens it")
        life = PROGRAM_MS if wish.program else TICKET_MS
        token, expires = await self._database.write(
            lambda tx: issue_app_token(
                tx, request.principal, door.job_id, life_ms=life, is_ticket=not wish.program
            )
        )
        base = f"{self._services.settings.prefix}/apps/{door.job_id}"
        if wish.program:
            scheme = "https" if self._gate.secure else "http"
            url = f"{scheme}://{request.header('host')}{base}/?token={token}"
        else:
            origin = self._gate.app_origin(request, door.job_id)
            if origin is None:
                raise Conflict(NO_HOST)
            path = wish.path.lstrip("/")
            url = f"{origin}{base}/.yard/enter?ticket={token}&path={path}"
        ready, stop = self._look(door)
        return JSONResponse(AppReply(door.job_id, door.kind, url, expires, ready, stop))

    async def enter(self, request: Request) -> Response:
        """GET /apps/{job}/.yard/enter: trade a ticket for the cookie of one app."""
        job_id, ticket = request.params["job"], request.arg("ticket") or ""
        token, _ = await self._database.write(lambda tx: trade_app_ticket(tx, ticket, job_id))
        base = f"{self._services.settings.prefix}/apps/{job_id}/"
        more = "; Secure" if self._gate.secure else ""
        cookie = (
            f"{APP_COOKIE}={token}; Path={base}; HttpOnly; SameSite=Lax;"
            f" Max-Age={COOKIE_MS // 1000}{more}"
        )
        path = (request.arg("path") or "").lstrip("/")
        if any(ord(letter) < 33 or ord(letter) > 126 for letter in path) or "\\" in path:
            path = ""
        lines = [("location", base + path), ("set-cookie", cookie)]
        return Response(status=303, headers=lines)

    async def page(self, request: Request) -> Response:
        """/apps/{job}/…: whatever the app answers."""
        try:
            door, tunnel = await self._reach(request)
            if request.method != "GET":
                await tunnel.note_use()
            guard = [] if self._gate.is_app_host(request, door.job_id) else SANDBOX
            await carry(request, tunnel, prefix=self._services.settings.prefix, guard=guard)
        except TooBusy as fault:
            if request.header("sec-fetch-mode") != "navigate":
                raise
            return waiting_page(fault.message)
        return taken_over()

    async def socket(self, request: Request) -> Response:
        """/apps/{job}/…: a WebSocket of the app."""
        _, tunnel = await self._reach(request)
        await carry_socket(request, tunnel, prefix=self._services.settings.prefix)
        return taken_over()

    async def _reach(self, request: Request) -> tuple[AppAccess, Any]:
        door = await self._door(request)
        if request.principal.app and request.principal.app != door.job_id:
            raise Denied("this token opens the app of another job")
        if door.kind == "terminal":
            raise Conflict(f"job {door.job_id} has a terminal and no app")
        return door, await self._tunnels.wait_for(door.attempt_id)

    async def _door(self, request: Request) -> AppAccess:
        return await self._database.read(
            lambda reader: find_door(reader, request.principal, request.params["job"])
        )

    def _look(self, door: AppAccess) -> tuple[bool, int | None]:
        tunnel = self._tunnels.of(door.attempt_id)
        stop = None if tunnel is None else tunnel.info.get("idle_stop_ms")
        return tunnel is not None, stop if isinstance(stop, int) else None


def waiting_page(words: str) -> Response:
    """Return a page for a browser whose app does not answer yet; it asks again by itself."""
    body = WAITING.format(seconds=AGAIN_SECONDS, words=html.escape(words))
    lines = [("content-type", "text/html; charset=utf-8"), ("cache-control", "no-store")]
    return Response(body.encode(), status=503, headers=lines)


def routes(services: Services) -> list[Route]:
    """Return the routes of apps."""
    do = AppRoutes(services)
    found = [
        Route(
            method="GET",
            path="/api/v1/jobs/{job}/app",
            handler=do.state,
            permission=Permission.LOG,
            gives=AppState,
        ),
        Route(
            method="POST",
            path="/api/v1/jobs/{job}/app",
            handler=do.open,
            permission=Permission.LOG,
            takes=AppRequest,
            gives=AppReply,
        ),
        Route(
            method="GET",
            path="/apps/{job}/.yard/enter",
            handler=do.enter,
            permission=Permission.PUBLIC,
            apps=True,
            plain=True,
        ),
    ]
    for path in ("/apps/{job}/", "/apps/{job}/{path...}"):
        found += [
            Route(
                method=method,
                path=path,
                handler=do.page,
                permission=Permission.LOG,
                apps=True,
                plain=True,
            )
            for method in METHODS
        ]
        found.append(
            Route(
                method="GET",
                path=path,
                handler=do.socket,
                permission=Permission.LOG,
                apps=True,
                websocket=True,
            )
        )
    return found
