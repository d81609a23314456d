"""WebSockets to their clients: order, silence, a client that leaves, and the closing frame."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from granian._granian import RSGIProtocolClosed

from trackyard.server import sockets
from trackyard.server.sockets import TextSocket


class Line:
    """Stands for an accepted connection: takes text, and can be left by its client."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.left = asyncio.Event()
        self.closed: int | None = None

    async def accept(self) -> "Line":
        return self

    async def send_str(self, text: str) -> None:
        if self.left.is_set():
            raise RSGIProtocolClosed
        self.sent.append(text)
        self.heard.put_nowait(text)

    async def receive(self) -> Any:
        await self.left.wait()
        return SimpleNamespace(kind=0)

    def close(self, status: int) -> None:
        self.closed = status


async def opened(scheme: str = "http", client: str = "127.0.0.1:1") -> tuple[Line, TextSocket]:
    line = Line()
    scope = SimpleNamespace(scheme=scheme)
    request: Any = SimpleNamespace(proto=line, scope=scope, peer=client, path="/tail")
    return line, await TextSocket.accept(request)


async def told(*words: str) -> AsyncGenerator[str, None]:
    for word in words:
        yield word


async def test_pieces_go_out_in_order_and_the_client_stays() -> None:
    line, open_socket = await opened()
    assert await open_socket.pump(told("a", "b", "c")) is True
    assert line.sent == ["a", "b", "c"]


async def test_a_client_that_leaves_ends_the_source() -> None:
    """The source is closed at once, though it has nothing to say."""
    ended = asyncio.Event()

    async def silent() -> AsyncGenerator[str, None]:
        try:
            yield "first"
            await asyncio.Event().wait()
        finally:
            ended.set()

    line, open_socket = await opened()
    pumping = asyncio.create_task(open_socket.pump(silent()))
    assert await line.heard.get() == "first"
    line.left.set()
    assert await pumping is False
    assert ended.is_set()


async def test_silence_is_broken_by_empty_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies cut lines that carry nothing; an empty message prints nothing."""
    monkeypatch.setattr(sockets, "AWAKE_SECONDS", 0.001)
    line, open_socket = await opened()
    speak = asyncio.Event()

    async def late() -> AsyncGenerator[str, None]:
        await speak.wait()
        yield "at last"

    pumping = asyncio.create_task(open_socket.pump(late()))
    for _ in range(3):
        assert await line.heard.get() == ""
    speak.set()
    assert await pumping is True
    assert line.sent[-1] == "at last"
    assert set(line.sent[:-1]) == {""}


async def test_the_closing_frame_reaches_the_client_itself() -> None:
    """Code 1000 as two bytes in a frame of kind 8, on the connection of that client alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        bystander = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        other, _ = server.accept()
        with client, bystander, accepted, other:
            host, port = client.getsockname()
            line, open_socket = await opened(client=f"{host}:{port}")
            closing = asyncio.create_task(open_socket.close())
            await asyncio.sleep(0)
            assert client.recv(10) == b"\x88\x02\x03\xe8"
            line.left.set()
            await closing
            assert line.closed == 1000
            bystander.setblocking(False)
            with pytest.raises(BlockingIOError):
                bystander.recv(1)


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_without_a_way_to_say_why_it_is_closed_all_the_same(scheme: str) -> None:
    """Under TLS the frame cannot be written, and a client may be gone already."""
    line, open_socket = await opened(scheme=scheme)
    await open_socket.close()
    assert line.closed == 1000


async def test_a_cut_sends_no_frame() -> None:
    line, open_socket = await opened()
    await open_socket.close(None)
    assert line.closed == 1000
    assert line.sent == []
