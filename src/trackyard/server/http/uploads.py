"""How an artifact comes in over HTTP. Owns telling a whole body from one that was cut short."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator

from trackyard.core.errors import BadRequest, TooSlow
from trackyard.server.http.messages import Request

#: Seconds in which at least one more piece of a body must arrive.
STALL_SECONDS = 120.0
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/]{43}=):")


async def whole_body(request: Request) -> AsyncIterator[bytes]:
    """Yield the body's pieces; raise at the end unless every byte of it has arrived."""
    declared = request.content_length()
    stream = request.stream()
    seen = 0
    is_blank = False
    while True:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                piece = await anext(stream)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise TooSlow(
                f"no byte of the body came for {STALL_SECONDS:.0f} seconds; nothing was stored"
            ) from None
        # The HTTP layer ends a body with one empty piece, and puts an empty one in place of what
        # it could not read; so an empty piece that is not the last means a cut.
        if is_blank:
            raise _cut(seen, declared)
        is_blank = not piece
        if piece:
            seen += len(piece)
            yield piece
    if declared is not None and seen != declared:
        raise _cut(seen, declared)


def declared_digest(request: Request) -> str | None:
    """Return the SHA-256 a Content-Digest header declares, as hex digits."""
    text = request.header("content-digest")
    match = _DIGEST.search(text) if text is not None else None
    if match is None:
        return None
    try:
        return base64.b64decode(match[1], validate=True).hex()
    except binascii.Error:
        raise BadRequest("the Content-Digest header cannot be read") from None


def _cut(seen: int, declared: int | None) -> BadRequest:
    of = f" of {declared}" if declared is not None else ""
    return BadRequest(f"the body ended early, after {seen}{of} bytes; nothing was stored")
