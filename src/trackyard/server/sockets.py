"""WebSockets that send text until there is no more, or nobody listens.

Owns accepting one, keeping it awake through silence, noticing that its client has gone, and saying
good-bye with a code. The HTTP layer can close a WebSocket but not say why, and clients take a
close without a code for a cut line. So the closing frame is written to the connection itself:
four bytes after everything the HTTP layer has sent. Under TLS that cannot be done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from granian._granian import RSGIProtocolClosed as ProtocolClosed

from trackyard.server.http import Request

log = logging.getLogger(__name__)

#: RFC 6455: the work is done; the server goes away.
NORMAL, GOING_AWAY = 1000, 1001
#: Seconds of silence after which an empty message keeps proxies from dropping the line.
AWAKE_SECONDS = 20.0
#: Seconds for a client to answer our good-bye.
FAREWELL_SECONDS = 2.0
_DESCRIPTORS = Path("/proc/self/fd") if Path("/proc/self/fd").is_dir() else Path("/dev/fd")


class TextSocket:
    """An accepted WebSocket that carries text to its client."""

    def __init__(self, request: Request, transport: Any) -> None:
        self._request = request
        self._transport = transport
        self._gone = asyncio.ensure_future(self._listen())

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
                while not piece.done() and not self._gone.done():
                    done, _ = await asyncio.wait(
                        {self._gone, piece},
                        timeout=AWAKE_SECONDS,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if not done:
                        await self.send("")
                text = piece.result() if piece.done() else None
                if text is None:
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
        if code is not None and not self._gone.done():
            said = _say_goodbye(self._request, code)
            if said:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self._gone), FAREWELL_SECONDS)
        self._gone.cancel()
        self._request.proto.close(code or NORMAL)

    async def _listen(self) -> None:
        """Wait until the client closes or is gone; what it says is of no interest."""
        with contextlib.suppress(ProtocolClosed):
            while (await self._transport.receive()).kind != 0:
                pass


async def _next(pieces: AsyncGenerator[str, None]) -> str | None:
    return await anext(pieces, None)


def _say_goodbye(request: Request, code: int) -> bool:
    """Write the closing frame to the request's own connection; tell whether that was possible."""
    if request.scope.scheme in ("https", "wss"):
        return False
    connection = _connection_of(request.peer)
    if connection is None:
        log.warning(
            "the connection of %s was not found: it is closed without a code", request.path
        )
        return False
    with connection:
        try:
            connection.setblocking(False)
            connection.send(b"\x88\x02" + struct.pack(">H", code))
        except OSError:
            return False
    return True


def _connection_of(peer: str) -> socket.socket | None:
    """Return a second handle on the connection from this address."""
    host, _, port = peer.rpartition(":")
    wanted = (host.strip("[]"), int(port))
    for entry in list(_DESCRIPTORS.iterdir()):
        try:
            copy = os.dup(int(entry.name))
        except (OSError, ValueError):
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            continue
        with contextlib.suppress(OSError):
            if connection.getpeername()[:2] == wanted:
                return connection
        connection.close()
    return None
