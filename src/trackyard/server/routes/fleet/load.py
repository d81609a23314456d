"""How busy nodes were, over HTTP: for the cluster page and whoever plots it."""

from __future__ import annotations

from trackyard.core.errors import InvalidInput
from trackyard.queue.attempts.node_load import MOST_POINTS, LoadHistory, history
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

HOUR_MS = 3_600_000
#: Histories longer than this are Prometheus' to tell, where the server has one beside it.
LONG_MS = 6 * HOUR_MS
_QUERY = {
    "since": "begin in ms, an hour ago unless given",
    "until": "end in ms, now unless given",
    "points": f"stretches of time at most, up to {MOST_POINTS}, default 90",
}


class LoadRoutes:
    """Handler of the nodes' past."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._clock = services.clock
        self._prometheus = services.prometheus

    async def load(self, request: Request) -> Response:
        """GET /api/v1/cluster/load: percent of CPU, memory and each GPU, by node."""
        until = request.number("until", self._clock.time_ms())
        since = request.number("since", until - HOUR_MS)
        points = request.number("points", 90)
        if since >= until:
            raise InvalidInput("since must be before until")
        if not 1 <= points <= MOST_POINTS:
            raise InvalidInput(f"points must be between 1 and {MOST_POINTS}")
        if until - since > LONG_MS and self._prometheus is not None:
            told = await self._prometheus.load(since, until, points)
            if told is not None:
                return JSONResponse(told)
        found = await self._db.read(lambda reader: history(reader, since, until, points))
        return JSONResponse(found)


def routes(services: Services) -> list[Route]:
    """Return the route."""
    return [
        Route(
            method="GET",
            path="/api/v1/cluster/load",
            handler=LoadRoutes(services).load,
            permission=Permission.READ,
            gives=LoadHistory,
            query=_QUERY,
        )
    ]
