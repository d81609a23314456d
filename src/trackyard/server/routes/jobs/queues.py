"""Queues and team shares over HTTP; every change is audited."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.access.directory import team_names
from trackyard.core.errors import Denied
from trackyard.queue.shares.classes import urgent_use
from trackyard.queue.shares.counts import counts_by_queue, counts_by_team
from trackyard.queue.shares.queues import (
    delete_queue,
    load_queues,
    load_shares,
    set_queue,
    set_share,
)
from trackyard.queue.shares.settings import QueueSettings, TeamShare
from trackyard.queue.shares.usage import HALF_LIFE_SECONDS, usages
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection


class QueueView(msgspec.Struct):
    """A queue with its rules and what is in it."""

    name: str
    settings: QueueSettings
    queued: int
    running: int
    gpus_running: float


class QueueList(msgspec.Struct):
    """Every queue."""

    queues: list[QueueView]


class ShareView(msgspec.Struct):
    """A team's claim and what it uses."""

    team: str
    share: float
    quota_gpus: float | None
    limit_gpus: float | None
    #: GPUs of its quota that others may borrow for jobs that may not be preempted
    lendable_gpus: float
    #: the team that is its department; empty for none
    parent: str
    max_running: int | None
    #: least role for a priority class, where the queue does not say
    classes: dict[str, str]
    #: urgent GPU-hours in seven days; null for no budget
    urgent_gpu_hours: float | None
    #: of these, what was used and what open jobs may still use
    urgent_gpu_hours_used: float
    urgent_gpu_hours_open: float
    queued: int
    running: int
    gpus_running: float
    #: GPU-hours used, decayed with a half-life of a week
    used_gpu_hours: float


class ShareList(msgspec.Struct):
    """The teams a caller may see."""

    teams: list[ShareView]


class QueueRoutes:
    """Handlers of queues and shares."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._jobs = services.jobs

    async def list(self, request: Request) -> Response:
        """GET /api/v1/queues."""

        def load(reader: ReadConnection) -> QueueList:
            counts = counts_by_queue(reader)
            found = []
            for name, settings in load_queues(reader).items():
                queued, running, gpus = counts.get(name, (0, 0, 0.0))
                found.append(QueueView(name, settings, queued, running, gpus))
            return QueueList(found)

        return JSONResponse(await self._db.read(load))

    async def put(self, request: Request) -> Response:
        """PUT /api/v1/queues/{queue}: make it, or give it other rules."""
        settings = await decode(request, QueueSettings)
        name, actor = request.params["queue"], request.principal.name
        await self._db.write(lambda tx: set_queue(tx, name, settings, actor=actor))
        self._jobs.scheduler.wake()
        return JSONResponse(settings)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/v1/queues/{queue}: an empty one."""
        name, actor = request.params["queue"], request.principal.name
        await self._db.write(lambda tx: delete_queue(tx, name, actor=actor))
        self._jobs.scheduler.wake()
        return JSONResponse({})

    async def shares(self, request: Request) -> Response:
        """GET /api/v1/shares: all teams for an admin, else one's own."""
        principal = request.principal
        now_ms = self._db.clock.time_ms()

        def load(reader: ReadConnection) -> ShareList:
            counts = counts_by_team(reader)
            ids = team_names(reader)
            numbers = {name: team for team, name in ids.items()}
            used = {
                ids[team]: seconds
                for team, seconds in usages(reader, now_ms, HALF_LIFE_SECONDS).items()
                if team in ids
            }
            found = []
            for team, share in load_shares(reader).items():
                if team != principal.team and not principal.is_admin:
                    continue
                queued, running, gpus = counts.get(numbers[team], (0, 0, 0.0))
                urgent = urgent_use(reader, numbers[team], now_ms)
                found.append(
                    ShareView(
                        team=team,
                        share=share.share,
                        quota_gpus=share.quota_gpus,
                        limit_gpus=share.limit_gpus,
                        lendable_gpus=share.lendable_gpus,
                        parent=share.parent,
                        max_running=share.max_running,
                        classes=share.classes,
                        urgent_gpu_hours=share.urgent_gpu_hours,
                        urgent_gpu_hours_used=round(urgent.used, 4),
                        urgent_gpu_hours_open=round(urgent.open, 4),
                        queued=queued,
                        running=running,
                        gpus_running=gpus,
                        used_gpu_hours=round(used.get(team, 0.0) / 3600, 4),
                    )
                )
            return ShareList(found)

        return JSONResponse(await self._db.read(load))

    async def put_share(self, request: Request) -> Response:
        """PUT /api/v1/teams/{team}/share: its share, quota and limits."""
        if not request.principal.is_admin:
            raise Denied("shares and quotas are set by platform admins")
        share = await decode(request, TeamShare)
        team, actor = request.params["team"], request.principal.name
        await self._db.write(lambda tx: set_share(tx, team, share, actor=actor))
        self._jobs.scheduler.wake()
        return JSONResponse(share)


def routes(services: Services) -> list[Route]:
    """Return the routes of queues and shares."""
    do = QueueRoutes(services)

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    read, admin = Permission.READ, Permission.ADMIN
    return [
        route("GET", "queues", do.list, read, gives=QueueList),
        route("PUT", "queues/{queue}", do.put, admin, takes=QueueSettings, gives=QueueSettings),
        route("DELETE", "queues/{queue}", do.delete, admin),
        route("GET", "shares", do.shares, read, gives=ShareList),
        route("PUT", "teams/{team}/share", do.put_share, admin, takes=TeamShare, gives=TeamShare),
    ]
