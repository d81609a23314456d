"""A backup of a live server, fetched by an admin: a copy of the database and every file it names.

Owns the copy while it is being fetched. What is deleted meanwhile is kept until the backup ends,
so that each file of the copy is there. The caller decides where it lies; this server opens no
place that a client names.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

import trackyard
from trackyard.artifacts.blobs import BLOB_ID
from trackyard.core.errors import Conflict, InvalidInput, NotFound
from trackyard.server.http.messages import FileResponse, JSONResponse, Request, Response
from trackyard.server.http.pipe import PipeResponse
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.sqlite.backup import DatabaseCopy, blobs_after, find_blob, snapshot

#: Seconds without a request after which a backup counts as abandoned.
IDLE_SECONDS = 900.0
PAGE = 1000
#: Up to this size a file goes out as one piece.
WHOLE_BYTES = 2 * 1024 * 1024


class BackupInfo(msgspec.Struct):
    """A backup that is ready to be fetched."""

    id: str
    version: str
    schema: str
    created_ms: int
    #: id of the last event in it
    mark: int
    database_bytes: int
    database_sha256: str
    files: int
    file_bytes: int
    #: what is damaged in the database itself
    damage: list[str]


class BackupFile(msgspec.Struct):
    """A file of a backup: where it lies below the home folder, and what it must be."""

    blob: str
    path: str
    size: int
    sha256: str
    #: run or logged model that holds it and its path there, or `package` and its digest
    owner: str
    name: str


class BackupFiles(msgspec.Struct):
    """A page of files; ask on after the last one's blob."""

    files: list[BackupFile]


@dataclass(slots=True)
class _Open:
    id: str
    copy: DatabaseCopy
    used: float
    held: AsyncExitStack = field(default_factory=AsyncExitStack)


class BackupRoutes:
    """Handlers of backups; one is open at a time."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._folder = services.settings.home / "backup"
        self._open: _Open | None = None
        self._is_busy = False
        self._watch: asyncio.Task[None] | None = None

    async def begin(self, request: Request) -> Response:
        """POST /api/v1/admin/backups: copy the database and hold every file it names."""
        if self._open is not None or self._is_busy:
            raise Conflict("another backup is under way; it ends by itself when it is abandoned")
        self._is_busy = True
        try:
            backup = await self._begin()
        finally:
            self._is_busy = False
        self._open = backup
        self._watch = asyncio.create_task(self._close_when_abandoned(backup))
        created_ms = self._services.clock.time_ms()
        await self._note(request.principal.name, backup.copy)
        return JSONResponse(
            BackupInfo(
                id=backup.id,
                version=trackyard.__version__,
                schema=backup.copy.schema,
                created_ms=created_ms,
                mark=backup.copy.mark,
                database_bytes=backup.copy.size,
                database_sha256=backup.copy.sha256,
                files=backup.copy.files,
                file_bytes=backup.copy.file_bytes,
                damage=backup.copy.damage,
            )
        )

    async def _begin(self) -> _Open:
        number = secrets.token_hex(8)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for leftover in self._folder.iterdir():
            leftover.unlink()
        target = self._folder / f"{number}.db"
        held = AsyncExitStack()
        # Before the copy is made: no file that it names may go from here on.
        await held.enter_async_context(self._services.artifacts.hold())
        held.callback(lambda: target.unlink(missing_ok=True))
        try:
            # Rows that wait in the journal reach their tables, so that the copy's mark tells all.
            await self._services.database.read(lambda _: None)
            copy = await asyncio.to_thread(snapshot, self._services.database.url, target)
        except BaseException:
            await held.aclose()
            raise
        return _Open(number, copy, self._services.clock.monotonic(), held)

    async def _note(self, actor: str, copy: DatabaseCopy) -> None:
        await self._services.database.write(
            lambda tx: tx.event(
                "backup.taken",
                team_id=None,
                actor=actor,
                subject="server",
                subject_id="database",
                mark=copy.mark,
                files=copy.files,
            )
        )

    async def database(self, request: Request) -> Response:
        """GET /api/v1/admin/backups/{id}/database: the copy of the database."""
        copy = self._find(request).copy
        return FileResponse(str(copy.path), headers=_binary(copy.size))

    async def files(self, request: Request) -> Response:
        """GET /api/v1/admin/backups/{id}/files: the files the copy names, in pages."""
        backup = self._find(request)
        after = request.arg("after") or ""
        rows = await asyncio.to_thread(blobs_after, backup.copy.path, after, PAGE)
        found = [
            BackupFile(
                blob=row.blob,
                path=f"artifacts/blobs/{row.blob[:2]}/{row.blob}",
                size=row.size,
                sha256=row.sha256,
                owner=row.owner,
                name=row.path,
            )
            for row in rows
        ]
        return JSONResponse(BackupFiles(found))

    async def file(self, request: Request) -> Response:
        """GET /api/v1/admin/backups/{id}/files/{blob}: the bytes of one file."""
        backup, blob = self._find(request), request.params["blob"]
        if BLOB_ID.match(blob) is None:
            raise InvalidInput("that is not the name of a file in a backup")
        row = await asyncio.to_thread(find_blob, backup.copy.path, blob)
        if row is None:
            raise NotFound("the backup has no such file")
        pieces = self._pieces(backup, blob, row.size)
        if row.size <= WHOLE_BYTES:
            body = b"".join([piece async for piece in pieces])
            return Response(body, headers=[("content-type", "application/octet-stream")])
        return PipeResponse(pieces, headers=_binary(row.size))

    async def _pieces(self, backup: _Open, blob: str, size: int) -> AsyncGenerator[bytes, None]:
        async for piece in self._services.artifacts.blobs.read(blob, 0, size):
            backup.used = self._services.clock.monotonic()
            yield piece

    async def end(self, request: Request) -> Response:
        """DELETE /api/v1/admin/backups/{id}: let go of the copy and of what was deleted since."""
        backup = self._find(request)
        if self._watch is not None:
            self._watch.cancel()
        await self._close(backup)
        return JSONResponse({})

    def _find(self, request: Request) -> _Open:
        backup = self._open
        if backup is None or backup.id != request.params["backup_id"]:
            raise NotFound("no such backup is open; begin another with `yard backup`")
        backup.used = self._services.clock.monotonic()
        return backup

    async def _close(self, backup: _Open) -> None:
        if self._open is backup:
            self._open = None
            await backup.held.aclose()

    async def _close_when_abandoned(self, backup: _Open) -> None:
        clock = self._services.clock
        with contextlib.suppress(asyncio.CancelledError):
            while clock.monotonic() - backup.used < IDLE_SECONDS:  # noqa: ASYNC110 - asks rarely
                await asyncio.sleep(IDLE_SECONDS / 10)
            await self._close(backup)


def _binary(size: int) -> list[tuple[str, str]]:
    return [("content-type", "application/octet-stream"), ("content-length", str(size))]


def routes(services: Services) -> list[Route]:
    """Return the routes of backups."""
    do = BackupRoutes(services)
    base = "/api/v1/admin/backups"

    def route(method: str, path: str, handler: Any, gives: Any = None, **query: str) -> Route:
        return Route(
            method=method,
            path=base + path,
            handler=handler,
            permission=Permission.ADMIN,
            gives=gives,
            query=query,
        )

    return [
        route("POST", "", do.begin, BackupInfo),
        route("GET", "/{backup_id}/database", do.database),
        route("GET", "/{backup_id}/files", do.files, BackupFiles, after="the last blob so far"),
        route("GET", "/{backup_id}/files/{blob}", do.file),
        route("DELETE", "/{backup_id}", do.end),
    ]
