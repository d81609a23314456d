"""A WebSocket: the handshake and its frames. The `websockets` package speaks the protocol; the
connection moves the bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from trackyard.server.wire.exchange import ConnectionLine, Exchange, ProtocolClosed, RequestScope

if TYPE_CHECKING:
    from websockets.server import ServerProtocol

#: Bytes of one message from a client; ours only listen.
MESSAGE_BYTES = 1 << 20
#: Bytes of answers to pings and the like that a client may leave unread.
UNREAD_BYTES = 1 << 20
#: Bytes of messages that may wait for the application before the client is held back.
WAITING_BYTES = 1 << 20
#: Seconds for a client to answer our closing frame.
FAREWELL_SECONDS = 2.0
NORMAL = 1000
#: RFC 6455: the client breaks a rule, here by asking without reading the answers.
POLICY = 1008
#: Kinds of message, as the application sees them.
CLOSED, BYTES, TEXT = 0, 1, 2


class Message(NamedTuple):
    """What a client said; its kind is 0 when it has closed."""

    kind: int
    data: bytes | str = b""


class SocketExchange(Exchange):
    """An exchange that asked to become a WebSocket."""

    __slots__ = (
        "_inbox",
        "_is_plain",
        "_listening",
        "_protocol",
        "_raw",
        "_transport",
        "_waiting",
    )

    def __init__(
        self,
        line: ConnectionLine,
        scope: RequestScope,
        *,
        raw: tuple[bytes, list[tuple[bytes, bytes]]],
        transport: asyncio.Transport,
    ) -> None:
        super().__init__(line, scope, keeps_alive=False, is_old=False)
        self._raw = raw
        self._transport = transport
        self._protocol: ServerProtocol | None = None
        self._inbox: deque[Message] = deque()
        self._listening: asyncio.Future[None] | None = None
        self._waiting = 0
        self._is_plain = False

    # -- from the connection ----------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._is_plain:
            self._put(Message(BYTES, data))
            return
        if self._protocol is None:
            return
        self._protocol.receive_data(data)
        self._flush()
        if self._transport.get_write_buffer_size() > UNREAD_BYTES:
            self._cut()

    def _cut(self) -> None:
        """End with a client that sends without reading: what it is owed would grow for ever."""
        if self._line.is_lost or self._transport.is_closing():
            return
        self.close(POLICY)
        self._line.hold()
        self._put(Message(CLOSED))
        # Closing would wait until all of it was read.
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._transport.abort)

    def lost(self) -> None:
        """Note that the client has gone."""
        self._put(Message(CLOSED))

    def leave(self) -> None:
        """Close what the application has left open."""
        if self._protocol is None:
            self._transport.close()
        else:
            self.close(NORMAL)

    # -- for the application ----------------------------------------------------------------

    async def accept(self) -> SocketExchange:
        """Answer the handshake."""
        from websockets.http11 import Request
        from websockets.server import ServerProtocol

        if self._line.is_lost:
            raise ProtocolClosed
        protocol = ServerProtocol(max_size=MESSAGE_BYTES)
        target, lines = self._raw
        head = b"".join([b"%b: %b\r\n" % line for line in lines])
        protocol.receive_data(b"GET %b HTTP/1.1\r\n%b\r\n" % (target, head))
        request = next(iter(protocol.events_received()), None)
        if not isinstance(request, Request):
            raise ProtocolClosed
        answer = protocol.accept(request)
        protocol.send_response(answer)
        self.has_begun = True
        self._protocol = protocol
        self._flush()
        if answer.status_code != 101:
            self._transport.close()
            raise ProtocolClosed
        return self

    async def accept_plain(self, head: bytes) -> SocketExchange:
        """Answer the handshake with another server's answer; bytes then pass as they are."""
        if self._line.is_lost:
            raise ProtocolClosed
        self.has_begun = self._is_plain = True
        self._line.write(head)
        return self

    async def send_plain(self, data: bytes) -> None:
        """Send bytes as they are; waits while the client reads slowly."""
        self._line.write(data)
        await self._line.drained()

    async def receive(self) -> Message:
        """Return the client's next message, or that it has closed."""
        while not self._inbox:
            if self._line.is_lost:
                return Message(CLOSED)
            self._listening = asyncio.get_running_loop().create_future()
            await self._listening
        message = self._inbox.popleft()
        self._waiting -= len(message.data)
        if self._is_held and self._waiting <= WAITING_BYTES // 2:
            self._is_held = False
            self._line.go_on()
        return message

    async def send_str(self, text: str) -> None:
        """Send a message; waits while the client reads slowly."""
        await self._send("text", text.encode())

    async def send_bytes(self, data: bytes) -> None:
        """Send a message of bytes."""
        await self._send("binary", data)

    async def ping(self) -> None:
        """Keep the line awake."""
        await self._send("ping", b"")

    async def _send(self, kind: str, data: bytes) -> None:
        protocol = self._open_protocol()
        getattr(protocol, f"send_{kind}")(data)
        self._flush()
        await self._line.drained()

    def _open_protocol(self) -> ServerProtocol:
        from websockets.protocol import State

        if self._protocol is None or self._line.is_lost or self._protocol.state is not State.OPEN:
            raise ProtocolClosed
        return self._protocol

    def close(self, code: int | None = NORMAL) -> None:
        """Say good-bye with a code, or cut the line without one."""
        from websockets.protocol import State

        if self._line.is_lost:
            return
        if code is None or self._protocol is None or self._protocol.state is not State.OPEN:
            self._transport.close()
            return
        self._protocol.send_close(code)
        self._flush()
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._transport.close)

    # -- within -----------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send what the protocol wants sent and hand out what it has received."""
        protocol = self._protocol
        assert protocol is not None
        for event in protocol.events_received():
            self._hear(event)
        is_over = False
        for data in protocol.data_to_send():
            if data:
                self._line.write(data)
            else:
                is_over = True
        if is_over or protocol.close_expected():
            if is_over:
                self._transport.close()
            self._put(Message(CLOSED))

    def _hear(self, event: Any) -> None:
        from websockets.frames import Opcode

        opcode = getattr(event, "opcode", None)
        if opcode is Opcode.CLOSE:
            self._put(Message(CLOSED))
        elif opcode is Opcode.TEXT:
            self._put(Message(TEXT, bytes(event.data).decode("utf-8", "replace")))
        elif opcode is Opcode.BINARY:
            self._put(Message(BYTES, bytes(event.data)))

    def _put(self, message: Message) -> None:
        self._inbox.append(message)
        self._waiting += len(message.data)
        if self._waiting > WAITING_BYTES and not self._is_held:
            self._is_held = True
            self._line.hold()
        if self._listening is not None and not self._listening.done():
            self._listening.set_result(None)
