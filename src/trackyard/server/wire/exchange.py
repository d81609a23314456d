"""One request and its answer. Owns how a body is read at the application's pace and how an answer
is framed; the connection moves the bytes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from trackyard.server.wire.heads import Headers, Lines, head_of

#: Bytes of a body that wait for the application before the sender has to.
HIGH_WATER = 256 * 1024
#: Bytes of an unread body that are read and dropped to keep a connection.
SMALL_REST = 1 << 20
#: Bytes of a file that are read at a time.
FILE_PIECE = 256 * 1024
_NO_BODY = frozenset((204, 304))


class ProtocolClosed(Exception):
    """The caller has gone."""


class RequestScope:
    """What was asked."""

    __slots__ = (
        "client",
        "headers",
        "method",
        "path",
        "proto",
        "query_string",
        "scheme",
        "target",
    )

    def __init__(
        self,
        *,
        proto: str,
        method: str,
        path: str,
        query_string: str,
        headers: Headers,
        client: str,
        scheme: str,
        target: str = "",
    ) -> None:
        #: `http` or `ws`
        self.proto = proto
        self.method = method
        #: percent-decoded
        self.path = path
        self.query_string = query_string
        self.headers = headers
        #: address and port of the other end
        self.client = client
        self.scheme = scheme
        #: path as it was sent
        self.target = target


class ConnectionLine(Protocol):
    """The connection as an exchange sees it."""

    is_lost: bool

    def write(self, data: bytes) -> None:
        """Send bytes; never blocks."""
        ...

    def hand_over(self, data: bytes, claim: Callable[[], bool]) -> bool:
        """Send a whole answer if its caller is there; return whether any of it left."""
        ...

    def is_gone(self) -> bool:
        """Tell whether the caller has ended the connection, as far as the system knows now."""
        ...

    async def drained(self) -> None:
        """Wait until the caller has taken most of what was sent; raise if it has gone."""
        ...

    def hold(self) -> None:
        """Take no more bytes for now."""
        ...

    def go_on(self) -> None:
        """Take bytes again."""
        ...

    def is_closing(self) -> bool:
        """Tell whether this is the connection's last exchange."""
        ...

    async def gone(self) -> None:
        """Wait until the caller has gone."""
        ...


