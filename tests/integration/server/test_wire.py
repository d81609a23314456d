"""The wire against real sockets: framing, keep-alive, limits, slow and vanished callers."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from trackyard.server.wire import HttpListener, ProtocolClosed, websocket

PLAIN = [("content-type", "text/plain")]
BIG = b"0123456789abcdef" * 65_536
#: Long enough for any head that is on its way, and soon over for one that never ends.
HEAD_SECONDS = 3.0


class App:
    """Answers by path, and remembers what happened."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "file"
        self.file.write_bytes(BIG)
        self.sent = 0
        self.cut = asyncio.Event()
        self.heard: list[str] = []
        self.go_on = asyncio.Event()
        self.may_leave = True

    async def __call__(self, scope: Any, proto: Any) -> None:
        handler = getattr(self, scope.path.strip("/").replace("/", "_") or "echo")
        await handler(scope, proto)

    async def echo(self, scope: Any, proto: Any) -> None:
        body = await proto()
        text = f"{scope.method} {scope.path}?{scope.query_string} ".encode()
        proto.response_bytes(200, PLAIN, text + body)

    async def unread(self, _: Any, proto: Any) -> None:
        proto.response_bytes(401, PLAIN, b"no")

    async def pieces(self, _: Any, proto: Any) -> None:
        stream = proto.response_stream(200, PLAIN)
        for piece in (b"one ", b"two ", b"three"):
            await stream.send_bytes(piece)

    async def short(self, _: Any, proto: Any) -> None:
        stream = proto.response_stream(200, [("content-length", "100")])
        await stream.send_bytes(b"not a hundred")

    async def fails(self, _: Any, proto: Any) -> None:
        stream = proto.response_stream(200, PLAIN)
        await stream.send_bytes(b"begun")
        raise ValueError("the source broke")

    async def whole_file(self, _: Any, proto: Any) -> None:
        await proto.response_file(200, PLAIN, str(self.file))

    async def part_file(self, _: Any, proto: Any) -> None:
        await proto.response_file(206, PLAIN, str(self.file), 16, 32)

    async def flood(self, _: Any, proto: Any) -> None:
        stream = proto.response_stream(200, PLAIN)
        try:
            for _ in range(200):
                await stream.send_bytes(BIG)
                self.sent += 1
        except ProtocolClosed:
            self.cut.set()
            raise

    async def upload(self, _: Any, proto: Any) -> None:
        size = 0
        try:
            async for piece in proto:
                size += len(piece)
                await asyncio.sleep(0)
        except ProtocolClosed:
            self.cut.set()
            raise
        proto.response_bytes(200, PLAIN, str(size).encode())

    async def sleep(self, _: Any, proto: Any) -> None:
        await proto.client_disconnect()
        self.cut.set()

    async def created(self, _: Any, proto: Any) -> None:
        """Answer with many bytes once the test says so; note whether any of them left."""
        self.heard.append("asked")
        await self.go_on.wait()
        left = proto.hand_over(200, PLAIN, 8 * BIG, self.claim)
        self.heard.append("left" if left else "lost")
        if not left:
            self.cut.set()
            raise ProtocolClosed

    def claim(self) -> bool:
        self.heard.append("claimed")
        return self.may_leave

    async def socket(self, _: Any, proto: Any) -> None:
        transport = await proto.accept()
        await transport.send_str("hello")
        message = await transport.receive()
        self.heard.append(str(message.data))
        proto.close(4321)

    async def listening(self, _: Any, proto: Any) -> None:
        transport = await proto.accept()
        while (await transport.receive()).kind != websocket.CLOSED:
            pass

    async def no_socket(self, _: Any, proto: Any) -> None:
        proto.response_bytes(403, PLAIN, b"not for you")


class Caller:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = b""
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readline()
        return int(lines[0].split()[1]), headers, body

    async def ended(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 120)


@pytest.fixture
async def app(tmp_path: Path) -> App:
    return App(tmp_path)


@pytest.fixture
async def listener(app: App) -> AsyncIterator[HttpListener]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    opened = HttpListener(app, host="127.0.0.1", port=number, head_seconds=HEAD_SECONDS)
    await opened.start()
    yield opened
    await opened.stop(1.0)


@pytest.fixture
async def port(listener: HttpListener) -> int:
    return listener._port


@pytest.fixture
async def caller(port: int) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    yield Caller(reader, writer)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_one_connection_carries_many_requests(caller: Caller) -> None:
    for number in range(3):
        await caller.say(
            b"POST /?n=%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" % number
        )
        status, _, body = await caller.hear()
        assert (status, body) == (200, b"POST /?n=%d hi" % number)


