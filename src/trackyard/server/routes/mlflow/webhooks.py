"""MLflow's routes of webhooks, and ours of what was delivered to them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.core.errors import InvalidInput
from trackyard.notify.hook_events import read_event, read_events
from trackyard.notify.webhooks import STATUSES, WebhookChange
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.mlflow.registry import page
from trackyard.server.routes.mlflow.shared import Arguments, missing, mlflow_routes
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Free, Int64, Line, Text, Word

_EMPTY: dict[str, Any] = {}


class WebhookCall(msgspec.Struct):
    """A call about webhooks."""

    name: Line = ""
    description: Text = ""
    url: Line = ""
    events: Annotated[list[Free], Meta(max_length=100)] = []
    secret: Line = ""
    status: Word | Int64 | None = None
    event: Free | None = None
    max_results: Int64 | None = None
    page_token: Line | None = None


class Delivery(msgspec.Struct):
    """One delivery to a webhook."""

    id: str
    event: str
    #: `pending`, `delivered` or `failed`
    state: str
    tries: int
    #: when it is tried next, while it is pending
    next_ms: int
    created_ms: int
    ended_ms: int | None
    answer_status: int | None
    error: str


class DeliveryPage(msgspec.Struct):
    """The last deliveries of a webhook, the newest first."""

    deliveries: list[Delivery]


class WebhookRoutes:
    """Handlers of webhooks."""

    def __init__(self, services: Services) -> None:
        self._hooks = services.webhooks
        self._deliveries = services.deliveries

    async def create(self, request: Request) -> Response:
        """POST webhooks."""
        args = await Arguments.of(request)
        name, url = args.need("name"), args.need("url")
        if args.raw("events") is None:
            raise missing("events")
        made = await self._hooks.create(
            request.principal,
            WebhookChange(
                name=name,
                url=url,
                description=args.text("description"),
                events=read_events(args.raw("events")),
                secret=args.text("secret"),
                status=_status(args.raw("status")),
            ),
        )
        return JSONResponse({"webhook": made.shape()})

    async def update(self, request: Request) -> Response:
        """PATCH webhooks/{webhook_id}."""
        args = await Arguments.of(request)
        events = args.raw("events")
        made = await self._hooks.update(
            request.principal,
            request.params["webhook_id"],
            WebhookChange(
                name=args.text("name"),
                url=args.text("url"),
                description=args.text("description"),
                events=read_events(events) if events else None,
                secret=args.text("secret"),
                status=_status(args.raw("status")),
            ),
        )
        return JSONResponse({"webhook": made.shape()})

    async def get(self, request: Request) -> Response:
        """GET webhooks/{webhook_id}."""
        found = await self._hooks.get(request.principal, request.params["webhook_id"])
        return JSONResponse({"webhook": found.shape()})

    async def list(self, request: Request) -> Response:
        """GET webhooks."""
        args = await Arguments.of(request)
        found, token = await self._hooks.list(
            request.principal,
            max_results=args.integer("max_results"),
            page_token=args.text("page_token"),
        )
        return page("webhooks", [one.shape() for one in found], token)

    async def delete(self, request: Request) -> Response:
        """DELETE webhooks/{webhook_id}."""
        await self._hooks.delete(request.principal, request.params["webhook_id"])
        return JSONResponse(_EMPTY)

    async def try_out(self, request: Request) -> Response:
        """POST webhooks/{webhook_id}/test: send an example now."""
        args = await Arguments.of(request)
        event = read_event(args.raw("event")) if args.raw("event") else None
        found = await self._hooks.get(request.principal, request.params["webhook_id"])
        return JSONResponse({"result": await self._deliveries.try_out(found, event)})

    async def log(self, request: Request) -> Response:
        """GET /api/v1/webhooks/{webhook_id}/deliveries: what was sent, and what came of it."""
        found = await self._deliveries.log_of(request.principal, request.params["webhook_id"])
        return JSONResponse({"deliveries": found})


def _status(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, int) and 1 <= value <= len(STATUSES):
        return STATUSES[value - 1]
    if value not in STATUSES:
        raise InvalidInput(f"Webhook status is one of {', '.join(STATUSES)}")
    return str(value)


def routes(services: Services) -> list[Route]:
    """Return the routes of webhooks."""
    do, curate = WebhookRoutes(services), Permission.CURATE
    one = "webhooks/{webhook_id}"
    table: list[tuple[str, str, Handler]] = [
        ("POST", "webhooks", do.create),
        ("GET", "webhooks", do.list),
        ("GET", one, do.get),
        ("PATCH", one, do.update),
        ("DELETE", one, do.delete),
        ("POST", one + "/test", do.try_out),
    ]
    found = [
        route
        for method, path, handler in table
        for route in mlflow_routes(method, path, handler, curate, takes=WebhookCall)
    ]
    found.append(
        Route(
            method="GET",
            path="/api/v1/webhooks/{webhook_id}/deliveries",
            handler=do.log,
            permission=curate,
            gives=DeliveryPage,
        )
    )
    return found
