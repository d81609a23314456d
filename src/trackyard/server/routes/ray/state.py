"""Ray's state endpoints, as far as `ray list nodes` and `ray list jobs` need them, answered from
our own records. Owns their envelope, filters and limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.core.node import NodeState
from trackyard.fleet.nodes import NodeRow
from trackyard.rayjobs.service import RayJobsService
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.ray.jobs import PREFIXES
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

MAX_ROWS = 10_000


class StateRoutes:
    """Handlers of Ray's state endpoints."""

    def __init__(self, services: Services) -> None:
        self._engine = services.settings.engine
        self._door = RayJobsService(
            services.database, services.jobs, on_ray=services.settings.engine.startswith("ray")
        )

    async def nodes(self, request: Request) -> Response:
        """GET /api/v0/nodes: every node, for every member of a team."""
        rows = await self._door.nodes()
        alone = self._engine == "local"
        return _answer(request, [_node(row, is_head=alone) for row in rows])

    async def jobs(self, request: Request) -> Response:
        """GET /api/v0/jobs: the team's jobs."""
        found = await self._door.listing(request.principal)
        return _answer(request, [msgspec.to_builtins(job) for job in found])

    async def others(self, request: Request) -> Response:
        """GET /api/v0/{thing}: Ray's inner life is shown by Ray's own dashboard."""
        text = (
            "`ray list nodes` and `ray list jobs` are answered here; for everything else ask the"
            " Ray cluster's own address"
        )
        return JSONResponse({"result": False, "msg": text, "data": {"result": None}})


def _node(row: NodeRow, *, is_head: bool) -> dict[str, Any]:
    facts, state = row.facts, row.in_force
    total: dict[str, float] = {"CPU": facts.cpus, "memory": float(facts.memory_bytes)}
    if facts.gpus:
        total["GPU"] = float(len(facts.gpus))
        total |= {f"accelerator_type:{model}": 1.0 for model in {gpu.model for gpu in facts.gpus}}
    labels = row.labels
    for key, value in labels.items():
        if key.startswith("resource-total/"):
            total[key.removeprefix("resource-total/")] = float(value)
    is_down = state is NodeState.DOWN
    return {
        "node_id": labels.get("ray-node-id", row.id),
        "node_ip": facts.address,
        "is_head_node": is_head or labels.get("ray.io/node-type") == "head",
        "state": "DEAD" if is_down else "ALIVE",
        "state_message": row.note if state is NodeState.READY else f"{state.value}: {row.note}",
        "node_name": row.id,
        "resources_total": total,
        "labels": labels,
        "start_time_ms": row.joined_ms,
        "end_time_ms": row.changed_ms if is_down else 0,
    }


def _answer(request: Request, rows: list[dict[str, Any]]) -> Response:
    """Filter and cut rows, and put them into Ray's envelope."""
    matching = [row for row in rows if _passes(row, _filters(request))]
    limit = min(request.number("limit", 100), MAX_ROWS)
    listed = {
        "total": len(rows),
        "num_after_truncation": len(rows),
        "num_filtered": len(matching),
        "result": matching[:limit],
        "partial_failure_warning": "",
        "warnings": None,
    }
    return JSONResponse({"result": True, "msg": "", "data": {"result": listed}})


def _filters(request: Request) -> list[tuple[str, str, str]]:
    keys = request.query.get("filter_keys", [])
    signs = request.query.get("filter_predicates", [])
    values = request.query.get("filter_values", [])
    if not len(keys) == len(signs) == len(values):
        raise InvalidInput("filter_keys, filter_predicates and filter_values differ in number")
    if not set(signs) <= {"=", "!="}:
        raise InvalidInput("a filter compares with = or != alone")
    return list(zip(keys, signs, values, strict=True))


def _passes(row: dict[str, Any], filters: Sequence[tuple[str, str, str]]) -> bool:
    return all(
        (str(row.get(key)).lower() == value.lower()) == (sign == "=")
        for key, sign, value in filters
    )


def routes(services: Services) -> list[Route]:
    """Return the routes of Ray's state endpoints."""
    do = StateRoutes(services)
    table = (("nodes", do.nodes), ("jobs", do.jobs), ("{thing}", do.others))
    return [
        Route(
            method="GET",
            path=f"{prefix}/api/v0/{path}",
            handler=handler,
            permission=Permission.READ,
            plain=True,
        )
        for prefix in PREFIXES
        for path, handler in table
    ]
