"""Reports over HTTP: pages of Markdown about runs, shared within a team."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Int64, Word
from trackyard.tracking.reports import MAX_TEXT, Report, Reports, ReportSummary

#: A page of Markdown.
Page = Annotated[str, Meta(max_length=MAX_TEXT)]


class ReportIn(msgspec.Struct, forbid_unknown_fields=True):
    """A new report."""

    title: Word
    #: Markdown with fenced `runs` and `chart` blocks
    text: Page = ""


class ReportChange(ReportIn, forbid_unknown_fields=True, kw_only=True):
    """A report's new title and text."""

    #: the version that was read; an older one than the server's is refused
    version: Int64


class ReportList(msgspec.Struct):
    """A team's reports, the one changed last first."""

    reports: list[ReportSummary]


class ReportRoutes:
    """Handlers of reports."""

    def __init__(self, services: Services) -> None:
        self._reports = Reports(services.database)

    async def list(self, request: Request) -> Response:
        """GET /api/v1/reports: the caller's team's."""
        return JSONResponse(ReportList(await self._reports.list(request.principal)))

    async def create(self, request: Request) -> Response:
        """POST /api/v1/reports: create one."""
        wish = await decode(request, ReportIn)
        return JSONResponse(await self._reports.create(request.principal, wish.title, wish.text))

    async def read(self, request: Request) -> Response:
        """GET /api/v1/reports/{report}: one with its text."""
        return JSONResponse(await self._reports.read(request.principal, request.params["report"]))

    async def save(self, request: Request) -> Response:
        """PUT /api/v1/reports/{report}: change title and text."""
        wish = await decode(request, ReportChange)
        saved = await self._reports.save(
            request.principal,
            request.params["report"],
            wish.title,
            wish.text,
            version=wish.version,
        )
        return JSONResponse(saved)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/v1/reports/{report}."""
        await self._reports.delete(request.principal, request.params["report"])
        return JSONResponse({})


def routes(services: Services) -> list[Route]:
    """Return the routes of reports."""
    do = ReportRoutes(services)

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    one, log = "reports/{report}", Permission.LOG
    return [
        route("GET", "reports", do.list, Permission.READ, gives=ReportList),
        route("POST", "reports", do.create, log, takes=ReportIn, gives=Report),
        route("GET", one, do.read, Permission.READ, gives=Report),
        route("PUT", one, do.save, log, takes=ReportChange, gives=Report),
        route("DELETE", one, do.delete, log, gives=dict[str, Any]),
    ]
