"""WebSockets to their clients: order, silence, a client that leaves, and the closing frame."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from trackyard.server.http import sockets
from trackyard.server.http.sockets import TextSocket
from trackyard.server.wire import ProtocolClosed


class Line:
    """Stands for an accepted connection: takes text, and can be left by its client."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.left = asyncio.Event()
        self.pings = 0
        self.pinged_thrice = asyncio.Event()
        self.closed: list[int | None] = []

    async def accept(self) -> "Line":
        return self

    async def send_str(self, text: str) -> None:
        if self.left.is_set():
            raise ProtocolClosed
        self.sent.append(text)
        self.heard.put_nowait(text)

    async def receive(self) -> Any:
        await self.left.wait()
        return SimpleNamespace(kind=0)

    async def ping(self) -> None:
        self.pings += 1
        if self.pings == 3:
            self.pinged_thrice.set()

    def close(self, code: int | None) -> None:
        self.closed.append(code)


async def opened() -> tuple[Line, TextSocket]:
    line = Line()
    request: Any = SimpleNamespace(proto=line, path="/tail", ended=None)
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


async def test_silence_is_broken_by_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies cut lines that carry nothing; a ping is no message."""
    monkeypatch.setattr(sockets, "AWAKE_SECONDS", 0.001)
    line, open_socket = await opened()
    speak = asyncio.Event()

    async def late() -> AsyncGenerator[str, None]:
        await speak.wait()
        yield "at last"

    pumping = asyncio.create_task(open_socket.pump(late()))
    await line.pinged_thrice.wait()
    speak.set()
    assert await pumping is True
    assert line.sent == ["at last"]


async def test_it_is_closed_with_its_code_and_waits_for_the_client() -> None:
    line, open_socket = await opened()
    closing = asyncio.create_task(open_socket.close(1001))
    await asyncio.sleep(0)
    assert not closing.done()
    line.left.set()
    await closing
    assert line.closed == [1001]


async def test_a_client_that_does_not_answer_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "FAREWELL_SECONDS", 0.001)
    line, open_socket = await opened()
    await open_socket.close()
    assert line.closed == [1000]


async def test_a_cut_sends_no_code() -> None:
    line, open_socket = await opened()
    await open_socket.close(None)
    assert line.closed == [None]
    assert line.sent == []


async def test_a_socket_ends_with_the_credential_that_opened_it() -> None:
    """Once the credential has ended nothing more is sent, however much there is to tell."""
    line = Line()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    request: Any = SimpleNamespace(proto=line, path="/tail", ended=ended)
    open_socket = await TextSocket.accept(request)

    async def endless() -> AsyncGenerator[str, None]:
        yield "one"
        ended.set_result(None)
        await asyncio.Event().wait()
        yield "never"

    async with asyncio.timeout(120):
        assert await open_socket.pump(endless())
    assert open_socket.is_refused
    assert line.sent == ["one"]
    line.left.set()
    await open_socket.close(sockets.POLICY)
    assert line.closed == [sockets.POLICY]
