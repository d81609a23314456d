"""An answer that stays open: pieces as they come, until there are no more or nobody listens.

Owns noticing that the caller has gone while there is nothing to send.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from trackyard.server.http import Response


class LiveResponse(Response):
    """A stream that may be silent for long."""

    __slots__ = ("pieces",)

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        status: int = 200,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.pieces = pieces

    async def send(self, proto: Any) -> None:
        """Write the pieces; let go of their source as soon as the caller has gone."""
        transport = proto.response_stream(self.status, self.headers)
        gone = asyncio.ensure_future(proto.client_disconnect())
        piece: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                piece = asyncio.create_task(self._next())
                await asyncio.wait({gone, piece}, return_when=asyncio.FIRST_COMPLETED)
                data = piece.result() if piece.done() else None
                if data is None:
                    return
                await transport.send_bytes(data)
        finally:
            gone.cancel()
            if piece is not None and not piece.done():
                piece.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await piece
            await self.pieces.aclose()

    async def _next(self) -> bytes | None:
        return await anext(self.pieces, None)
