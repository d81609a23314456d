"""Log policies over HTTP: what a line in the log of a failed attempt means for its job."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.core.log_patterns import MAX_PATTERN
from trackyard.queue.attempts.log_policies import LogPolicies, LogPolicy
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Word


class LogPolicyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A log policy to make."""

    #: a shipped pattern's name, or a regular expression
    pattern: Annotated[str, Meta(max_length=MAX_PATTERN)]
    label: Word = ""
    exclude_node: bool = False
    stop_retries: bool = False
    message: Word = ""
    queue: Word = ""
    all_teams: bool = False


class PolicyList(msgspec.Struct):
    """Log policies about a team, the shipped ones last."""

    policies: list[LogPolicy]


class LogPolicyRoutes:
    """Handlers of log policies."""

    def __init__(self, services: Services) -> None:
        self._policies = LogPolicies(services.database)

    async def list(self, request: Request) -> Response:
        """GET /api/v1/log-policies: those about the caller's team."""
        return JSONResponse(PolicyList(await self._policies.list(request.principal)))

    async def add(self, request: Request) -> Response:
        """POST /api/v1/log-policies: make one."""
        wish = await decode(request, LogPolicyRequest)
        asked = LogPolicy(
            id="",
            queue=wish.queue,
            pattern=wish.pattern,
            label=wish.label,
            exclude_node=wish.exclude_node,
            stop_retries=wish.stop_retries,
            message=wish.message,
        )
        made = await self._policies.add(request.principal, asked, all_teams=wish.all_teams)
        return JSONResponse(made)

    async def remove(self, request: Request) -> Response:
        """DELETE /api/v1/log-policies/{policy}: remove one."""
        await self._policies.remove(request.principal, request.params["policy"])
        return JSONResponse({})


def routes(services: Services) -> list[Route]:
    """Return the routes of log policies."""
    do = LogPolicyRoutes(services)

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    curate, one = Permission.CURATE, "log-policies/{policy}"
    return [
        route("GET", "log-policies", do.list, Permission.READ, gives=PolicyList),
        route("POST", "log-policies", do.add, curate, takes=LogPolicyRequest, gives=LogPolicy),
        route("DELETE", one, do.remove, curate, gives=dict[str, Any]),
    ]
