"""What a running job asks for after its start, and its trials. For attempts' own tokens alone."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.control.late_demand import DemandReply, ReleaseReply
from trackyard.queue.attempts.demand import DemandRequest
from trackyard.queue.attempts.trials import TrialReply, TrialReport
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Word


class DemandRelease(msgspec.Struct, forbid_unknown_fields=True):
    """What is given back."""

    key: Word


class DemandRoutes:
    """Handlers of late demands."""

    def __init__(self, services: Services) -> None:
        self._demands = services.jobs.demands

    async def ask(self, request: Request) -> Response:
        """POST /api/v1/demand: ask for workers and wait; repeat it until it is granted."""
        demand = await decode(request, DemandRequest)
        return JSONResponse(await self._demands.ask(request.principal, demand))

    async def release(self, request: Request) -> Response:
        """POST /api/v1/demand/release: give back what was asked for under a key."""
        wish = await decode(request, DemandRelease)
        return JSONResponse(await self._demands.release(request.principal, wish.key))

    async def trials(self, request: Request) -> Response:
        """POST /api/v1/trials: tell how the trials of a hyperparameter search stand."""
        told = await decode(request, TrialReport)
        return JSONResponse(await self._demands.tell_trials(request.principal, told))


def routes(services: Services) -> list[Route]:
    """Return the routes of late demands."""
    do = DemandRoutes(services)

    def route(path: str, handler: Any, takes: Any, gives: Any) -> Route:
        return Route(
            method="POST",
            path=path,
            handler=handler,
            permission=Permission.LOG,
            attempts=True,
            takes=takes,
            gives=gives,
        )

    return [
        route("/api/v1/demand", do.ask, DemandRequest, DemandReply),
        route("/api/v1/demand/release", do.release, DemandRelease, ReleaseReply),
        route("/api/v1/trials", do.trials, TrialReport, TrialReply),
    ]
