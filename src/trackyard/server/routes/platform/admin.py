"""What admins do to the platform as a whole: clean up, check, look at its own figures."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from pathlib import Path

import msgspec

import trackyard
from trackyard.artifacts.service import forget_owner
from trackyard.artifacts.upkeep import collect_garbage
from trackyard.queue.retention import Retention, clean
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.server.startup.engines import shared_rights
from trackyard.store.bounds import Days
from trackyard.store.database import ReadConnection
from trackyard.store.migrate import current
from trackyard.store.sqlite.journal import rejected
from trackyard.store.transaction import count_rows, size_bytes
from trackyard.tracking.metrics.compaction import stored_points
from trackyard.tracking.retention import count_deleted, purge_runs

DAY_MS = 86_400_000
_COUNTED = ("experiments", "runs", "params", "tags", "metric_latest", "artifacts", "events")


class CleanUp(msgspec.Struct):
    """What a clean-up removes."""

    dry_run: bool = False
    #: runs deleted at least so many days ago are removed for good; None keeps them
    purge_days: Days | None = None
    #: logs of jobs that ended at least so many days ago are removed; None: as the settings say
    log_days: Days | None = None
    #: the same for keys of submissions
    key_days: Days | None = None


class CleanedUp(msgspec.Struct):
    """What a clean-up did, or would do."""

    dry_run: bool
    settled_rows: int
    purged_runs: int
    uploads: int
    blobs: int
    blob_bytes: int
    partials: int
    logs: int
    log_bytes: int
    keys: int


class ServerFacts(msgspec.Struct):
    """The server's own health in figures."""

    version: str
    python: str
    system: str
    pid: int
    #: whether this server schedules jobs, where several share the database
    schedules: bool
    database: str
    schema: str
    database_bytes: int | None
    metric_points: int
    metric_bytes: int
    waiting_rows: int
    #: writes that no table would take, set aside in `rejected_writes`
    rejected_writes: int
    artifacts: str
    home: str
    disk_free_bytes: int
    resident_bytes: int
    commits: int
    writes: int
    rows: dict[str, int]
    run_as: str
    #: that several people's jobs share the server's own rights; empty where they do not
    shared_rights: str


class AdminRoutes:
    """Handlers for admins."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._db = services.database

    async def clean_up(self, request: Request) -> Response:
        """POST /api/v1/admin/gc: settle points, purge what was deleted, collect orphans."""
        wish = await decode(request, CleanUp)
        purged = await self._purge(wish, request.principal.name)
        found = await collect_garbage(self._db, self._services.artifacts, dry_run=wish.dry_run)
        kept = self._services.jobs.scheduler.retention
        removed = await clean(
            self._db,
            Retention(
                log_days=kept.log_days if wish.log_days is None else wish.log_days,
                key_days=kept.key_days if wish.key_days is None else wish.key_days,
            ),
            dry_run=wish.dry_run,
            actor=request.principal.name,
        )
        # Last, for it needs room before it makes some.
        settled = 0 if wish.dry_run else await self._services.tracking.settle_all()
        return JSONResponse(
            CleanedUp(
                dry_run=wish.dry_run,
                settled_rows=settled,
                purged_runs=purged,
                uploads=found.uploads,
                blobs=found.blobs,
                blob_bytes=found.blob_bytes,
                partials=found.partials,
                logs=removed.logs,
                log_bytes=removed.log_bytes,
                keys=removed.keys,
            )
        )

    async def _purge(self, wish: CleanUp, actor: str) -> int:
        if wish.purge_days is None:
            return 0
        before_ms = self._services.clock.time_ms() - wish.purge_days * DAY_MS
        if wish.dry_run:
            return await self._db.read(
                lambda reader: count_deleted(reader, before_ms), seconds=None
            )
        return await purge_runs(self._db, before_ms, actor=actor, forget=forget_owner)

    async def facts(self, request: Request) -> Response:
        """GET /api/v1/admin/facts: versions, sizes and counts, for `yard doctor`."""
        settings = self._services.settings
        counted = await self._db.read(_count, seconds=None)
        points, point_bytes, waiting = await self._db.read(stored_points, seconds=None)
        scheme, _, rest = settings.database_url.partition("://")
        return JSONResponse(
            ServerFacts(
                version=trackyard.__version__,
                python=sys.version.split()[0],
                system=f"{platform.system()} {platform.machine()}",
                pid=os.getpid(),
                schedules=self._services.jobs.scheduler.is_leader,
                # Never the password of a database address.
                database=f"{scheme}://{rest.rpartition('@')[2]}",
                schema=await self._db.read(lambda reader: current(reader) or "?"),
                database_bytes=await self._db.read(size_bytes),
                metric_points=points,
                metric_bytes=point_bytes,
                waiting_rows=waiting,
                rejected_writes=await self._db.read(rejected),
                artifacts=settings.artifacts_url,
                home=str(settings.home),
                disk_free_bytes=shutil.disk_usage(settings.home).free,
                resident_bytes=_resident(),
                commits=self._db.committed_groups,
                writes=self._db.committed_requests,
                rows=counted,
                run_as=settings.run_as,
                shared_rights=await self._db.read(lambda reader: shared_rights(settings, reader)),
            )
        )


def _count(reader: ReadConnection) -> dict[str, int]:
    return {table: count_rows(reader, table) for table in _COUNTED}


def _resident() -> int:
    """Return the resident memory now, or its peak where the system does not say."""
    try:
        statm = Path("/proc/self/statm").read_text()
        return int(statm.split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def routes(services: Services) -> list[Route]:
    """Return the admin routes."""
    do = AdminRoutes(services)
    return [
        Route(
            method="POST",
            path="/api/v1/admin/gc",
            handler=do.clean_up,
            permission=Permission.ADMIN,
            takes=CleanUp,
            gives=CleanedUp,
        ),
        Route(
            method="GET",
            path="/api/v1/admin/facts",
            handler=do.facts,
            permission=Permission.ADMIN,
            gives=ServerFacts,
        ),
    ]
