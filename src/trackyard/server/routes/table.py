"""The whole table of routes, put together once at start."""

from __future__ import annotations

import asyncio

import msgspec

from trackyard.server.http.messages import RawJSON, Request, Response
from trackyard.server.openapi import describe
from trackyard.server.routes.fleet import leases, load, nodes, usage
from trackyard.server.routes.jobs import (
    apps,
    attempts,
    demand,
    interactive,
    log_policies,
    plans,
    policy,
    queues,
    sweeps,
)
from trackyard.server.routes.jobs import (
    jobs as v1_jobs,
)
from trackyard.server.routes.mlflow import (
    artifacts,
    genai,
    logged_models,
    registry,
    traces,
    traces_v2,
    tracking,
    webhooks,
)
from trackyard.server.routes.mlflow import (
    metrics as mlflow_metrics,
)
from trackyard.server.routes.platform import (
    access,
    admin,
    alerts,
    backup,
    events,
    metrics,
    oidc,
    public,
    secrets,
    verify,
    web,
)
from trackyard.server.routes.ray import jobs, state
from trackyard.server.routes.runs import columns, data, imports, logbook, reports, runs
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

_FAMILIES = (
    apps,
    public,
    metrics,
    tracking,
    mlflow_metrics,
    registry,
    logged_models,
    traces,
    traces_v2,
    artifacts,
    genai,
    webhooks,
    jobs,
    state,
    access,
    admin,
    alerts,
    attempts,
    backup,
    data,
    demand,
    events,
    imports,
    interactive,
    v1_jobs,
    leases,
    load,
    log_policies,
    logbook,
    nodes,
    oidc,
    plans,
    policy,
    queues,
    reports,
    runs,
    secrets,
    sweeps,
    columns,
    usage,
    verify,
    web,
)


def _description(table: list[Route]) -> bytes:
    return msgspec.json.encode(describe(table))


def routes(services: Services) -> list[Route]:
    """Return every route of the server."""
    found = [route for family in _FAMILIES for route in family.routes(services)]

    described: list[bytes] = []

    async def openapi(request: Request) -> Response:
        """GET /api/v1/openapi.json: the description of this API."""
        if not described:
            # It takes longer than a call may, and never changes.
            loop = asyncio.get_running_loop()
            described.append(await loop.run_in_executor(None, _description, found))
        return RawJSON(described[0])

    found.append(
        Route(
            method="GET",
            path="/api/v1/openapi.json",
            handler=openapi,
            permission=Permission.READ,
        )
    )
    return found
