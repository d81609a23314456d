"""Routes: what cannot be built, and the limits that each one has."""

from typing import Any

import msgspec
import pytest

from trackyard.server.http import Request, Response
from trackyard.server.routing import (
    BODY_LIMIT,
    HEADER_LIMIT,
    PUBLIC_BODY_LIMIT,
    PUBLIC_HEADER_LIMIT,
    Permission,
    Route,
)
from trackyard.store.bounds import Word


class Bounded(msgspec.Struct):
    name: Word


class Endless(msgspec.Struct):
    name: Word
    words: list[str] = []


async def handler(_: Request) -> Response:
    return Response()


def route(permission: Permission = Permission.READ, **how: Any) -> Route:
    return Route(method="POST", path="/x", handler=handler, permission=permission, **how)


def test_a_route_whose_request_takes_any_amount_cannot_be_built() -> None:
    with pytest.raises(TypeError, match=r"POST /x takes any amount at \$\.words"):
        route(takes=Endless)
    assert route(takes=Bounded).takes is Bounded


def test_every_route_has_limits_and_a_public_one_small_ones() -> None:
    usual, public = route(), route(Permission.PUBLIC)
    assert (usual.body_limit, usual.header_limit) == (BODY_LIMIT, HEADER_LIMIT)
    assert (public.body_limit, public.header_limit) == (PUBLIC_BODY_LIMIT, PUBLIC_HEADER_LIMIT)
    assert route(body_limit=10).body_limit == 10
    assert usual.label == "POST /x"
