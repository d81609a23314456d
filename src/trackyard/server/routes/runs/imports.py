"""Routes by which other trackers' records come in whole: ids, times, users and states kept.

An owner of the team may call them, since they write history. Owns reading requests; what becomes
of a record is decided by the package whose tables it goes to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from trackyard.artifacts.paths import check_path
from trackyard.core.errors import InvalidInput
from trackyard.registry import importing as registry
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.http.uploads import declared_digest, whole_body
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.importing import points, records, runs, traces
from trackyard.tracking.importing.provenance import ImportOutcome

#: Bytes of one request: a data set's profile may have 16 MB, a million points have 24 MB.
IMPORT_BYTES = 40 * 1024 * 1024
FILES_PER_PAGE = 1000
#: What one commit writes, in bytes as they were sent, and what each thing counts besides.
PART_COST, ITEM_COST = 100_000, 1000


class Outcomes(msgspec.Struct):
    """What became of each thing that was sent, in its order."""

    results: list[ImportOutcome]


class PointsWritten(msgspec.Struct):
    """How many of the points were new, and which metrics were refused."""

    written: int
    refused: list[str]


class PointCounts(msgspec.Struct):
    """What is here of each metric of each run; runs that are not here are absent."""

    runs: dict[str, dict[str, points.StoredMetric]]


class ImportedFile(msgspec.Struct):
    """A file that is here."""

    path: str
    size: int
    sha256: str
    created_ms: int


class ImportedFiles(msgspec.Struct):
    """A page of files; ask on after the last one's path."""

    files: list[ImportedFile]


class Deletions(msgspec.Struct):
    """When runs were deleted, and which versions of registered models were."""

    runs: dict[str, int]
    versions: dict[str, list[int]]


class ImportRoutes:
    """Handlers of imports."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._tracking = services.tracking
        self._artifacts = services.artifacts
        self._schemes = services.settings.artifact_schemes

    async def experiments(self, request: Request) -> Response:
        """POST /api/v1/import/experiments."""
        body, principal = await decode(request, records.ImportedExperiments), request.principal

        def put(tx: Tx, item: records.ImportedExperiment) -> ImportOutcome:
            return runs.put_experiment(
                tx, principal, item, same_name=body.same_name, schemes=self._schemes
            )

        return await self._all(body.experiments, lambda item: item.source_id, put)

    async def runs(self, request: Request) -> Response:
        """POST /api/v1/import/runs."""
        body, principal = await decode(request, records.ImportedRuns), request.principal

        def put(tx: Tx, item: records.ImportedRun) -> ImportOutcome:
            return runs.put_run(tx, self._tracking.names, principal, item, self._schemes)

        return await self._all(body.runs, lambda item: item.run_id, put)

    async def traces(self, request: Request) -> Response:
        """POST /api/v1/import/traces."""
        body, principal = await decode(request, records.ImportedTraces), request.principal
        return await self._all(
            body.traces,
            traces.trace_name,
            lambda tx, item: traces.put_trace(tx, principal, item),
        )

    async def models(self, request: Request) -> Response:
        """POST /api/v1/import/models."""
        body, principal = await decode(request, registry.ImportedModels), request.principal
        return await self._all(
            body.models,
            lambda item: item.name,
            lambda tx, item: registry.put_model(tx, principal, item),
        )

    async def logged_models(self, request: Request) -> Response:
        """POST /api/v1/import/logged-models."""
        body, principal = await decode(request, registry.ImportedLoggedModels), request.principal
        return await self._all(
            body.models,
            lambda item: item.model_id,
            lambda tx, item: registry.put_logged(tx, principal, item, self._schemes),
        )

    async def _all(
        self, items: list[Any], name: Callable[[Any], str], put: Callable[[Tx, Any], ImportOutcome]
    ) -> Response:
        def write(tx: Tx, part: list[Any]) -> list[ImportOutcome]:
            return runs.each(part, name, partial(put, tx))

        results: list[ImportOutcome] = []
        # Each thing is imported by itself, so that others' writes may come between parts.
        for part in await asyncio.to_thread(_in_parts, items):
            results += await self._db.write(partial(write, part=part), is_long=True)
        return JSONResponse(Outcomes(results))

    async def points(self, request: Request) -> Response:
        """POST /api/v1/import/points: columns of points of some runs, as msgpack."""
        raw = await request.body()
        loop = asyncio.get_running_loop()
        given = await loop.run_in_executor(None, points.decode, raw)
        principal = request.principal
        written, refused = await points.put_points(
            self._db, self._tracking.names, principal, given
        )
        if written:
            for run_id, _ in given.runs:
                self._tracking.on_points(principal.team_id, run_id, 0)
        return JSONResponse(PointsWritten(written, refused))

    async def counts(self, request: Request) -> Response:
        """POST /api/v1/import/points/count."""
        body, principal = await decode(request, records.RunIds), request.principal
        found = await self._db.read(
            lambda reader: points.count_points(reader, principal, body.run_ids), seconds=60.0
        )
        return JSONResponse(PointCounts(found))

    async def deletions(self, request: Request) -> Response:
        """GET /api/v1/export/deletions: what MLflow's REST API does not tell."""
        principal = request.principal

        def load(reader: ReadConnection) -> Deletions:
            return Deletions(
                runs.deletion_times(reader, principal),
                registry.deleted_versions(reader, principal),
            )

        return JSONResponse(await self._db.read(load, seconds=60.0))

    async def files(self, request: Request) -> Response:
        """GET /api/v1/import/files/{owner}: what is here, with checksums."""
        owner = await self._artifacts.owner(request.principal, request.params["owner"])
        after = request.arg("after") or ""
        found = await self._artifacts.files(owner.id, after, FILES_PER_PAGE)
        return JSONResponse(
            ImportedFiles(
                [ImportedFile(one.path, one.size, one.sha256, one.created_ms) for one in found]
            )
        )

    async def put_file(self, request: Request) -> Response:
        """PUT /api/v1/import/files/{owner}/{path...}: a file, of a deleted run too."""
        owner = await self._artifacts.owner(request.principal, request.params["owner"])
        digest = declared_digest(request)
        if digest is None:
            raise InvalidInput("send the file's SHA-256 in a Content-Digest header")
        stored = await self._artifacts.put(
            request.principal,
            owner,
            check_path(request.params["path"]),
            whole_body(request),
            length=request.content_length(),
            sha256=digest,
            even_deleted=True,
        )
        return JSONResponse(
            ImportedFile(stored.path, stored.size, stored.sha256, stored.created_ms)
        )


