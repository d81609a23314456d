"""WebSockets that send text until there is no more, or nobody listens.

Owns accepting one, keeping it awake through silence, noticing that its client has gone or may
listen no longer, and closing it with a code: clients take a close without one for a cut line.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from trackyard.server.http.messages import Request
from trackyard.server.wire import ProtocolClosed

#: RFC 6455 and its registry: the work is done; the server restarts, come again; the credential
#: that opened it is good no longer.
NORMAL, RESTART, POLICY = 1000, 1012, 1008
#: Seconds of silence after which a ping keeps proxies from dropping the line.
AWAKE_SECONDS = 20.0
#: Seconds for a client to answer our good-bye.
FAREWELL_SECONDS = 2.0


class TextSocket:
    """An accepted WebSocket that carries text to its client."""

    def __init__(self, request: Request, transport: Any) -> None:
        self._request = request
        self._transport = transport
        self._gone = asyncio.ensure_future(self._listen())
        ended: asyncio.Future[None] | None = request.ended
        self._ended = asyncio.get_running_loop().create_future() if ended is None else ended

    @property
    def is_refused(self) -> bool:
        """Whether the credential that opened it has ended."""
        return self._ended.done()

    @classmethod
    async def accept(cls, request: Request) -> TextSocket:
        """Take the connection over."""
        return cls(request, await request.proto.accept())

    async def pump(self, pieces: AsyncGenerator[str, None]) -> bool:
        """Send pieces until there are no more; tell whether the client stayed to the end."""
        piece: asyncio.Task[str | None] | None = None
        try:
            while True:
                piece = asyncio.create_task(_next(pieces))
                while not (piece.done() or self._gone.done() or self._ended.done()):
                    done, _ = await asyncio.wait(
                        {self._gone, self._ended, piece},
                        timeout=AWAKE_SECONDS,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if not done:
                        await self._transport.ping()
                text = piece.result() if piece.done() else None
                if text is None or self._ended.done():
                    return not self._gone.done()
                await self.send(text)
        except ProtocolClosed:
            return False
        finally:
            if piece is not None and not piece.done():
                piece.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await piece
            await pieces.aclose()

    async def send(self, text: str) -> None:
        """Send one message; waits while the client is slow."""
        await self._transport.send_str(text)

    async def close(self, code: int | None = NORMAL) -> None:
        """End it with a code, or without one as if the line were cut."""
        self._request.proto.close(code)
        if code is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await asyncio.shield(self._gone)
        self._gone.cancel()

    async def _listen(self) -> None:
        """Wait until the client closes or is gone; what it says is of no interest."""
        with contextlib.suppress(ProtocolClosed):
            while (await self._transport.receive()).kind != 0:
                pass


async def _next(pieces: AsyncGenerator[str, None]) -> str | None:
    return await anext(pieces, None)
