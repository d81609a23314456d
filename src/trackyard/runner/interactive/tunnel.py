"""The tunnel: a WebSocket from the runner out to the server, on which the server opens streams.

A stream is a view of the attempt's terminal or a connection to its app on the node's loopback.
Owns the connection, reconnecting, frames and flow control; one thread does all of it. The server
names no address: where a stream leads is decided here. Standard library alone.

A message is one byte (what), four bytes (which stream) and its content:
INFO json · OPEN json · DATA bytes · CLOSE words · WINDOW number · RESIZE json
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import struct
import threading
import time
from typing import Any, Dict, Optional
from urllib.parse import quote, urlsplit

from trackyard.runner.interactive import websocket
from trackyard.runner.interactive.terminal import Terminal
from trackyard.runner.spec import RunnerSpec

INFO, OPEN, DATA, CLOSE, WINDOW, RESIZE = range(6)
HEAD = struct.Struct(">BI")
#: Bytes of a stream that may be under way before its receiver says it has room again.
WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 32 * 1024
READ_BYTES = 256 * 1024
MOST_STREAMS = 256
#: What may wait for the line as a whole before streams are no longer read.
MOST_WAITING = 1024 * 1024
CONNECT_SECONDS = 20.0
TICK_SECONDS = 1.0
PING_SECONDS = 15.0
#: Without a word for so long, the line counts as cut.
SILENT_SECONDS = 45.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.25, 5.0
#: Seconds to pass on the last output of a shell that has ended.
LAST_SECONDS = 3.0
#: Answers that asking again will not change: the attempt is over, or another holds the job.
FINAL = frozenset({400, 401, 403, 404, 409, 410})


class TunnelStream:
    """What the server opened, as this side keeps it."""

    def __init__(self, number: int, app: Optional[socket.socket], position: int) -> None:
        self.number = number
        #: the connection to the app; None for a view of the terminal
        self.app = app
        self.position = position
        self.credit = WINDOW_BYTES
        self.typed = bytearray()
        self.is_ending = False


class RunnerTunnel(threading.Thread):
    """Keeps a tunnel open for as long as the attempt lives."""

    def __init__(
        self,
        spec: RunnerSpec,
        *,
        terminal: Optional[Terminal] = None,
        app_port: int = 0,
        counts_bytes: bool = True,
    ) -> None:
        super().__init__(name="tunnel", daemon=True)
        if spec.report is None:
            raise ValueError("a tunnel needs a server")
        self._spec = spec
        self._report = spec.report
        self._terminal = terminal
        self._app_port = app_port
        #: whether whatever is sent to the app counts as its use; else the server says what does
        self._counts_bytes = counts_bytes
        #: what the server is told, now and after each reconnect
        self._info: Dict[str, Any] = {}
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._streams: Dict[int, TunnelStream] = {}
        self._out = bytearray()
        self._ended = threading.Event()
        self._told = threading.Event()
        self._reader = websocket.FrameReader()
        self._heard = self._pinged = 0.0
        self._line: Optional[socket.socket] = None
        #: when somebody last typed or asked the app for something
        self.last_used = time.monotonic()

    # From other threads

    def tell(self, **facts: Any) -> None:
        """Let the server know something, now and after each reconnect."""
        self._info = {**self._info, **facts}
        self._told.set()
        self.wake()

    def wake(self) -> None:
        """Have the thread look around."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"\0")

    def finish(self) -> None:
        """Pass on the last output, say good-bye and end."""
        self._ended.set()
        self.wake()
        self.join(timeout=LAST_SECONDS + 1)

    # The thread

    def run(self) -> None:
        """Connect, serve, and connect again, until the attempt is over."""
        pause = FIRST_RETRY_SECONDS
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._line = self._connect()
                self._serve(self._line)
            except websocket.WrongAnswer as fault:
                if fault.status in FINAL:
                    return
            except OSError:
                pass
            finally:
                self._drop()
            if time.monotonic() - began > LAST_RETRY_SECONDS:
                pause = FIRST_RETRY_SECONDS
            self._ended.wait(pause)
            pause = min(pause * 2, LAST_RETRY_SECONDS)

    def _connect(self) -> socket.socket:
        parts = urlsplit(self._report.url)
        secure = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if secure else 80)
        line = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure:
                line = ssl.create_default_context().wrap_socket(line, server_hostname=host)
            request, key = websocket.handshake(
                parts.netloc.rpartition("@")[2],
                f"{parts.path}/api/v1/attempts/{quote(self._spec.attempt_id)}/tunnel",
                {
                    "Authorization": f"Bearer {self._report.token}",
                    "X-Yard-Epoch": str(self._spec.epoch),
                },
            )
            line.sendall(request)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = line.recv(4096)
                if not piece or len(head) > websocket.HEAD_BYTES:
                    raise OSError("the server closed the connection")
                head += piece
            head, _, rest = head.partition(b"\r\n\r\n")
            websocket.check_answer(head, key)
            line.setblocking(False)
        except BaseException:
            line.close()
            raise
        self._reader = websocket.FrameReader()
        self._heard = self._pinged = time.monotonic()
        self._told.set()
        self._take(rest)
        return line

    def _serve(self, line: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            selector.register(line, selectors.EVENT_READ)
            last_call: Optional[float] = None
            while True:
                if self._ended.is_set() and last_call is None:
                    last_call = time.monotonic() + LAST_SECONDS
                self._step(selector, line)
                if last_call is None:
                    continue
                if self._is_all_told() or time.monotonic() > last_call:
                    self._say_goodbye(line)
                    return

    def _step(self, selector: selectors.BaseSelector, line: socket.socket) -> None:
        """Move what can be moved, then wait for more."""
        if self._told.is_set():
            self._told.clear()
            self._send(INFO, 0, json.dumps(self._info).encode())
        if self._terminal is not None:
            self._terminal.warn_if_due()
        now = time.monotonic()
        if now - self._heard > SILENT_SECONDS:
            raise OSError("the server has fallen silent")
        if now - self._pinged > PING_SECONDS:
            self._pinged = now
            self._out += websocket.frame(b"", websocket.PING)
        is_behind = self._push()
        self._write(line)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        selector.modify(line, wanted)
        self._watch(selector)
        pending = isinstance(line, ssl.SSLSocket) and line.pending() > 0
        for key, events in selector.select(0 if pending or is_behind else TICK_SECONDS):
            if key.fileobj == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif key.data is not None:
                self._move(key.data, events)
        self._read(line)

    def _watch(self, selector: selectors.BaseSelector) -> None:
        """Wait on the streams' own sockets, for what they are ready for on our side."""
        known = {key.data.number: key for key in selector.get_map().values() if key.data}
        # First those that are gone: a new socket may have the number of an old one.
        for number in [number for number in known if number not in self._streams]:
            selector.unregister(known.pop(number).fileobj)
        is_full = len(self._out) > MOST_WAITING
        for stream in list(self._streams.values()):
            if stream.app is None:
                continue
            events = 0 if stream.credit <= 0 or is_full or stream.is_ending else 1
            events |= selectors.EVENT_WRITE if stream.typed else 0
            key = known.pop(stream.number, None)
            if key is not None and not events:
                selector.unregister(stream.app)
            elif key is not None and key.events != events:
                selector.modify(stream.app, events, stream)
            elif key is None and events:
                selector.register(stream.app, events, stream)

    # The line

    def _send(self, what: int, number: int, content: bytes = b"") -> None:
        self._out += websocket.frame(HEAD.pack(what, number) + content)

    def _write(self, line: socket.socket) -> None:
        while self._out:
            try:
                sent = line.send(bytes(self._out[:READ_BYTES]))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._out[:sent]

    def _read(self, line: socket.socket) -> None:
        try:
            data = line.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        if not data:
            raise OSError("the server closed the connection")
        self._take(data)

    def _take(self, data: bytes) -> None:
        if data:
            self._heard = time.monotonic()
        for kind, content in self._reader.feed(data):
            if kind == websocket.PING:
                self._out += websocket.frame(content, websocket.PONG)
            elif kind == websocket.CLOSE:
                raise OSError("the server closed the tunnel")
            elif kind == websocket.BINARY and len(content) >= HEAD.size:
                what, number = HEAD.unpack_from(content)
                self._heed(what, number, content[HEAD.size :])

    def _say_goodbye(self, line: socket.socket) -> None:
        for number in list(self._streams):
            self._close(number, "the job has ended")
        self._out += websocket.frame(struct.pack(">H", 1000), websocket.CLOSE)
        with contextlib.suppress(OSError):
            line.settimeout(LAST_SECONDS)
            line.sendall(bytes(self._out))

    def _drop(self) -> None:
        for stream in self._streams.values():
            if stream.app is not None:
                stream.app.close()
        self._streams.clear()
        self._out.clear()
        if self._line is not None:
            self._line.close()
            self._line = None

    # What the server says

    def _heed(self, what: int, number: int, content: bytes) -> None:
        if what == OPEN:
            self._open(number, content)
            return
        if what == INFO:
            self.last_used = time.monotonic()
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        if what == DATA:
            stream.typed += content
            if self._counts_bytes:
                self.last_used = time.monotonic()
        elif what == WINDOW and len(content) == 4:
            stream.credit += int.from_bytes(content, "big")
        elif what == RESIZE and self._terminal is not None:
            size = _json(content)
            with contextlib.suppress(TypeError, ValueError):
                self._terminal.resize(int(size["columns"]), int(size["rows"]))
        elif what == CLOSE:
            stream.is_ending = True
            if not stream.typed:
                self._close(number, None)

    def _open(self, number: int, content: bytes) -> None:
        kind = _json(content).get("kind")
        if len(self._streams) >= MOST_STREAMS:
            self._send(CLOSE, number, b"too many streams are open on the node")
        elif kind == "terminal" and self._terminal is not None:
            position = self._terminal.replay_from()
            self._streams[number] = TunnelStream(number, None, position)
        elif kind == "app" and self._app_port:
            self._open_app(number)
        else:
            self._send(CLOSE, number, b"this job has nothing of that kind")

    def _open_app(self, number: int) -> None:
        app = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        app.settimeout(2.0)
        try:
            # On loopback this answers at once, or is refused.
            app.connect(("127.0.0.1", self._app_port))
        except OSError:
            app.close()
            self._send(CLOSE, number, b"the app does not answer yet")
            return
        app.setblocking(False)
        self._streams[number] = TunnelStream(number, app, 0)

    # Streams

    def _push(self) -> bool:
        """Hand typed bytes to the terminal and its output to the viewers; tell if more waits."""
        if self._terminal is None:
            return False
        is_behind = False
        for stream in list(self._streams.values()):
            if stream.app is not None:
                continue
            if stream.typed:
                self._typed(stream, self._terminal.write(bytes(stream.typed[:PIECE_BYTES])))
                is_behind = is_behind or bool(stream.typed)
            if len(self._out) > MOST_WAITING or stream.credit <= 0:
                continue
            limit = min(PIECE_BYTES, stream.credit)
            data, stream.position = self._terminal.read(stream.position, limit)
            if data:
                stream.credit -= len(data)
                self._send(DATA, stream.number, data)
                is_behind = True
        return is_behind

    def _typed(self, stream: TunnelStream, count: int) -> None:
        if not count:
            time.sleep(0.01)  # the terminal's own buffer is full: its program does not read
            return
        del stream.typed[:count]
        self._send(WINDOW, stream.number, struct.pack(">I", count))
        if stream.is_ending and not stream.typed:
            self._close(stream.number, None)

    def _move(self, stream: TunnelStream, events: int) -> None:
        """Carry bytes between a stream and the app."""
        app = stream.app
        if app is None or stream.number not in self._streams:
            return
        try:
            if events & selectors.EVENT_WRITE and stream.typed:
                self._typed(stream, app.send(bytes(stream.typed[:READ_BYTES])))
            if events & selectors.EVENT_READ and stream.number in self._streams:
                data = app.recv(min(PIECE_BYTES, stream.credit))
                if not data:
                    self._close(stream.number, "")
                    return
                stream.credit -= len(data)
                self._send(DATA, stream.number, data)
        except BlockingIOError:
            return
        except OSError:
            self._close(stream.number, "the app closed the connection")

    def _close(self, number: int, words: Optional[str]) -> None:
        """Drop a stream; with words, tell the server."""
        stream = self._streams.pop(number, None)
        if stream is not None and stream.app is not None:
            stream.app.close()
        if words is not None:
            self._send(CLOSE, number, words.encode())

    def _is_all_told(self) -> bool:
        if self._out or self._told.is_set():
            return False
        terminal = self._terminal
        return terminal is None or not any(
            stream.credit > 0 and terminal.read(stream.position, 1)[0]
            for stream in self._streams.values()
            if stream.app is None
        )


def _json(content: bytes) -> Dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
