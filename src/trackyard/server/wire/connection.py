"""One connection: parses requests, runs them one after the other, moves bytes both ways.

Owns keep-alive, pipelining, back-pressure and what happens when a caller breaks the rules or
leaves. llhttp decides what is well-formed HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import httptools

from trackyard.server.wire.exchange import Exchange, ProtocolClosed, RequestScope
from trackyard.server.wire.heads import Headers, head_of
from trackyard.server.wire.websocket import SocketExchange

if TYPE_CHECKING:
    from trackyard.server.wire.listener import HttpListener

log = logging.getLogger(__name__)

#: Bytes of a request's head, and header lines in it.
HEAD_BYTES, HEAD_LINES = 65_536, 200
#: Requests sent ahead of their answers that are taken in.
AHEAD = 16
#: Seconds and bytes for which a closing connection still listens, so that its answer is read.
LINGER_SECONDS, LINGER_BYTES = 5.0, 64 << 20
#: What the system says of a socket whose other end has gone; not every system has all of it.
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
_TOO_LONG = "the head of the request is too long"


class HttpConnection(asyncio.Protocol):
    """A caller's connection."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpRequestParser(self)
        self._client = ""
        #: the socket's number, and whether what is written to it is what the caller reads
        self._file = -1
        self._is_plain = False
        self._url = b""
        self._lines: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._line_bytes = 0
        #: the exchange whose body is coming in, the one being answered, and those behind it
        self._incoming: Exchange | None = None
        self._current: Exchange | None = None
        self._behind: deque[Exchange] = deque()
        self._socket: SocketExchange | None = None
        self._writable: asyncio.Future[None] | None = None
        self._is_full = False
        self._full_since = 0.0
        self._lost: asyncio.Future[None] | None = None
        self.is_lost = False
        self._is_last = False
        self._lingering_until = 0.0
        self._lingered = 0
        self._since = self._loop.time()
        self._in_head = False

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who calls."""
        self._transport = cast("asyncio.Transport", transport)
        found = transport.get_extra_info("socket")
        self._file = found.fileno() if found is not None else -1
        self._is_plain = self._file >= 0 and transport.get_extra_info("sslcontext") is None
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
            self._client = f"{host}:{peer[1]}"
        self._listener.take(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._socket is not None:
            self._socket.feed(data)
            return
        if self._lingering_until:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES:
                self.abort()
            return
        if self._incoming is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as fault:
            self._misread(fault)
        else:
            if self._incoming is None and self._head_bytes > HEAD_BYTES:
                self._refuse(431, _TOO_LONG)

    def eof_received(self) -> bool:
        """Let the transport close: who stops sending is taken to have gone."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell everyone who waits."""
        self.is_lost = True
        self._file = -1
        self._listener.drop(self)
        for exchange in (self._incoming, self._current, *self._behind):
            if exchange is not None:
                exchange.wake()
        self._behind.clear()
        if self._socket is not None:
            self._socket.lost()
        for waiter in (self._writable, self._lost):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def pause_writing(self) -> None:
        """Note that the caller reads slowly."""
        self._is_full = True
        self._full_since = self._loop.time()

    def resume_writing(self) -> None:
        """Note that the caller has caught up."""
        self._is_full = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # -- the parser's side ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._in_head = True
        self._since = self._loop.time()
        self._url = b""
        self._lines = []
        self._line_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url
        if len(self._url) > HEAD_BYTES:
            raise _TooMuch

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header line."""
        self._lines.append((name, value))
        self._line_bytes += len(name) + len(value)
        if len(self._lines) > HEAD_LINES or self._line_bytes > HEAD_BYTES:
            raise _TooMuch

    def on_headers_complete(self) -> None:
        """Start the exchange; its body may follow."""
        self._listener.silent.pop(self, None)
        self._in_head = False
        self._head_bytes = 0
        parser = self._parser
        headers = Headers(self._lines)
        is_socket = parser.should_upgrade() and (
            (headers.get("upgrade") or "").lower() == "websocket"
        )
        path, _, query = self._target().partition("?")
        scope = RequestScope(
            proto="ws" if is_socket else "http",
            method=parser.get_method().decode("ascii"),
            path=unquote(path) if "%" in path else path,
            query_string=query,
            headers=headers,
            client=self._client,
            scheme=self._listener.scheme,
            target=path,
        )
        is_old = parser.get_http_version() == "1.0"
        exchange: Exchange
        if is_socket:
            exchange = SocketExchange(
                self, scope, raw=(self._url, self._lines), transport=self._transport
            )
        else:
            keeps = parser.should_keep_alive() and not parser.should_upgrade()
            exchange = Exchange(self, scope, keeps_alive=keeps, is_old=is_old)
            length = headers.get("content-length")
            if length is not None and length.isascii() and length.isdigit():
                exchange.declared = int(length)
            elif headers.get("transfer-encoding") is None:
                exchange.declared = 0
            expected = headers.get("expect")
            exchange.awaits_continue = expected is not None and not is_old
        self._incoming = exchange
        if self._current is None:
            self._run(exchange)
        else:
            self._behind.append(exchange)
            if len(self._behind) >= AHEAD:
                self.hold()

    def on_body(self, body: bytes) -> None:
        """Hand on a piece of the body."""
        if self._incoming is not None:
            self._incoming.feed(body)

    def on_message_complete(self) -> None:
        """Note that the request is here as a whole."""
        exchange, self._incoming = self._incoming, None
        if exchange is not None:
            exchange.finish()
            if exchange is not self._current and exchange.is_dropping:
                self._next()

    def _target(self) -> str:
        """Return path and query, whichever form the target has."""
        url = self._url
        if not url.startswith(b"/"):
            try:
                parts = httptools.parse_url(url)
            except httptools.HttpParserInvalidURLError:
                return url.decode("latin-1")
            url = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
        return url.decode("latin-1")

    def _upgraded(self, rest: bytes) -> None:
        """Go on as a WebSocket, or finish an exchange that asked for something else."""
        if isinstance(self._current, SocketExchange):
            self._socket = self._current
            if rest:
                self._socket.feed(rest)

    def _misread(self, fault: httptools.HttpParserError) -> None:
        """Refuse what the parser or one of its callbacks would not take."""
        if isinstance(fault.__context__, _TooMuch):
            self._refuse(431, _TOO_LONG)
        elif isinstance(fault, httptools.HttpParserCallbackError):
            log.error("a request could not be taken in", exc_info=fault)
            self._refuse(400, "the request could not be read")
        else:
            self._refuse(400, "this is not a well-formed HTTP request")

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer what is not HTTP, and close."""
        if self._current is None and not self._transport.is_closing():
            body = sentence.encode()
            lines = [("content-type", "text/plain; charset=utf-8")]
            extra = b"content-length: %d\r\nconnection: close\r\n" % len(body)
            self._transport.write(head_of(status, lines, extra) + body)
            self._linger()
        else:
            self.abort()

    # -- exchanges --------------------------------------------------------------------------

    def _run(self, exchange: Exchange) -> None:
        self._current = exchange
        task = self._loop.create_task(self._answer(exchange))
        self._listener.tasks.add(task)
        task.add_done_callback(self._listener.tasks.discard)

    async def _answer(self, exchange: Exchange) -> None:
        """Let the application answer, and see what becomes of the connection."""
        try:
            await self._listener.app(exchange.scope, exchange)
        except (ProtocolClosed, ConnectionError):
            self.abort()
            return
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:
            # Without its end the caller knows that the answer was cut short.
            log.exception("an answer to %s was cut short", exchange.scope.path)
            self.abort()
            return
        if isinstance(exchange, SocketExchange):
            exchange.leave()
            return
        if self.is_lost:
            return
        if not exchange.end():
            self.abort()
        elif not exchange.keeps_alive or self._listener.is_draining:
            if exchange.is_complete:
                self._transport.close()
            else:
                exchange.drop_rest()
                self._linger()
        elif exchange.is_complete:
            self._next()
        else:
            exchange.drop_rest()
            self._current = None

    def _next(self) -> None:
        """Go on with a request that was sent ahead, or wait for one."""
        self._current = None
        self._since = self._loop.time()
        if self._behind:
            exchange = self._behind.popleft()
            self.go_on()
            self._run(exchange)

    # -- what an exchange asks --------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self.is_lost:
            self._transport.write(data)

    def is_gone(self) -> bool:
        """Tell whether the caller has ended the connection, even if that is not read yet."""
        return self.is_lost or self._transport.is_closing() or self._has_ended()

    def hand_over(self, data: bytes, claim: Callable[[], bool]) -> bool:
        """Send a whole answer if its caller is there; return whether any of it left.

        It goes to the system at once, past the transport's own queue: between `claim` and the
        first byte on its way there is nothing that could fail unseen.
        """
        if self.is_gone() or not claim():
            return False
        sent = 0
        if self._is_plain and self._transport.get_write_buffer_size() == 0:
            try:
                sent = os.write(self._file, data)
            except BlockingIOError:
                pass
            except OSError:
                return False
        if sent < len(data):
            self._transport.write(data[sent:])
        return True

    def _has_ended(self) -> bool:
        """Ask the system whether the other end has closed or reset the connection."""
        if self._file < 0:
            return False
        look = select.poll()
        look.register(self._file, _ENDED)
        return bool(look.poll(0))

    async def drained(self) -> None:
        """Wait while the caller reads slowly."""
        if self.is_lost:
            raise ProtocolClosed
        while self._is_full:
            self._writable = self._loop.create_future()
            await self._writable
            if self.is_lost:
                raise ProtocolClosed

    def hold(self) -> None:
        """Take no more bytes for now."""
        if not self.is_lost and not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Take bytes again."""
        if not self.is_lost and not self._transport.is_closing():
            self._transport.resume_reading()

    def is_closing(self) -> bool:
        """Tell whether no further request is wanted."""
        return self._listener.is_draining

    async def gone(self) -> None:
        """Wait until the caller has gone."""
        if self.is_lost:
            return
        if self._lost is None or self._lost.done():
            self._lost = self._loop.create_future()
        await asyncio.shield(self._lost)

    # -- the end ----------------------------------------------------------------------------

    def sweep(self, now: float, *, idle: float, head: float, stall: float) -> None:
        """Close the connection if it has waited too long for its caller."""
        if self._lingering_until:
            if now > self._lingering_until:
                self.close()
        elif self._is_full and now - self._full_since > stall:
            self.abort()
        elif self._in_head and now - self._since > head:
            self._refuse(408, "the head of the request did not arrive in time")
        elif self._current is None and not self._in_head and now - self._since > idle:
            self.close()

    def _linger(self) -> None:
        """Close once the caller could read the answer: closing at once would drop it."""
        self._lingering_until = self._loop.time() + LINGER_SECONDS
        self._current = None
        self.go_on()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self._current is None

    def close_if_idle(self) -> None:
        """Close unless a request is under way."""
        if self.is_idle:
            self.close()

    def close(self) -> None:
        """Close once what was written is sent."""
        if not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if not self.is_lost:
            self._transport.abort()


class _TooMuch(Exception):
    """The head of a request is over its limits."""
