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
        piece: asyncio.Future[bytes] | None = None
        try:
            while True:
                piece = asyncio.ensure_future(anext(self.pieces))
                await asyncio.wait({gone, piece}, return_when=asyncio.FIRST_COMPLETED)
                if not piece.done():
                    return
                try:
                    data = piece.result()
                except StopAsyncIteration:
                    return
                await transport.send_bytes(data)
        finally:
            gone.cancel()
            if piece is not None and not piece.done():
                piece.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await piece
            await self.pieces.aclose()
