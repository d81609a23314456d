"""An answer that flows at its reader's pace. Owns the pipe between a stream and the HTTP layer.

The HTTP layer takes streamed pieces into memory as fast as they come, but reads a file only as
fast as its caller reads. So a large stream goes through a named pipe, which it opens like a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from trackyard.core.errors import YardError
from trackyard.server.http import Response

log = logging.getLogger(__name__)

#: Seconds for the HTTP layer to open its end, and seconds a caller may read nothing at all.
OPEN_SECONDS, STALL_SECONDS = 15.0, 300.0


class PipeResponse(Response):
    """A stream whose length the headers declare; it is cut short when its source fails."""

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
        transport: asyncio.WriteTransport | None = None
        try:
            flow = _Flow()
            with tempfile.TemporaryDirectory(prefix="yard-pipe-") as folder:
                path = Path(folder) / "pipe"
                os.mkfifo(path, 0o600)
                proto.response_file(self.status, self.headers, str(path))
                file = os.fdopen(await _open_for_reader(path), "wb", 0)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_write_pipe(lambda: flow, file)
            async for piece in self.pieces:
                transport.write(piece)
                await flow.ready()
            transport.close()
        except BrokenPipeError as fault:
            log.info("a download ended early: %s", fault)
        except (YardError, OSError) as fault:
            log.warning("a download was cut short: %s", fault)
        finally:
            if transport is not None and not transport.is_closing():
                transport.abort()
            with contextlib.suppress(YardError):
                await self.pieces.aclose()


async def _open_for_reader(path: Path) -> int:
    """Open the writing end once the HTTP layer waits at the other; raise when it never comes."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + OPEN_SECONDS
    pause = 0.001
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as fault:
            if fault.errno != errno.ENXIO:
                raise
        if loop.time() > deadline:
            # Lets go of a reader that came at this very moment and would wait for ever.
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
            raise BrokenPipeError("the caller left before the first byte")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


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

    async def ready(self) -> None:
        """Wait until the pipe takes more, or raise."""
        try:
            await asyncio.wait_for(self._writable.wait(), STALL_SECONDS)
        except TimeoutError:
            raise BrokenPipeError("the caller stopped reading") from None
        if self._is_lost:
            raise BrokenPipeError("the caller has gone")
