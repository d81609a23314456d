"""An answer that flows at its reader's pace. Owns ending it honestly: a stream whose source fails
is cut, so that its caller never takes a part for the whole.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

from trackyard.core.errors import YardError
from trackyard.server.http.messages import Response
from trackyard.server.wire import ProtocolClosed

log = logging.getLogger(__name__)


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
        """Send the pieces as the caller takes them."""
        transport = proto.response_stream(self.status, self.headers)
        try:
            async for piece in self.pieces:
                await transport.send_bytes(piece)
        except ProtocolClosed:
            log.info("a download ended early: the caller has gone")
            raise
        except (YardError, OSError) as fault:
            log.warning("a download was cut short: %s", fault)
            raise ProtocolClosed from fault
        finally:
            with contextlib.suppress(YardError):
                await self.pieces.aclose()
