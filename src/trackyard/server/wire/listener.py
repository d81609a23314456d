"""The listening socket and its connections as a whole: opening, sweeping, draining."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from trackyard.server.wire.connection import HttpConnection

App = Callable[[Any, Any], Awaitable[None]]

#: Seconds a connection may lie idle, seconds for the head of a request, and for a caller to read
#: anything of an answer at all.
IDLE_SECONDS, HEAD_SECONDS, STALL_SECONDS = 300.0, 30.0, 300.0
SWEEP_SECONDS = 2.0
#: Seconds for which an idle connection is still listened to at the end: a request may be on its
#: way, and whoever kept the connection, a proxy above all, could not know whether it was taken.
FAREWELL_SECONDS = 1.0

log = logging.getLogger(__name__)


class HttpListener:
    """Takes connections and gives their requests to the application."""

    def __init__(
        self,
        app: App,
        *,
        host: str,
        port: int,
        tls: tuple[str, str] | None = None,
        head_seconds: float = HEAD_SECONDS,
        most: int | None = None,
    ) -> None:
        self.app = app
        self._host = host
        self._port = port
        self._tls = tls
        self._head_seconds = head_seconds
        self.scheme = "http" if tls is None else "https"
        #: connections the process has files for; those who never asked make room beyond it
        self._most = most
        self.connections: dict[HttpConnection, None] = {}
        #: those that have not sent a request yet, the oldest first
        self.silent: dict[HttpConnection, None] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_draining = False
        self._context: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the port."""
        context = None
        if self._tls is not None:
            context = self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["http/1.1"])
            context.load_cert_chain(*self._tls)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: HttpConnection(self), self._host, self._port, backlog=2048, ssl=context
        )
        self._sweeper = loop.create_task(self._sweep(), name="yard-wire-sweep")

    def reload_certificate(self) -> None:
        """Read certificate and key again; connections that are open keep the old ones."""
        if self._tls is not None and self._context is not None:
            try:
                self._context.load_cert_chain(*self._tls)
            except OSError as fault:
                log.error("the certificate in %s was not taken: %s", self._tls[0], fault)
            else:
                log.info("the certificate in %s was read again", self._tls[0])

    def take(self, newcomer: HttpConnection) -> None:
        """Take a connection; at the limit, one that waits for its caller makes room for it."""
        if self._most is not None and len(self.connections) >= self._most:
            place = next(iter(self.silent), None) or next(
                (one for one in self.connections if one.is_idle), newcomer
            )
            self.drop(place)
            place.abort()
            if place is newcomer:
                return
        self.connections[newcomer] = None
        self.silent[newcomer] = None

    def drop(self, connection: HttpConnection) -> None:
        """Forget a connection."""
        self.connections.pop(connection, None)
        self.silent.pop(connection, None)

    async def stop(self, seconds: float) -> None:
        """Take no more connections, let running requests end, then close what is left."""
        self.is_draining = True
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._farewell(FAREWELL_SECONDS)
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
        for task in list(self.tasks):
            task.cancel()
        for connection in list(self.connections):
            connection.close()
        # One turn of the loop lets the transports send what they still hold.
        for _ in range(100):
            if not self.connections:
                break
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()

    async def _farewell(self, seconds: float) -> None:
        """Close idle connections, each once nobody has used it for a while."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.connections and loop.time() < until:  # noqa: ASYNC110 - asks for a second
            # Each request that still comes is answered, and its connection closed with that.
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.close_if_idle()

    async def _sweep(self) -> None:
        """End connections that wait too long for their caller."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for connection in list(self.connections):
                connection.sweep(
                    now, idle=IDLE_SECONDS, head=self._head_seconds, stall=STALL_SECONDS
                )
