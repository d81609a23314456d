"""Typed request bodies of the native API, with errors that name the field."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.server.http import Request

T = TypeVar("T")


async def decode(request: Request, kind: type[T]) -> T:
    """Read the body as a value of `kind`, the type that the route declares."""
    if request.route.takes is not kind:
        raise TypeError(f"{request.route.path} declares another type than {kind.__name__}")
    value = await request.json()
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as fault:
        raise InvalidInput(str(fault)) from fault
