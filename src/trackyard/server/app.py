"""The application the HTTP server calls: route, gate, pace, handler, answer. Owns error answers,
security headers and the count of requests in flight.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from time import perf_counter
from typing import Any

from trackyard.access.principal import Principal
from trackyard.core.errors import (
    BadRequest,
    EndpointNotFound,
    HeadTooLarge,
    InternalFault,
    TooBusy,
    TooMany,
    WrongMethod,
    YardError,
)
from trackyard.server.access import AccessGate
from trackyard.server.health.tally import Tally
from trackyard.server.http.live import LiveResponse
from trackyard.server.http.messages import BODY_SECONDS, Request, Response, error_response
from trackyard.server.http.pace import CallPace, CallTurn
from trackyard.server.http.streams import Streams, caller_of
from trackyard.server.routing import Route, Router
from trackyard.server.wire import ProtocolClosed
from trackyard.store.turns import CALLER

log = logging.getLogger(__name__)


class Application:
    """One callable for every request of the platform."""

    def __init__(
        self,
        router: Router,
        gate: AccessGate,
        *,
        tally: Tally | None = None,
        prefix: str = "",
        pace: CallPace | None = None,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self.router = router
        self.gate = gate
        self._tally = tally or Tally()
        self._pace = pace or CallPace()
        self.streams = Streams(gate)
        self._body_seconds = body_seconds
        #: path under which a proxy mounts us, without a trailing slash
        self.prefix = prefix
        self.in_flight = 0
        self.draining = False

    async def __call__(self, scope: Any, proto: Any) -> None:
        """Serve one request or WebSocket."""
        self.in_flight += 1
        try:
            await self._serve(scope, proto)
        except (ProtocolClosed, asyncio.CancelledError):
            return
        finally:
            self.in_flight -= 1

    async def _serve(self, scope: Any, proto: Any) -> None:
        request = Request(scope, proto, self._body_seconds)
        began = perf_counter()
        try:
            response = await self._answer(request)
        except YardError as fault:
            if fault.status >= 500:
                log.warning("%s %s: %s", request.method, request.path, fault.message)
            elif fault.status in (401, 403):
                self.gate.note_refusal(request, fault)
            response = error_response(fault, plain=request.plain)
            if fault.status == 401 and request.header("sec-fetch-mode") is None:
                response.headers.append(("www-authenticate", 'Basic realm="trackyard"'))
        except ProtocolClosed:
            raise
        except Exception as fault:
            mark = secrets.token_hex(4)
            log.exception("request %s %s %s failed", mark, request.method, request.path)
            del fault
            response = error_response(
                InternalFault(f"the server failed on this request; its log has it as {mark}"),
                plain=request.plain,
            )
        self._tally.answered(request.label, response.status, perf_counter() - began)
        if response is _TAKEN_OVER:
            return
        response.secure()
        if isinstance(response, LiveResponse):
            await self._stream(request, response, proto)
        else:
            await response.send(proto)

    async def _stream(self, request: Request, response: LiveResponse, proto: Any) -> None:
        """Send an answer that stays open, unless its caller has too many of them."""
        try:
            with self.streams.holding(request) as response.ended:
                await response.send(proto)
        except (TooMany, TooBusy) as fault:
            await response.pieces.aclose()
            refusal = error_response(fault, plain=request.plain)
            refusal.secure()
            await refusal.send(proto)

    async def _answer(self, request: Request) -> Response:
        path = request.path = self._path_of(request)
        is_socket = request.scope.proto == "ws"
        method = request.method
        wanted = "GET" if method == "HEAD" else method
        found = self.router.find(wanted, path, is_socket=is_socket)
        if found is None:
            # An unknown path says so only to callers who may come in at all.
            self.gate.check_origin(request)
            await self.gate.identify(request)
            taken = self.router.methods(path)
            if taken and not is_socket:
                raise WrongMethod(f"no {method} {path[:200]} here; it takes {', '.join(taken)}")
            raise EndpointNotFound(f"no {method} {path[:200]} here")
        route, request.params = found
        request.route, request.plain, request.label = route, route.plain, route.label
        task = asyncio.current_task()
        if task is not None:
            task.set_name(route.label)
        self._check_headers(request, route)
        await self.gate.admit(request, route)
        if request.params and any("\0" in value for value in request.params.values()):
            raise BadRequest("the path holds a NUL character; leave it out")
        principal: Principal | None = request.principal
        if principal is not None:
            CALLER.set(caller_of(request))
        if principal is None:
            response = await route.handler(request)
        elif is_socket:
            with self.streams.holding(request) as request.ended:
                response = await route.handler(request)
        else:
            response = await self._in_turn(request, route, principal)
        if method == "HEAD":
            response.body = b""
        return response

    def _path_of(self, request: Request) -> str:
        """Return the path below our own root."""
        path = request.path
        if path.startswith("//"):
            # Clients that join an address ending in a slash with a path send two.
            path = "/" + path.lstrip("/")
        if self.prefix and path.startswith(self.prefix + "/"):
            path = path[len(self.prefix) :]
        return path

    def _check_headers(self, request: Request, route: Route) -> None:
        """Refuse header lines beyond the route's limit, before anything reads them."""
        size, limit = request.scope.headers.size, route.header_limit
        if limit is not None and size > limit:
            raise HeadTooLarge(f"the header lines have {size} bytes; this call takes {limit}")

    async def _in_turn(self, request: Request, route: Route, principal: Principal) -> Response:
        """Run a handler within its caller's pace."""
        is_upload = request.method == "PUT"
        # Uploads stay long, so they have a lane of their own and hold up no log call.
        turn = request.turn = CallTurn(
            self._pace, (principal.token_id or principal.name, is_upload)
        )
        # A call with a body takes its turn once the body is here: who dawdles holds no place.
        if request.method not in ("POST", "PATCH"):
            await turn.take()
        try:
            return await route.handler(request)
        finally:
            turn.end()


#: Returned by handlers that have answered by themselves (streams, WebSockets).
_TAKEN_OVER = Response()


def taken_over() -> Response:
    """Tell the application that the handler has answered already."""
    return _TAKEN_OVER
