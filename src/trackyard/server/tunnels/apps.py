"""The proxy to apps of jobs: one request, or one WebSocket, carried through a job's tunnel.

Owns which header lines pass and which are the server's alone. The app never sees a credential of
the server; it is told the secret that its own runner made, if it has one. Knows no permission.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from urllib.parse import quote

import httptools

from trackyard.core.errors import TooBusy
from trackyard.server.http.messages import Request
from trackyard.server.tunnels.tunnels import ByteStream, Tunnel, TunnelLost
from trackyard.server.wire import ProtocolClosed
from trackyard.server.wire.heads import Lines

TOKEN_ARGUMENT = "token"  # noqa: S105  # its name
HEAD_BYTES = 64 * 1024
HEAD_LINES = 200
#: Seconds for an app to begin its answer.
ANSWER_SECONDS = 300.0
_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    " transfer-encoding upgrade".split()
)
_OURS = frozenset("authorization x-ray-authorization cookie expect x-csrf-token".split())
#: Lines of an answer that would reach beyond the app's own pages.
_TOO_FAR = frozenset("service-worker-allowed clear-site-data public-key-pins".split())
CLOSED = 0


class _Answer:
    """An app's answer as it is parsed."""

    def __init__(self) -> None:
        self.lines: Lines = []
        self.has_head = False
        self.is_complete = False
        self.pieces: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header line."""
        if len(self.lines) < HEAD_LINES:
            self.lines.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    @property
    def ends_with_the_line(self) -> bool:
        """Whether the end of the connection is the end of the body."""
        return not any(name in ("content-length", "transfer-encoding") for name, _ in self.lines)

    def on_headers_complete(self) -> None:
        """Note that the head is here."""
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        """Note the end."""
        self.is_complete = True


async def carry(request: Request, tunnel: Tunnel, *, prefix: str, guard: Lines) -> None:
    """Carry one request to the app and its answer back, with lines that guard it."""
    stream = await _open(tunnel)
    try:
        sending = asyncio.create_task(_send(request, stream, tunnel, prefix))
        try:
            await _pass_on(request, stream, guard)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ProtocolClosed):
                await sending
    finally:
        await stream.close()


async def carry_socket(request: Request, tunnel: Tunnel, *, prefix: str) -> None:
    """Carry a WebSocket: the handshake is the app's to answer, frames pass as they are."""
    stream = await _open(tunnel)
    try:
        lines = _lines_to(request, tunnel)
        lines += [("connection", "Upgrade"), ("upgrade", "websocket")]
        await stream.write(_head(request, prefix, lines))
        head, rest = await _read_head(stream)
        status = head.split(b" ", 2)[1:2]
        if status != [b"101"]:
            raise TooBusy(
                f"the app refused the WebSocket with status {status[0].decode()[:3]}"
                if status
                else "the app did not answer as a web server does"
            )
        transport = await request.proto.accept_plain(_socket_head(head))
        if rest:
            await transport.send_plain(rest)
        await _relay(request, transport, stream)
    except TunnelLost:
        request.proto.close(None)
    finally:
        await stream.close()


async def _open(tunnel: Tunnel) -> ByteStream:
    return await tunnel.open("app")


async def _send(request: Request, stream: ByteStream, tunnel: Tunnel, prefix: str) -> None:
    """Send the request's head and body."""
    lines = [*_lines_to(request, tunnel), ("connection", "close")]
    is_chunked = request.header("transfer-encoding") is not None
    if is_chunked:
        lines.append(("transfer-encoding", "chunked"))
    await stream.write(_head(request, prefix, lines))
    async for piece in request.stream():
        if piece:
            await stream.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
    if is_chunked:
        await stream.write(b"0\r\n\r\n")


async def _pass_on(request: Request, stream: ByteStream, guard: Lines) -> None:
    """Send the app's answer on as it comes."""
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while not answer.has_head:
                data = await stream.read()
                if not data:
                    raise TooBusy(stream.words or "the app closed the connection", retry_after=1)
                parser.feed_data(data)
    except httptools.HttpParserError as fault:
        raise TooBusy(f"the app did not answer as a web server does: {fault}") from fault
    except (TimeoutError, TunnelLost) as fault:
        raise TooBusy("the app did not answer", retry_after=1) from fault
    lines = [*lines_back(answer.lines), *guard]
    transport = request.proto.response_stream(parser.get_status_code(), lines)
    if request.method != "HEAD":
        await _pass_body(stream, parser, answer, transport)