class Exchange:
    """A request's body on its way in, and the answer on its way out."""

    __slots__ = (
        "_is_held",
        "_left",
        "_line",
        "_parts",
        "_size",
        "_takes_all",
        "_waiter",
        "awaits_continue",
        "declared",
        "has_begun",
        "is_chunked",
        "is_complete",
        "is_dropping",
        "is_head",
        "is_old",
        "keeps_alive",
        "scope",
    )

    def __init__(
        self, line: ConnectionLine, scope: RequestScope, *, keeps_alive: bool, is_old: bool
    ) -> None:
        self._line = line
        self.scope = scope
        self.is_head = scope.method == "HEAD"
        #: whether the caller speaks HTTP/1.0, which knows no chunks
        self.is_old = is_old
        #: whether the connection may carry another exchange after this one
        self.keeps_alive = keeps_alive
        self.awaits_continue = False
        #: length of the body as declared
        self.declared: int | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._takes_all = False
        self._is_held = False
        self._waiter: asyncio.Future[None] | None = None
        #: whether the whole body has arrived
        self.is_complete = False
        #: whether what still arrives of the body is of no interest
        self.is_dropping = False
        self.has_begun = False
        self.is_chunked = False
        #: bytes still owed of an answer whose length was declared
        self._left: int | None = None

    # -- the body, from the connection ------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes of the body."""
        if self.is_dropping:
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER and not self._takes_all and not self._is_held:
            self._is_held = True
            self._line.hold()
        self.wake()

    def finish(self) -> None:
        """Note that the body has ended."""
        self.is_complete = True
        self.wake()

    def wake(self) -> None:
        """Let whoever waits for the body look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the body, for the application ------------------------------------------------------

    def whole(self) -> bytes | None:
        """Return the whole body if it is here already."""
        return self._take() if self.is_complete else None

    async def __call__(self) -> bytes:
        """Return the whole body, however long that takes."""
        self._takes_all = True
        while not self.is_complete:
            await self._more()
        return self._take()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            if self._parts:
                yield self._take()
            elif self.is_complete:
                return
            else:
                await self._more()

    def _take(self) -> bytes:
        parts, self._parts, self._size = self._parts, [], 0
        if self._is_held:
            self._is_held = False
            self._line.go_on()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _more(self) -> None:
        if self._line.is_lost:
            raise ProtocolClosed
        if self.awaits_continue and not self.has_begun:
            self.awaits_continue = False
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._is_held and self._takes_all:
            self._is_held = False
            self._line.go_on()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def drop_rest(self) -> None:
        """Let the rest of the body pass unread."""
        self.is_dropping = True
        self._parts, self._size = [], 0
        if self._is_held:
            self._is_held = False
            self._line.go_on()

    # -- the answer -------------------------------------------------------------------------

    def _begin(self, status: int, headers: Lines, length: int | None) -> bytes:
        """Return the head of the answer, deciding on its framing."""
        if self.has_begun:
            raise RuntimeError("this request has been answered already")
        if self._line.is_lost:
            raise ProtocolClosed
        self.has_begun = True
        if not self.is_complete and (self.declared is None or self.declared > SMALL_REST):
            self.keeps_alive = False
        extra = b"" if status in _NO_BODY else self._framing(headers, length)
        if self._line.is_closing():
            self.keeps_alive = False
        if not self.keeps_alive:
            extra += b"connection: close\r\n"
        elif self.is_old:
            extra += b"connection: keep-alive\r\n"
        if self.is_head:
            self._left = 0
            self.is_chunked = False
        return head_of(status, headers, extra)

    def _framing(self, headers: Lines, length: int | None) -> bytes:
        """Decide how the caller will know the end of the answer; return the line that says so."""
        declared = _declared(headers)
        if declared is not None:
            self._left = declared
        elif length is not None:
            self._left = length
            return b"content-length: %d\r\n" % length
        elif self.is_old:
            self.keeps_alive = False
        else:
            self.is_chunked = True
            return b"transfer-encoding: chunked\r\n"
        return b""

    def response_bytes(self, status: int, headers: Lines, body: bytes) -> None:
        """Answer at once."""
        head = self._begin(status, headers, len(body))
        if self.is_head or status in _NO_BODY:
            body = b""
        self._left = 0
        self._line.write(head + body)

    def is_gone(self) -> bool:
        """Tell whether the caller has ended the connection, so that no answer will leave."""
        return self._line.is_gone()

    def hand_over(
        self, status: int, headers: Lines, body: bytes, claim: Callable[[], bool]
    ) -> bool:
        """Answer at once, or return False: then nothing of the answer has left nor ever will.

        `claim` is asked last, right before the first byte leaves, and may forbid it.
        """
        if self._line.is_gone():
            return False
        head = self._begin(status, headers, len(body))
        self._left = 0
        return self._line.hand_over(head + body, claim)

    def response_stream(self, status: int, headers: Lines) -> Exchange:
        """Begin an answer that is sent in pieces until the application returns."""
        self._line.write(self._begin(status, headers, None))
        return self

    async def response_file(
        self, status: int, headers: Lines, path: str, start: int = 0, end: int | None = None
    ) -> None:
        """Answer with a file of the server's own, or bytes `start` up to `end` of it."""
        loop = asyncio.get_running_loop()
        file = await loop.run_in_executor(None, os.open, path, os.O_RDONLY)
        try:
            stop = os.fstat(file).st_size if end is None else end
            self._line.write(self._begin(status, headers, stop - start))
            while start < stop and not self.is_head:
                piece = await loop.run_in_executor(
                    None, os.pread, file, min(FILE_PIECE, stop - start), start
                )
                if not piece:
                    return
                start += len(piece)
                await self.send_bytes(piece)
        finally:
            os.close(file)

    async def send_bytes(self, data: bytes) -> None:
        """Send a piece; waits while the caller reads slowly, raises once it has gone."""
        if not data or self.is_head:
            return
        if self.is_chunked:
            self._line.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            if self._left is not None:
                self._left -= len(data)
            self._line.write(data)
        await self._line.drained()

    async def send_str(self, text: str) -> None:
        """Send a piece of text."""
        await self.send_bytes(text.encode())

    async def client_disconnect(self) -> None:
        """Wait until the caller has gone."""
        await self._line.gone()

    def end(self) -> bool:
        """Finish the answer; return False if it had to be left incomplete."""
        if not self.has_begun:
            return False
        if self.is_chunked:
            self._line.write(b"0\r\n\r\n")
        return not self._left

    # -- not a WebSocket --------------------------------------------------------------------

    async def accept(self) -> Any:
        """Refuse: only an exchange that asked for a WebSocket has one."""
        raise ProtocolClosed

    def close(self, code: int | None = None) -> None:
        """Do nothing: a plain exchange ends with its answer."""


def _declared(headers: Lines) -> int | None:
    for name, value in headers:
        if name == "content-length":
            return int(value)
    return None