async def test_requests_sent_ahead_are_answered_in_order(caller: Caller) -> None:
    ask = b"".join(b"GET /?n=%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(40))
    await caller.say(ask)
    answers = [(await caller.hear())[2] for _ in range(40)]
    assert answers == [b"GET /?n=%d " % n for n in range(40)]


async def test_a_path_is_decoded_once(caller: Caller) -> None:
    await caller.say(b"GET /?x=%2Fy HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await caller.hear())[2] == b"GET /?x=%2Fy "
    await caller.say(b"GET http://elsewhere/?q=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await caller.hear())[2] == b"GET /?q=1 "


async def test_a_chunked_body_comes_in_and_a_stream_goes_out_in_chunks(caller: Caller) -> None:
    await caller.say(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await caller.say(b"3\r\nabc\r\n")
    await caller.say(b"2\r\nde\r\n0\r\n\r\n")
    assert (await caller.hear())[2] == b"POST /? abcde"
    await caller.say(b"GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await caller.hear())[2] == b"one two three"


async def test_an_old_caller_knows_the_end_of_a_stream_by_the_close(caller: Caller) -> None:
    await caller.say(b"GET /pieces HTTP/1.0\r\n\r\n")
    assert (await caller.ended()).endswith(b"\r\n\r\none two three")


async def test_who_expects_a_word_before_sending_gets_it(caller: Caller) -> None:
    await caller.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    )
    assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await caller.say(b"ok")
    assert (await caller.hear())[2] == b"POST /? ok"


async def test_a_refusal_before_a_large_body_is_readable_and_closes(caller: Caller) -> None:
    await caller.say(b"PUT /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        for _ in range(20):
            await caller.say(BIG)
    status, headers, body = await caller.hear()
    assert (status, headers["connection"], body) == (401, "close", b"no")


async def test_a_refusal_before_a_small_body_keeps_the_connection(caller: Caller) -> None:
    await caller.say(b"PUT /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
    assert (await caller.hear())[0] == 401
    await caller.say(b"12345GET /?next HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await caller.hear())[2] == b"GET /?next "


async def test_a_head_request_gets_the_length_and_no_body(caller: Caller) -> None:
    await caller.say(b"HEAD /whole/file HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await caller.reader.readuntil(b"\r\n\r\n")
    assert b"content-length: 1048576\r\n" in head
    await caller.say(b"GET /part/file HTTP/1.1\r\nHost: x\r\n\r\n")
    status, _, body = await caller.hear()
    assert (status, body) == (206, b"0123456789abcdef")


async def test_an_answer_shorter_than_promised_is_cut_not_padded(caller: Caller) -> None:
    for path in (b"/short", b"/fails"):
        reader, writer = await asyncio.open_connection(
            *caller.writer.get_extra_info("peername")[:2]
        )
        writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        with contextlib.suppress(ConnectionError):
            heard = await asyncio.wait_for(reader.read(), 120)
            assert not heard.endswith(b"0\r\n\r\n")
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
    ],
)
async def test_what_is_not_http_is_refused_and_the_connection_closed(
    caller: Caller, request_bytes: bytes, status: int
) -> None:
    await caller.say(request_bytes)
    heard = await caller.ended()
    assert heard.startswith(b"HTTP/1.1 %d " % status) or heard == b""
    if status == 400:
        assert heard


async def test_a_slow_reader_holds_the_stream_back(port: int, app: App) -> None:
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.connect(("127.0.0.1", port))
        slow.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.5)
        assert app.sent < 20
    await asyncio.wait_for(app.cut.wait(), 120)


async def test_an_upload_that_breaks_off_is_told_to_the_application(
    caller: Caller, app: App
) -> None:
    await caller.say(b"PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n" + BIG)
    caller.writer.close()
    await asyncio.wait_for(app.cut.wait(), 120)


async def test_a_large_upload_arrives_whole(caller: Caller) -> None:
    await caller.say(
        b"PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (8 * len(BIG))
    )
    for _ in range(8):
        await caller.say(BIG)
    assert (await caller.hear())[2] == b"8388608"


async def test_the_application_learns_that_its_caller_has_gone(caller: Caller, app: App) -> None:
    await caller.say(b"GET /sleep HTTP/1.1\r\nHost: x\r\n\r\n")
    caller.writer.close()
    await asyncio.wait_for(app.cut.wait(), 120)


CREATE = b"POST /created HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


async def test_an_answer_handed_over_arrives_whole_and_in_its_turn(
    caller: Caller, app: App
) -> None:
    app.go_on.set()
    ahead, behind = b"GET /?first HTTP/1.1\r\n\r\n", b"GET /?last HTTP/1.1\r\n\r\n"
    await caller.say(ahead + CREATE + behind)
    assert (await caller.hear())[2] == b"GET /?first "
    assert (await caller.hear())[2] == 8 * BIG
    assert (await caller.hear())[2] == b"GET /?last "
    assert app.heard == ["asked", "claimed", "left"]


async def test_an_answer_to_a_caller_who_has_gone_is_not_even_begun(port: int, app: App) -> None:
    """The end of the connection counts though it came with the request and was never read."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        line.sendall(CREATE)
    app.go_on.set()
    await asyncio.wait_for(app.cut.wait(), 120)
    assert app.heard == ["asked", "lost"]


async def test_an_answer_that_may_not_leave_does_not(caller: Caller, app: App) -> None:
    app.may_leave = False
    app.go_on.set()
    await caller.say(CREATE)
    with contextlib.suppress(ConnectionError):
        assert await caller.ended() == b""
    assert app.heard == ["asked", "claimed", "lost"]


async def test_a_websocket_talks_both_ways_and_closes_with_a_code(port: int, app: App) -> None:
    async with connect(f"ws://127.0.0.1:{port}/socket") as client:
        assert await client.recv() == "hello"
        await client.send("and you")
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4321
    assert app.heard == ["and you"]


def certificate(folder: Path) -> tuple[str, str]:
    """Make a certificate for 127.0.0.1 that nobody else trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


async def test_under_tls_streams_and_closing_codes_are_the_same(
    app: App, port: int, tmp_path: Path
) -> None:
    tls = certificate(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        secure = int(free.getsockname()[1])
    assert secure != port
    listener = HttpListener(app, host="127.0.0.1", port=secure, tls=tls)
    await listener.start()
    context = ssl.create_default_context(cafile=tls[0])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", secure, ssl=context)
        caller = Caller(reader, writer)
        await caller.say(b"GET /whole/file HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await caller.hear())[2] == BIG
        app.go_on.set()
        await caller.say(CREATE)
        assert (await caller.hear())[2] == 8 * BIG
        writer.close()
        async with connect(f"wss://127.0.0.1:{secure}/socket", ssl=context) as client:
            assert await client.recv() == "hello"
            await client.send("and you")
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4321
    finally:
        await listener.stop(1.0)


async def test_pings_whose_answers_are_never_read_end_the_websocket(
    listener: HttpListener, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client leaves unread is bounded; beyond it the connection ends."""
    monkeypatch.setattr(websocket, "FAREWELL_SECONDS", 0.0)
    with socket.socket() as silent:
        silent.connect(("127.0.0.1", port))
        silent.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(
            silent,
            b"GET /listening HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        while not listener.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (connection,) = listener.connections
        pings = (b"\x89\xfd\0\0\0\0" + b"p" * 125) * 500
        most = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(2000):
                await loop.sock_sendall(silent, pings)
                most = max(most, connection._transport.get_write_buffer_size())
                await asyncio.sleep(0)
                if not listener.connections:
                    break
        async with asyncio.timeout(120):
            while listener.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    # One read of the socket may bring its answers on top.
    assert websocket.UNREAD_BYTES < most + 1 < 2 * websocket.UNREAD_BYTES


async def test_a_new_certificate_is_taken_and_a_broken_one_is_not(
    app: App, port: int, tmp_path: Path
) -> None:
    """Open connections go on; new ones see the new certificate."""
    tls = certificate(tmp_path)
    listener = HttpListener(app, host="127.0.0.1", port=0, tls=tls)
    await listener.start()
    try:
        assert listener._server is not None
        secure = listener._server.sockets[0].getsockname()[1]

        async def shown() -> bytes:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            _, writer = await asyncio.open_connection("127.0.0.1", secure, ssl=context)
            found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            return found

        first = await shown()
        certificate(tmp_path)
        listener.reload_certificate()
        second = await shown()
        assert second != first
        (tmp_path / "key.pem").write_text("not a key")
        listener.reload_certificate()
        assert await shown() == second
    finally:
        await listener.stop(1.0)


async def test_a_websocket_may_be_refused_in_plain_http(port: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"ws://127.0.0.1:{port}/no/socket"):
            pass
    assert refused.value.response.status_code == 403


async def test_a_head_that_never_ends_is_given_up(caller: Caller) -> None:
    await caller.say(b"GET / HTTP/1.1\r\nHost:")
    heard = await caller.ended()
    assert heard.startswith(b"HTTP/1.1 408 ")


async def test_silent_sockets_make_room_for_callers(app: App) -> None:
    """At the limit of connections those who never asked go first, and everyone else is served."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    listener = HttpListener(app, host="127.0.0.1", port=number, most=10)
    await listener.start()
    old = Caller(*await asyncio.open_connection("127.0.0.1", number))
    await old.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await old.hear())[0] == 200
    crowd = [await asyncio.open_connection("127.0.0.1", number) for _ in range(40)]
    for _, writer in crowd[20:]:
        writer.write(b"GET / HTTP/1.1\r\nX-Half: ")
    new = Caller(*await asyncio.open_connection("127.0.0.1", number))
    for caller in (new, old):
        await caller.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asyncio.wait_for(caller.hear(), 120))[0] == 200
    assert len(listener.connections) <= 10
    for _, writer in [*crowd, (None, old.writer), (None, new.writer)]:
        writer.close()
    await listener.stop(1.0)
