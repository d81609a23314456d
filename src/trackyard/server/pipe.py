"""An answer that flows at its reader's pace. Owns the pipe between a stream and the HTTP layer.

The HTTP layer takes streamed pieces into memory as fast as they come, but reads a file only as
fast
as the caller does. So a large stream goes through a pipe, which the HTTP layer reads as a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator
from typing import Any

from trackyard.core.errors import YardError
from trackyard.server.http import Response

log = logging.getLogger(__name__)

#: More than any pipe holds by default: past it, the HTTP layer must have opened its end.
PIPE_BYTES = 1024 * 1024
#: Seconds without any progress after which the caller is given up.
OPEN_SECONDS, STALL_SECONDS = 30.0, 300.0


class PipeResponse(Response):
    """A stream of known length, above `PIPE_BYTES`; it is cut short when its source fails."""

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
        """Feed the pipe until the stream ends, or close it early so that the caller sees a cut."""
        reader, writer = os.pipe()
        flow = _Flow()
        transport: asyncio.WriteTransport | None = None
        try:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_write_pipe(lambda: flow, os.fdopen(writer, "wb", 0))
            proto.response_file(self.status, self.headers, f"/dev/fd/{reader}")
            reader = await self._feed(transport, flow, reader)
            transport.close()
        except (YardError, OSError) as fault:
            log.warning("a download was cut short: %s", fault)
        finally:
            if reader >= 0:
                os.close(reader)
            if transport is not None:
                # After close() this changes nothing; after a fault it drops what is not sent yet.
                if not transport.is_closing():
                    transport.abort()
            else:
                os.close(writer)
            with contextlib.suppress(YardError):
                await self.pieces.aclose()

    async def _feed(self, transport: asyncio.WriteTransport, flow: _Flow, reader: int) -> int:
        sent = 0
        async for piece in self.pieces:
            transport.write(piece)
            sent += len(piece)
            await flow.ready(OPEN_SECONDS if reader >= 0 else STALL_SECONDS)
            if reader >= 0 and sent - transport.get_write_buffer_size() > PIPE_BYTES:
                # Ours would hold the pipe open after the caller has gone.
                os.close(reader)
                reader = -1
        return reader


class _Flow(asyncio.BaseProtocol):
    """Waits while the pipe is full."""

    def __init__(self) -> None:
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_lost = False

    def pause_writing(self) -> None:
        """Note that the pipe is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Note that the pipe takes more."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Note that nobody reads any more."""
        self._is_lost = True
        self._writable.set()

    async def ready(self, seconds: float) -> None:
        """Wait until the pipe takes more, or raise."""
        try:
            await asyncio.wait_for(self._writable.wait(), seconds)
        except TimeoutError:
            raise BrokenPipeError("the caller stopped reading") from None
        if self._is_lost:
            raise BrokenPipeError("the caller has gone")
