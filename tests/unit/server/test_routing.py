"""Routes: the limits that each one has."""

from typing import Any

from trackyard.server.http.messages import Request, Response
from trackyard.server.routing import (
    BODY_LIMIT,
    HEADER_LIMIT,
    PUBLIC_BODY_LIMIT,
    PUBLIC_HEADER_LIMIT,
    Permission,
    Route,
)


async def handler(_: Request) -> Response:
    return Response()


def route(permission: Permission = Permission.READ, **how: Any) -> Route:
    return Route(method="POST", path="/x", handler=handler, permission=permission, **how)


def test_every_route_has_limits_and_a_public_one_small_ones() -> None:
    usual, public = route(), route(Permission.PUBLIC)
    assert (usual.body_limit, usual.header_limit) == (BODY_LIMIT, HEADER_LIMIT)
    assert (public.body_limit, public.header_limit) == (PUBLIC_BODY_LIMIT, PUBLIC_HEADER_LIMIT)
    assert route(body_limit=10).body_limit == 10
    assert usual.label == "POST /x"
