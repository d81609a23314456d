"""Secrets of a team over HTTP: names go out, values only come in."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from trackyard.access.secrets import MAX_BYTES
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services


class SecretValue(msgspec.Struct, forbid_unknown_fields=True):
    """A value to keep."""

    value: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BYTES)]


class SecretName(msgspec.Struct):
    """A secret as it may be shown."""

    name: str
    created_ms: int
    updated_ms: int
    set_by: str


class SecretList(msgspec.Struct):
    """The team's secrets."""

    secrets: list[SecretName]


class SecretSet(msgspec.Struct):
    """A secret that was stored."""

    name: str
    is_new: bool


class SecretRoutes:
    """Handlers of secrets."""

    def __init__(self, services: Services) -> None:
        self._secrets = services.secrets

    async def list(self, request: Request) -> Response:
        """GET /api/v1/secrets: the names of the team's secrets."""
        return JSONResponse({"secrets": await self._secrets.names(request.principal)})

    async def put(self, request: Request) -> Response:
        """PUT /api/v1/secrets/{name}: store or replace a value; nobody is shown it again."""
        wish, name = await decode(request, SecretValue), request.params["name"]
        is_new = await self._secrets.set(request.principal, name, wish.value)
        return JSONResponse(SecretSet(name, is_new))

    async def remove(self, request: Request) -> Response:
        """DELETE /api/v1/secrets/{name}: jobs that start from now on do not get it."""
        await self._secrets.remove(request.principal, request.params["name"])
        return JSONResponse({})


def routes(services: Services) -> list[Route]:
    """Return the routes of secrets."""
    do = SecretRoutes(services)

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    one = "secrets/{name}"
    return [
        route("GET", "secrets", do.list, Permission.READ, gives=SecretList),
        route("PUT", one, do.put, Permission.LOG, takes=SecretValue, gives=SecretSet),
        route("DELETE", one, do.remove, Permission.LOG, gives=dict[str, Any]),
    ]
