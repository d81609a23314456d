"""Tunnels: what runners keep open to us, and the streams of bytes that we open on them.

Owns the frames, flow control and which attempt has a tunnel. Knows neither jobs nor callers: who
may open a stream is decided before. The other end, `runner.interactive.tunnel`, documents the
frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from typing import Any

from trackyard.core.errors import TooBusy
from trackyard.server.http.messages import Request
from trackyard.server.http.sockets import NORMAL, POLICY, RESTART
from trackyard.server.wire import ProtocolClosed

INFO, OPEN, DATA, CLOSE, WINDOW, RESIZE = range(6)
HEAD = struct.Struct(">BI")
WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 32 * 1024
#: How long whoever comes before the runner does is kept waiting.
WAIT_SECONDS = 15.0
PING_SECONDS = 15.0
INFO_BYTES = 16 * 1024
CLOSED, BYTES = 0, 1


class TunnelLost(Exception):
    """The stream ended because its tunnel did; its other end may live on."""


class ByteStream:
    """A stream of bytes both ways, held back at the pace of its readers."""

    def __init__(self, tunnel: Tunnel, number: int) -> None:
        self._tunnel = tunnel
        self._number = number
        self._pieces: list[bytes] = []
        self._credit = WINDOW_BYTES
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.is_over = False
        #: why the other end closed it
        self.words = ""
        self.is_lost = False

    async def read(self) -> bytes:
        """Return what has come, b"" at the end; raise if the tunnel was cut."""
        while not self._pieces:
            if self.is_lost:
                raise TunnelLost
            if self.is_over:
                return b""
            self._news.clear()
            await self._news.wait()
        data = b"".join(self._pieces)
        self._pieces = []
        if not self.is_over:
            await self._tunnel.send(WINDOW, self._number, struct.pack(">I", len(data)))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the other end reads slowly."""
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            while self._credit < len(piece):
                self._room.clear()
                await self._room.wait()
                if self.is_over:
                    return
            if self.is_over:
                return
            self._credit -= len(piece)
            await self._tunnel.send(DATA, self._number, piece)

    async def resize(self, columns: int, rows: int) -> None:
        """Tell a terminal its size."""
        size = json.dumps({"columns": columns, "rows": rows}).encode()
        await self._tunnel.send(RESIZE, self._number, size)

    async def close(self) -> None:
        """Let go of it."""
        self._tunnel.streams.pop(self._number, None)
        if not self.is_over:
            self.is_over = True
            await self._tunnel.send(CLOSE, self._number)

    def take(self, what: int, content: bytes) -> None:
        """Take a frame from the other end."""
        if what == DATA:
            self._pieces.append(content)
        elif what == WINDOW and len(content) == 4:
            self._credit += int.from_bytes(content, "big")
            self._room.set()
        elif what == CLOSE:
            self.end(content.decode("utf-8", "replace")[:500])
        self._news.set()

    def end(self, words: str, *, is_lost: bool = False) -> None:
        """Note that nothing more comes."""
        self.is_over, self.is_lost, self.words = True, is_lost, words
        self._news.set()
        self._room.set()


class Tunnel:
    """One runner's open line."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._next = 1
        self.streams: dict[int, ByteStream] = {}
        #: what the runner tells of itself
        self.info: dict[str, Any] = {}

    async def send(self, what: int, number: int, content: bytes = b"") -> None:
        """Send a frame; a line that is cut says so to its streams, not to the sender."""
        with contextlib.suppress(ProtocolClosed):
            await self._transport.send_bytes(HEAD.pack(what, number) + content)

    async def open(self, kind: str) -> ByteStream:
        """Open a stream to the terminal or the app."""
        number, self._next = self._next, self._next + 1
        stream = self.streams[number] = ByteStream(self, number)
        await self.send(OPEN, number, json.dumps({"kind": kind}).encode())
        return stream

    async def note_use(self) -> None:
        """Tell the runner that somebody uses the app."""
        await self.send(INFO, 0)

    async def serve(self) -> None:
        """Take frames until the runner closes or the line is cut."""
        while True:
            message = await self._transport.receive()
            if message.kind == CLOSED:
                return
            if message.kind != BYTES or len(message.data) < HEAD.size:
                continue
            what, number = HEAD.unpack_from(message.data)
            content = message.data[HEAD.size :]
            if what == INFO:
                self._inform(content)
                continue
            stream = self.streams.get(number)
            if stream is not None:
                stream.take(what, content)
                if stream.is_over:
                    self.streams.pop(number, None)

    def _inform(self, content: bytes) -> None:
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(content[:INFO_BYTES])
            if isinstance(found, dict):
                self.info = found

    async def keep_awake(self) -> None:
        """Ping now and then, so that no proxy drops a silent line."""
        with contextlib.suppress(ProtocolClosed):
            while True:
                await asyncio.sleep(PING_SECONDS)
                await self._transport.ping()

    def lost(self) -> None:
        """Tell every stream."""
        for stream in self.streams.values():
            if not stream.is_over:
                stream.end("the tunnel was cut", is_lost=True)
        self.streams.clear()


class Tunnels:
    """All tunnels of this server, by attempt."""

    def __init__(self) -> None:
        self._open: dict[str, Tunnel] = {}
        self._news: set[asyncio.Event] = set()
        self.is_stopping = False

    def of(self, attempt_id: str) -> Tunnel | None:
        """Return an attempt's tunnel, if its runner has one open."""
        return self._open.get(attempt_id)

    async def wait_for(self, attempt_id: str, seconds: float = WAIT_SECONDS) -> Tunnel:
        """Return an attempt's tunnel, waiting for a runner that is about to open it."""
        event = asyncio.Event()
        self._news.add(event)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = self._open.get(attempt_id)
                    if found is not None:
                        return found
                    event.clear()
                    await event.wait()
        except TimeoutError:
            raise TooBusy(
                "the job's node has not opened its way to this server (yet): it may still be"
                " starting, or cannot reach the server; `yard logs` says more",
                retry_after=5,
            ) from None
        finally:
            self._news.discard(event)

    async def keep(self, request: Request, attempt_id: str) -> None:
        """Serve a runner's tunnel for as long as it is open; a newer one takes its place."""
        tunnel = Tunnel(await request.proto.accept())
        before = self._open.get(attempt_id)
        if before is not None:
            before.lost()
        self._open[attempt_id] = tunnel
        for event in self._news:
            event.set()
        serving = asyncio.create_task(tunnel.serve())
        waking = asyncio.create_task(tunnel.keep_awake())
        waiting: set[asyncio.Future[Any]] = {serving}
        if request.ended is not None:
            waiting.add(request.ended)
        code = NORMAL
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                code = POLICY
        except asyncio.CancelledError:
            code = RESTART
            raise
        finally:
            if self._open.get(attempt_id) is tunnel:
                del self._open[attempt_id]
            tunnel.lost()
            for task in (serving, waking):
                task.cancel()
            request.proto.close(code)
