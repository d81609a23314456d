"""The whole table of routes, put together once at start."""

from __future__ import annotations

from trackyard.server.http import JSONResponse, Request, Response
from trackyard.server.openapi import describe
from trackyard.server.routes import (
    mlflow_artifacts,
    mlflow_logged_models,
    mlflow_metrics,
    mlflow_registry,
    mlflow_tracking,
    public,
    ray_jobs,
    ray_state,
    v1_access,
    v1_admin,
    v1_attempts,
    v1_backup,
    v1_demand,
    v1_events,
    v1_jobs,
    v1_leases,
    v1_load,
    v1_nodes,
    v1_queues,
    v1_runs,
    v1_ui,
    v1_verify,
    web,
)
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

_FAMILIES = (
    public,
    mlflow_tracking,
    mlflow_metrics,
    mlflow_registry,
    mlflow_logged_models,
    mlflow_artifacts,
    ray_jobs,
    ray_state,
    v1_access,
    v1_admin,
    v1_attempts,
    v1_backup,
    v1_demand,
    v1_events,
    v1_jobs,
    v1_leases,
    v1_load,
    v1_nodes,
    v1_queues,
    v1_runs,
    v1_ui,
    v1_verify,
    web,
)


def routes(services: Services) -> list[Route]:
    """Return every route of the server."""
    found = [route for family in _FAMILIES for route in family.routes(services)]

    async def openapi(request: Request) -> Response:
        """GET /api/v1/openapi.json: the description of this API."""
        return JSONResponse(describe(found))

    found.append(
        Route(
            method="GET",
            path="/api/v1/openapi.json",
            handler=openapi,
            permission=Permission.READ,
        )
    )
    return found
