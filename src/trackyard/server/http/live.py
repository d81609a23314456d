"""An answer that stays open: pieces as they come, until there are no more or nobody listens.

Owns noticing that the caller has gone, or may listen no longer, while there is nothing to send.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from trackyard.server.http.messages import Response


class LiveResponse(Response):
    """A stream that may be silent for long."""

    __slots__ = ("ended", "pieces")

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        status: int = 200,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.pieces = pieces
        #: resolved when the caller's credential has ended; set by the application
        self.ended: asyncio.Future[None] | None = None

    async def send(self, proto: Any) -> None:
        """Write the pieces; let go of their source as soon as nobody may or will read them."""
        transport = proto.response_stream(self.status, self.headers)
        pump = asyncio.create_task(self._pump(transport))
        gone = asyncio.ensure_future(proto.client_disconnect())
        waited: set[asyncio.Future[Any]] = {pump, gone}
        if self.ended is not None:
            waited.add(self.ended)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        finally:
            gone.cancel()
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await pump
            await self.pieces.aclose()

    async def _pump(self, transport: Any) -> None:
        async for piece in self.pieces:
            await transport.send_bytes(piece)
