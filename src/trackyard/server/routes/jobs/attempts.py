"""What runners report: heartbeats, log bytes, samples, the end. For runners' own tokens alone."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.core.errors import BadRequest, Denied, InvalidInput
from trackyard.core.ports import ExitRecord
from trackyard.queue.attempts.heartbeats import Heartbeat, Samples
from trackyard.server.http.messages import JSONResponse, Request, Response, whole_number
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Free, Word

LOG_LIMIT = 2 * 1024 * 1024
RECORD_LIMIT = 256 * 1024


class StopOrder(msgspec.Struct):
    """An order to stop, in the answer to a heartbeat."""

    reason: str
    grace_seconds: float


class HeartbeatReply(msgspec.Struct, omit_defaults=True):
    """The answer to a heartbeat."""

    stop: StopOrder | None = None


class RunnerClaim(msgspec.Struct):
    """Something that only the caller knows, by which it is known when it asks again."""

    claim: Word


class KeyReply(msgspec.Struct):
    """The key of what the runner is told."""

    key: str


class LogReply(msgspec.Struct):
    """Up to where the log is held."""

    next_offset: int


class AttemptRoutes:
    """Handlers of runners' reports."""

    def __init__(self, services: Services) -> None:
        self._jobs = services.jobs

    async def heartbeat(self, request: Request) -> Response:
        """POST /api/v1/attempts/{attempt}/heartbeat: a sign of life; may be answered by a stop."""
        _runner(request)
        beat = await decode(request, Heartbeat)
        found = await self._jobs.heartbeat(
            request.principal, request.params["attempt"], epoch_of(request), beat
        )
        return JSONResponse(found)

    async def key(self, request: Request) -> Response:
        """POST /api/v1/attempts/{attempt}/key: trade a ticket, once, for the key of a spec."""
        wish = await decode(request, RunnerClaim)
        found = await self._jobs.trade_ticket(
            request.principal, request.params["attempt"], epoch_of(request), wish.claim
        )
        return JSONResponse(KeyReply(found))

    async def logs(self, request: Request) -> Response:
        """POST /api/v1/attempts/{attempt}/logs: bytes at an offset; 416 names the end held."""
        _runner(request)
        member, offset = request.number("member", 0), request.number("offset", 0)
        data = await request.body()
        fits, end = await self._jobs.take_log(
            request.principal,
            request.params["attempt"],
            epoch_of(request),
            member=member,
            offset=offset,
            data=data,
        )
        return JSONResponse(LogReply(end), status=200 if fits else 416)

    async def samples(self, request: Request) -> Response:
        """POST /api/v1/attempts/{attempt}/samples: the machine, as system metrics of the run."""
        _runner(request)
        batch = await decode(request, Samples)
        await self._jobs.take_samples(
            request.principal, request.params["attempt"], epoch_of(request), batch
        )
        return JSONResponse({})

    async def exit(self, request: Request) -> Response:
        """POST /api/v1/attempts/{attempt}/exit: the runner's record of the end."""
        _runner(request)
        request.require_json()
        raw = await request.body()
        try:
            record = ExitRecord.from_json(msgspec.json.decode(raw, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise BadRequest(f"the body is not valid JSON: {fault}") from fault
        except ValueError as fault:
            raise InvalidInput(str(fault)) from fault
        await self._jobs.take_exit(
            request.principal, request.params["attempt"], epoch_of(request), record, raw
        )
        return JSONResponse({})


def _runner(request: Request) -> None:
    if request.principal.scope is None:
        raise Denied("this call is for runners: it takes the token of an attempt")


def epoch_of(request: Request) -> int:
    """Return the epoch that a runner names."""
    text = request.header("x-yard-epoch") or ""
    epoch = whole_number(text)
    if epoch is None:
        raise InvalidInput("the header X-Yard-Epoch must hold the attempt's epoch")
    return epoch


def routes(services: Services) -> list[Route]:
    """Return the routes of runners."""
    do = AttemptRoutes(services)

    def route(
        verb: str,
        handler: Any,
        gives: Any,
        takes: Any = None,
        *,
        query: dict[str, str] | None = None,
        limit: int | None = None,
    ) -> Route:
        return Route(
            method="POST",
            path=f"/api/v1/attempts/{{attempt}}/{verb}",
            handler=handler,
            permission=Permission.LOG,
            runners=True,
            takes=takes,
            gives=gives,
            query=query or {},
            body_limit=limit,
        )

    return [
        Route(
            method="POST",
            path="/api/v1/attempts/{attempt}/key",
            handler=do.key,
            permission=Permission.LOG,
            tickets=True,
            takes=RunnerClaim,
            gives=KeyReply,
            body_limit=4096,
        ),
        route("heartbeat", do.heartbeat, HeartbeatReply, Heartbeat),
        route(
            "logs",
            do.logs,
            LogReply,
            query={"member": "rank of the member", "offset": "position of the first byte"},
            limit=LOG_LIMIT,
        ),
        route("samples", do.samples, dict[str, Any], Samples),
        route("exit", do.exit, dict[str, Any], Free, limit=RECORD_LIMIT),
    ]
