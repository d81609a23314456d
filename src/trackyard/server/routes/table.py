"""The whole table of routes, put together once at start."""

from __future__ import annotations

import asyncio

import msgspec

from trackyard.server.http import RawJSON, Request, Response
from trackyard.server.openapi import describe
from trackyard.server.routes import (
    apps,
    metrics,
    mlflow_artifacts,
    mlflow_genai,
    mlflow_logged_models,
    mlflow_metrics,
    mlflow_registry,
    mlflow_traces,
    mlflow_traces_v2,
    mlflow_tracking,
    mlflow_webhooks,
    public,
    ray_jobs,
    ray_state,
    v1_access,
    v1_admin,
    v1_alerts,
    v1_attempts,
    v1_backup,
    v1_data,
    v1_demand,
    v1_events,
    v1_import,
    v1_interactive,
    v1_jobs,
    v1_leases,
    v1_load,
    v1_log_policies,
    v1_logbook,
    v1_nodes,
    v1_oidc,
    v1_policy,
    v1_queues,
    v1_runs,
    v1_secrets,
    v1_sweeps,
    v1_ui,
    v1_usage,
    v1_verify,
    web,
)
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

_FAMILIES = (
    apps,
    public,
    metrics,
    mlflow_tracking,
    mlflow_metrics,
    mlflow_registry,
    mlflow_logged_models,
    mlflow_traces,
    mlflow_traces_v2,
    mlflow_artifacts,
    mlflow_genai,
    mlflow_webhooks,
    ray_jobs,
    ray_state,
    v1_access,
    v1_admin,
    v1_alerts,
    v1_attempts,
    v1_backup,
    v1_data,
    v1_demand,
    v1_events,
    v1_import,
    v1_interactive,
    v1_jobs,
    v1_leases,
    v1_load,
    v1_log_policies,
    v1_logbook,
    v1_nodes,
    v1_oidc,
    v1_policy,
    v1_queues,
    v1_runs,
    v1_secrets,
    v1_sweeps,
    v1_ui,
    v1_usage,
    v1_verify,
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
