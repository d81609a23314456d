"""The event log over HTTP: pages with a since-cursor, and a live stream that resumes."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.core.errors import Denied, InvalidInput
from trackyard.server.http.live import LiveResponse
from trackyard.server.http.messages import JSONResponse, Request, Response, whole_number
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.event_log import read_events

MAX_EVENTS = 1000


class EventOut(msgspec.Struct):
    """One event."""

    id: int
    time_ms: int
    team_id: int | None
    actor: str
    kind: str
    subject: str
    subject_id: str
    data: dict[str, Any]


class EventPage(msgspec.Struct):
    """Events and the cursor to ask on from."""

    events: list[EventOut]
    next: int


class EventRoutes:
    """Handlers of the event log."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._hub = services.hub

    async def page(self, request: Request) -> Response:
        """GET /api/v1/events."""
        since = request.number("since", 0)
        limit = request.number("limit", 100)
        if not 1 <= limit <= MAX_EVENTS:
            raise InvalidInput(f"limit must be between 1 and {MAX_EVENTS}")
        before = request.number("before", 0) or None
        team_id: int | None = request.principal.team_id
        if request.arg("scope") == "all":
            if not request.principal.is_admin:
                raise Denied("events of all teams are for platform admins")
            team_id = None
        found = await self._db.read(
            lambda reader: read_events(
                reader,
                team_id,
                since=since,
                limit=limit,
                kind=request.arg("kind"),
                subject=request.arg("subject"),
                subject_id=request.arg("subject_id"),
                actor=request.arg("actor"),
                before=before,
                newest_first=request.arg("order") == "newest",
            )
        )
        last = max((event["id"] for event in found), default=since)
        return JSONResponse({"events": found, "next": last})

    async def stream(self, request: Request) -> Response:
        """GET /api/v1/stream: server-sent events."""
        text = request.header("last-event-id") or request.arg("since")
        since = whole_number(text) if text is not None else None
        if text is not None and since is None:
            raise InvalidInput("since must be an event id")
        return LiveResponse(
            self._hub.stream(request.principal.team_id, since),
            headers=[("content-type", "text/event-stream"), ("x-accel-buffering", "no")],
        )


def routes(services: Services) -> list[Route]:
    """Return the event routes."""
    do = EventRoutes(services)
    return [
        Route(
            method="GET",
            path="/api/v1/events",
            handler=do.page,
            permission=Permission.READ,
            gives=EventPage,
            query={
                "since": "return events after this id",
                "limit": f"at most {MAX_EVENTS}",
                "kind": "one kind, or a family such as `run.`",
                "subject": "run, experiment, model, …",
                "subject_id": "id of the subject",
                "actor": "who did it",
                "before": "return events before this id",
                "order": "`newest` for the latest first",
                "scope": "`all` for every team and the platform itself (admins)",
            },
        ),
        Route(
            method="GET",
            path="/api/v1/stream",
            handler=do.stream,
            permission=Permission.READ,
            query={"since": "resume after this event id"},
            stays_open=True,
        ),
    ]
