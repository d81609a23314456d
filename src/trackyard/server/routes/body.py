"""Typed request bodies of the native API, with errors that name the field."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from trackyard.core.errors import BadRequest, InvalidInput
from trackyard.server.http import Request

T = TypeVar("T")


async def decode(request: Request, kind: type[T]) -> T:
    """Read the body as a value of `kind`."""
    request.require_json()
    raw = await request.body()
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as fault:
        raise InvalidInput(str(fault)) from fault
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise BadRequest(f"the body is not valid JSON: {fault}") from fault
