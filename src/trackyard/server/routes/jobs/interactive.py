"""Interactive work over HTTP: runners' tunnels, and terminals for the owners of jobs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from trackyard.core.errors import Conflict
from trackyard.queue.attempts.heartbeats import live_attempt
from trackyard.queue.submit.interactive import AppAccess, find_door
from trackyard.server.app import taken_over
from trackyard.server.http.messages import Request, Response
from trackyard.server.http.sockets import NORMAL, POLICY, RESTART
from trackyard.server.routes.jobs.attempts import epoch_of
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.server.tunnels.tunnels import ByteStream, TunnelLost
from trackyard.server.wire import ProtocolClosed

PING_SECONDS = 20.0
#: Seconds for a client to read the last words before the line is closed.
FAREWELL_SECONDS = 2.0
CLOSED, BYTES, TEXT = 0, 1, 2
MOST_CELLS = 4096


class TerminalSize(msgspec.Struct):
    """A terminal's size in characters."""

    columns: int
    rows: int


class InteractiveRoutes:
    """Handlers of tunnels and terminals."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._tunnels = services.tunnels

    async def tunnel(self, request: Request) -> Response:
        """GET /api/v1/attempts/{attempt}/tunnel: a runner's WebSocket, kept while it runs."""
        attempt_id, epoch = request.params["attempt"], epoch_of(request)
        await self._database.peek(
            lambda reader: live_attempt(
                reader, request.principal, attempt_id, epoch, ended_too=False
            )
        )
        await self._tunnels.keep(request, attempt_id)
        return taken_over()

    async def terminal(self, request: Request) -> Response:
        """GET /api/v1/jobs/{job}/terminal: a WebSocket to the terminal of a running job.

        Bytes are what is typed and printed; text is {"columns": …, "rows": …}.
        """
        size = TerminalSize(request.number("columns", 80), request.number("rows", 24))
        door = await self._door(request)
        if door.kind != "terminal":
            raise Conflict(f"job {door.job_id} has no terminal: it serves an app, in the browser")
        tunnel = await self._tunnels.wait_for(door.attempt_id)
        transport = await request.proto.accept()
        stream = await tunnel.open("terminal")
        await stream.resize(*_bounded(size))
        code = await _relay(request, transport, stream)
        await stream.close()
        request.proto.close(code)
        if code is not None:
            with contextlib.suppress(TimeoutError, ProtocolClosed):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    while (await transport.receive()).kind != CLOSED:
                        pass
        return taken_over()

    async def _door(self, request: Request) -> AppAccess:
        return await self._database.read(
            lambda reader: find_door(reader, request.principal, request.params["job"])
        )


async def _relay(request: Request, transport: Any, stream: ByteStream) -> int | None:
    """Carry bytes both ways; return the code to close with, None for a client that is gone."""
    typing = asyncio.create_task(_typed(transport, stream))
    printing = asyncio.create_task(_printed(transport, stream))
    waking = asyncio.create_task(_keep_awake(transport))
    waiting: set[asyncio.Future[Any]] = {typing, printing}
    if request.ended is not None:
        waiting.add(request.ended)
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if printing.done():
            return NORMAL if printing.result() else RESTART
        return None if typing.done() else POLICY
    except TunnelLost:
        return RESTART
    except ProtocolClosed:
        return None
    finally:
        for task in (typing, printing, waking):
            task.cancel()
        await asyncio.gather(typing, printing, waking, return_exceptions=True)


async def _typed(transport: Any, stream: ByteStream) -> None:
    while True:
        message = await transport.receive()
        if message.kind == CLOSED:
            return
        if message.kind == BYTES:
            await stream.write(message.data)
            continue
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            size = msgspec.json.decode(message.data, type=TerminalSize)
            await stream.resize(*_bounded(size))


async def _printed(transport: Any, stream: ByteStream) -> bool:
    """Print until the shell has ended; tell whether that is so, and not a cut line."""
    try:
        while data := await stream.read():
            await transport.send_bytes(data)
    except TunnelLost:
        return False
    return True


async def _keep_awake(transport: Any) -> None:
    with contextlib.suppress(ProtocolClosed):
        while True:
            await asyncio.sleep(PING_SECONDS)
            await transport.ping()


def _bounded(size: TerminalSize) -> tuple[int, int]:
    return tuple(max(1, min(MOST_CELLS, value)) for value in (size.columns, size.rows))  # type: ignore[return-value]


def routes(services: Services) -> list[Route]:
    """Return the routes of interactive work."""
    do = InteractiveRoutes(services)
    return [
        Route(
            method="GET",
            path="/api/v1/attempts/{attempt}/tunnel",
            handler=do.tunnel,
            permission=Permission.LOG,
            runners=True,
            websocket=True,
        ),
        Route(
            method="GET",
            path="/api/v1/jobs/{job}/terminal",
            handler=do.terminal,
            permission=Permission.LOG,
            websocket=True,
            query={"columns": "width in characters", "rows": "height in characters"},
        ),
    ]
