"""Typed request bodies of the native API, with errors that name the field."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.server.http.messages import Request

T = TypeVar("T")


async def decode(request: Request, kind: type[T]) -> T:
    """Read the body as a value of `kind`, the type that the route declares."""
    if request.route.takes is not kind:
        raise TypeError(f"{request.route.path} declares another type than {kind.__name__}")
    return bounded(kind, await request.json())


def bounded(kind: type[T], value: Any) -> T:
    """Return a value of `kind`, or refuse what is not one or beyond its bounds."""
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as fault:
        raise InvalidInput(str(fault)) from fault
