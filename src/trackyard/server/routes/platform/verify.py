"""Looking for damage, for admins: `yard verify` asks for slices until all was read."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.artifacts.verify import check_files
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.tracking.soundness import check_blocks, check_pages

#: About how long one slice takes, so that no proxy gives up on it.
SLICE_SECONDS = 2.0


class DamagedFile(msgspec.Struct):
    """A file whose bytes are gone or changed."""

    #: `artifact`, or `package` of a job
    kind: str
    #: run or logged model that holds it, or the package's digest
    owner: str
    path: str
    blob: str
    size: int
    sha256: str
    what: str


class FilesVerified(msgspec.Struct):
    """A slice of the files; ask on with `next` as `after` until it is null."""

    files: int
    bytes: int
    damaged: list[DamagedFile]
    next: str | None


class DatabaseVerified(msgspec.Struct):
    """A slice of the database; ask on with `next` as `after` until it is null."""

    damaged: list[str]
    next: int | None


class VerifyRoutes:
    """Handlers that read what is stored and compare."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._blobs = services.artifacts.blobs

    async def files(self, request: Request) -> Response:
        """GET /api/v1/admin/verify/files: read files and compare them with their digests."""
        after = request.arg("after") or ""
        found = await check_files(self._db, self._blobs, after=after, seconds=SLICE_SECONDS)
        damaged = [
            DamagedFile(
                kind=bad.file.kind,
                owner=bad.file.owner,
                path=bad.file.path,
                blob=bad.file.blob,
                size=bad.file.size,
                sha256=bad.file.sha256,
                what=bad.what,
            )
            for bad in found.bad
        ]
        return JSONResponse(
            FilesVerified(found.files, found.total_bytes, damaged, found.next_place)
        )

    async def database(self, request: Request) -> Response:
        """GET /api/v1/admin/verify/database: read the database and name what is damaged."""
        after = request.number("after", 0)
        damaged = [] if after else await check_pages(self._db)
        blocks, further = await check_blocks(self._db, after=after, seconds=SLICE_SECONDS)
        return JSONResponse(DatabaseVerified([*damaged, *blocks], further))


def routes(services: Services) -> list[Route]:
    """Return the routes of `yard verify`."""
    do = VerifyRoutes(services)

    def route(path: str, handler: Any, gives: Any) -> Route:
        return Route(
            method="GET",
            path=f"/api/v1/admin/verify/{path}",
            handler=handler,
            permission=Permission.ADMIN,
            gives=gives,
            query={"after": "`next` of the answer before"},
        )

    return [
        route("files", do.files, FilesVerified),
        route("database", do.database, DatabaseVerified),
    ]
