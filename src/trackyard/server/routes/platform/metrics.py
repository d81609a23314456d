"""Figures of the platform in Prometheus' text form, for whoever has a credential.

Owns what is read for a scrape. Names and units are `server.health.prometheus`'.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trackyard.fleet import nodes as fleet_nodes
from trackyard.fleet.verdicts import load_checks
from trackyard.server.http.messages import Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.transaction import size_bytes

if TYPE_CHECKING:
    from trackyard.server.health.prometheus import ServerMetrics


class MetricsRoutes:
    """Handlers of figures."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def show(self, request: Request) -> Response:
        """GET /metrics: fleet, queue, attempts, ingest, answers, database and event loop."""
        from trackyard.server.health.prometheus import CONTENT_TYPE, exposition

        facts = await self._facts()
        # Ten thousand jobs may wait, on a thousand nodes.
        body = await asyncio.to_thread(exposition, facts)
        return Response(body, content_type=CONTENT_TYPE)

    async def _facts(self) -> ServerMetrics:
        from trackyard.server.health.prometheus import ServerMetrics

        parts = self._services
        database, scheduler = parts.database, parts.jobs.scheduler
        rows, checks, size = await database.read(
            lambda reader: (fleet_nodes.load(reader), load_checks(reader), size_bytes(reader))
        )
        now_ms = parts.clock.time_ms()
        return ServerMetrics(
            looked=await scheduler.view(),
            nodes=rows,
            checks=checks,
            samples=parts.jobs.machines.present(now_ms),
            tally=parts.tally,
            watchdog=parts.watchdog,
            now_ms=now_ms,
            is_leader=scheduler.is_leader,
            database="sqlite" if database.is_sqlite else "postgresql",
            database_bytes=size,
            commits=database.committed_groups,
            writes=database.committed_requests,
            gpu_seconds=await parts.usage.gpu_seconds() if scheduler.is_leader else {},
        )


def routes(services: Services) -> list[Route]:
    """Return the routes of figures."""
    do = MetricsRoutes(services)
    return [Route(method="GET", path="/metrics", handler=do.show, permission=Permission.READ)]