def _in_parts(items: list[Any]) -> list[list[Any]]:
    """Divide what was sent into parts, each of which is written in little time."""
    parts: list[list[Any]] = []
    room = 0
    for item in items:
        cost = ITEM_COST + len(msgspec.json.encode(item))
        if not parts or cost > room:
            parts.append([])
            room = PART_COST
        parts[-1].append(item)
        room -= cost
    return parts


def routes(services: Services) -> list[Route]:
    """Return the routes of imports."""
    do = ImportRoutes(services)
    bodies: list[tuple[str, Any, Any, Any]] = [
        ("experiments", do.experiments, records.ImportedExperiments, Outcomes),
        ("runs", do.runs, records.ImportedRuns, Outcomes),
        ("traces", do.traces, records.ImportedTraces, Outcomes),
        ("models", do.models, registry.ImportedModels, Outcomes),
        ("logged-models", do.logged_models, registry.ImportedLoggedModels, Outcomes),
        ("points", do.points, None, PointsWritten),
        ("points/count", do.counts, records.RunIds, PointCounts),
    ]
    found = [
        Route(
            method="POST",
            path=f"/api/v1/import/{name}",
            handler=handler,
            permission=Permission.OWN,
            takes=takes,
            gives=gives,
            body_limit=IMPORT_BYTES,
        )
        for name, handler, takes, gives in bodies
    ]
    return [
        *found,
        Route(
            method="GET",
            path="/api/v1/export/deletions",
            handler=do.deletions,
            permission=Permission.READ,
            gives=Deletions,
        ),
        Route(
            method="GET",
            path="/api/v1/import/files/{owner}",
            handler=do.files,
            permission=Permission.OWN,
            gives=ImportedFiles,
            query={"after": "path of the last file of the page before"},
        ),
        Route(
            method="PUT",
            path="/api/v1/import/files/{owner}/{path...}",
            handler=do.put_file,
            permission=Permission.OWN,
            gives=ImportedFile,
        ),
    ]