async def _pass_body(stream: ByteStream, parser: Any, answer: _Answer, transport: Any) -> None:
    try:
        while True:
            pieces, answer.pieces = answer.pieces, []
            for piece in pieces:
                await transport.send_bytes(piece)
            if answer.is_complete:
                return
            data = await stream.read()
            if not data:
                break
            parser.feed_data(data)
    except (TunnelLost, httptools.HttpParserError) as fault:
        raise ProtocolClosed from fault
    if not answer.ends_with_the_line:
        raise ProtocolClosed  # cut short: without its end the caller knows


async def _read_head(stream: ByteStream) -> tuple[bytes, bytes]:
    held = b""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while b"\r\n\r\n" not in held:
                data = await stream.read()
                if not data or len(held) > HEAD_BYTES:
                    raise TooBusy(stream.words or "the app closed the connection", retry_after=1)
                held += data
    except (TimeoutError, TunnelLost) as fault:
        raise TooBusy("the app did not answer", retry_after=1) from fault
    head, _, rest = held.partition(b"\r\n\r\n")
    return head, rest


async def _relay(request: Request, transport: Any, stream: ByteStream) -> None:
    """Pass bytes both ways until one end is done, or the credential is."""

    async def to_app() -> None:
        while (message := await transport.receive()).kind != CLOSED:
            await stream.write(message.data)

    async def to_client() -> None:
        with contextlib.suppress(TunnelLost):
            while data := await stream.read():
                await transport.send_plain(data)

    tasks = [asyncio.create_task(to_app()), asyncio.create_task(to_client())]
    waiting: set[asyncio.Future[Any]] = {*tasks}
    if request.ended is not None:
        waiting.add(request.ended)
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        request.proto.close(None)


# -- lines ----------------------------------------------------------------------------------


def _head(request: Request, prefix: str, lines: Lines) -> bytes:
    target = getattr(request.scope, "target", "") or quote(request.scope.path)
    if prefix and not target.startswith(prefix + "/"):
        target = prefix + target
    query = query_to(request.scope.query_string)
    target += f"?{query}" if query else ""
    text = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"{request.method} {target} HTTP/1.1\r\n{text}\r\n".encode("latin-1", "replace")


def query_to(query: str) -> str:
    """Return a query without the token that was for us."""
    parts = [part for part in query.split("&") if part.partition("=")[0] != TOKEN_ARGUMENT]
    return "&".join(parts)


def _lines_to(request: Request, tunnel: Tunnel) -> Lines:
    lines = lines_to(request.headers())
    secret = tunnel.info.get("authorization")
    if isinstance(secret, str) and secret.isprintable():
        lines.append(("authorization", secret))
    return lines


def lines_to(lines: Lines) -> Lines:
    """Return the header lines of a request that are for the app."""
    named = {
        word.strip().lower()
        for name, value in lines
        if name == "connection"
        for word in value.split(",")
    }
    found = []
    for name, value in lines:
        if name in _HOP or name in _OURS or name in named or name.startswith("x-yard-"):
            if name == "cookie" and (kept := cookies_to(value)):
                found.append(("cookie", kept))
            continue
        if name == "referer" and f"{TOKEN_ARGUMENT}=" in value:
            continue
        found.append((name, value))
    return found


def cookies_to(header: str) -> str:
    """Return the cookies that are the app's own."""
    parts = [part.strip() for part in header.split(";")]
    return "; ".join(
        part for part in parts if part and not part.lower().startswith(("yard_", "ray-auth"))
    )


def lines_back(lines: Lines) -> Lines:
    """Return the header lines of an app's answer that a browser may get."""
    found = []
    for name, value in lines:
        if name in _HOP or name in _TOO_FAR:
            continue
        if name == "set-cookie":
            if value.strip().lower().startswith(("yard_", "ray-auth")):
                continue
            # A cookie stays on the host it came from.
            parts = [part for part in value.split(";") if not _is_domain(part)]
            value = ";".join(parts)  # noqa: PLW2901
        found.append((name, value))
    return found


def _is_domain(part: str) -> bool:
    return part.strip().lower().startswith("domain=")


def _socket_head(head: bytes) -> bytes:
    """Return an app's agreement to a WebSocket without what would reach too far."""
    first, *rest = head.decode("latin-1").split("\r\n")
    lines = [
        (line.partition(":")[0].strip().lower(), line.partition(":")[2].strip()) for line in rest
    ]
    kept = [(name, value) for name, value in lines if name.startswith("sec-websocket-")]
    kept += [("connection", "Upgrade"), ("upgrade", "websocket")]
    text = "".join(f"{name}: {value}\r\n" for name, value in kept)
    return f"{first}\r\n{text}\r\n".encode("latin-1")
