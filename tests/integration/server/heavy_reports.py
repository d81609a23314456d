"""Requests of reports, by their labels: what is made first for each of them."""

from typing import Any

from tests.integration.server.heavy_made import Ask, asks
from tests.integration.server.heavy_world import World

_TEXT = "# Results\n\n```chart\nmetric: loss\nruns: best\n```\n\n" * 4000


async def _report(world: World) -> dict[str, Any]:
    body = {"title": f"r{world.fresh()}", "text": _TEXT}
    made: dict[str, Any] = await world.mlflow("reports", body, prefix="/api/v1/")
    return made


@asks("GET /api/v1/reports")
async def _many(world: World) -> Ask:
    for _ in range(20):
        await _report(world)
    return Ask()


@asks("POST /api/v1/reports")
async def _create(world: World) -> Ask:
    return Ask(body={"title": f"r{world.fresh()}", "text": _TEXT})


@asks("GET /api/v1/reports/{report}")
async def _read(world: World) -> Ask:
    return Ask(path={"report": (await _report(world))["report_id"]})


@asks("PUT /api/v1/reports/{report}")
async def _save(world: World) -> Ask:
    made = await _report(world)
    body = {"title": made["title"], "text": f"{world.fresh()} {_TEXT}", "version": 1}
    return Ask(path={"report": made["report_id"]}, body=body)


@asks("DELETE /api/v1/reports/{report}")
async def _delete(world: World) -> Ask:
    return Ask(path={"report": (await _report(world))["report_id"]})
