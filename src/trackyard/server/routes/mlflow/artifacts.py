"""MLflow's artifact routes: proxied files, listings, uploads in parts, and what the web UI shows.

Owns reading their arguments and who may call them. Paths are checked by `artifacts.paths`, owners
by `artifacts.owners`; nothing here touches a file.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from trackyard.artifacts.owners import ArtifactOwner
from trackyard.artifacts.paths import (
    ArtifactPlace,
    check_folder,
    check_path,
    file_name,
    join_path,
    parse_place,
)
from trackyard.artifacts.tree import TreeEntry
from trackyard.artifacts.uploads import CompletedPart, Uploads
from trackyard.core.errors import InvalidInput, NotFound, Unsupported
from trackyard.registry.sources import LoggedSource, RunSource, is_elsewhere, parse_source
from trackyard.server.http.downloads import attachment, preview
from trackyard.server.http.messages import JSONResponse, Request, Response, whole_number
from trackyard.server.http.uploads import declared_digest, whole_body
from trackyard.server.routes.mlflow.shared import (
    PREFIXES,
    Arguments,
    missing,
    mlflow_routes,
    one_run,
)
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services

ARTIFACT_PREFIXES = ("/api/2.0/mlflow-artifacts/", "/ajax-api/2.0/mlflow-artifacts/")
#: Carries the token of one part; a header, so that it is in no address and no log.
PART_TOKEN = "x-yard-upload-token"  # noqa: S105 - a header's name
#: What the web UI may upload in one call, as MLflow limits it.
UI_UPLOAD_BYTES = 10 * 1024 * 1024
#: Parts whose tokens are signed on the event loop.
FEW_PARTS = 500
_PART_NUMBER = re.compile(r"[1-9][0-9]{0,4}\Z")
_EMPTY: dict[str, Any] = {}


class FileRoutes:
    """Handlers of proxied files and listings."""

    def __init__(self, services: Services) -> None:
        self._artifacts = services.artifacts
        self._versions = services.registry.versions

    async def upload(self, request: Request) -> Response:
        """PUT artifacts/{path}."""
        place, owner = await self._place(request, to_write=True)
        await self._artifacts.put(
            request.principal,
            owner,
            check_path(place.path),
            whole_body(request),
            length=request.content_length(),
            sha256=declared_digest(request),
        )
        return JSONResponse(_EMPTY)

    async def download(self, request: Request) -> Response:
        """GET artifacts/{path}."""
        place = parse_place(request.params["path"], is_stored=False)
        owner = await self._owner_at(request, place)
        return await self._attach(request, owner.id, place.path)

    async def delete(self, request: Request) -> Response:
        """DELETE artifacts/{path}: a file, a folder, or all a run holds."""
        place, owner = await self._place(request)
        await self._artifacts.delete(request.principal, owner, place.path)
        return JSONResponse(_EMPTY)

    async def list_proxied(self, request: Request) -> Response:
        """GET artifacts?path=: names relative to the listed folder."""
        text = request.arg("path")
        if not text:
            raise missing("path")
        place = parse_place(text, is_stored=False)
        owner = await self._owner_at(request, place)
        folder = await self._artifacts.resolve(owner.id, place.path)
        entries = await self._artifacts.list(owner.id, folder)
        files = [_entry(entry, entry.name) for entry in entries]
        return JSONResponse({"files": files} if files else _EMPTY)

    async def list_of_run(self, request: Request) -> Response:
        """GET artifacts/list: paths relative to the run's root."""
        wanted = check_folder(request.arg("path"), is_stored=False)
        owner = await self._owner_of_query(request)
        folder = await self._artifacts.resolve(owner.id, wanted)
        entries = await self._artifacts.list(owner.id, folder)
        answer: dict[str, Any] = {"root_uri": owner.uri}
        if entries:
            answer["files"] = [_entry(entry, entry.path) for entry in entries]
        return JSONResponse(answer)

    async def get_artifact(self, request: Request) -> Response:
        """GET /get-artifact: a file of a run, as the web UI asks for it."""
        path = check_path(_need(request, "path"), is_stored=False)
        owner = await self._owner_of_query(request)
        return await self._attach(request, owner.id, path)

    async def get_version_artifact(self, request: Request) -> Response:
        """GET /model-versions/get-artifact: a file of a model version."""
        path = check_path(_need(request, "path"), is_stored=False)
        name, version = _need(request, "name"), _need(request, "version")
        uri = await self._versions.download_uri(request.principal, name, version)
        if not uri or is_elsewhere(uri):
            raise NotFound(
                f"the files of version {version} of {name!r} are held elsewhere ({uri[:200]});"
                " this server does not open them, so fetch them there"
            )
        source = parse_source(uri)
        if isinstance(source, RunSource):
            owner_id = source.run_id
        elif isinstance(source, LoggedSource):
            owner_id = source.model_id
        else:
            raise NotFound(f"version {version} of {name!r} has no artifacts of its own")
        owner = await self._artifacts.owner(request.principal, owner_id)
        whole = f"{source.path}/{path}" if source.path else path
        return await self._attach(request, owner.id, whole)

    async def upload_of_ui(self, request: Request) -> Response:
        """POST upload-artifact: a small file of a run, from the web UI."""
        if not request.arg("run_uuid"):
            raise InvalidInput("Request must specify run_uuid.")
        if not request.arg("path"):
            raise InvalidInput("Request must specify path.")
        path = check_path(_need(request, "path"))
        if (request.content_length() or 0) > UI_UPLOAD_BYTES:
            raise InvalidInput("Artifact size is too large. Max size is 10MB.")
        owner = await self._owner_of_query(request, to_write=True)
        data = bytearray()
        async for piece in whole_body(request):
            data += piece
            if len(data) > UI_UPLOAD_BYTES:
                raise InvalidInput("Artifact size is too large. Max size is 10MB.")
        if not data:
            raise InvalidInput("Request must specify data.")
        await self._artifacts.put(
            request.principal, owner, path, _once(bytes(data)), length=len(data)
        )
        return JSONResponse(_EMPTY)

    async def preview(self, request: Request) -> Response:
        """GET /api/v1/artifacts/preview: a file to be shown, in a sandbox."""
        path = check_path(_need(request, "path"), is_stored=False)
        owner = await self._owner_of_query(request)
        stored = await self._artifacts.resolve(owner.id, path)
        artifact = await self._artifacts.find(owner.id, stored)
        return await preview(request, self._artifacts, artifact)

    async def no_presigned(self, request: Request) -> Response:
        """GET presigned/{path}: refused, once the caller has shown to have a right to ask."""
        await self._place(request)
        raise Unsupported(
            "Multipart download is not supported for the current artifact repository; download"
            " through this server, which serves byte ranges"
        )

    async def no_presigned_url(self, request: Request) -> Response:
        """POST artifacts/presigned-{upload,download}-url: refused in the same way."""
        args = await Arguments.of(request)
        check_path(args.need("path"))
        await self._artifacts.owner(
            request.principal, args.text("model_id") or args.need("run_id")
        )
        raise Unsupported(
            "Presigned addresses are not given out: artifacts pass through this server, which"
            " takes uploads in parts and serves byte ranges"
        )

    async def _attach(self, request: Request, owner_id: str, path: str) -> Response:
        stored = await self._artifacts.resolve(owner_id, path)
        artifact = await self._artifacts.find(owner_id, stored)
        return await attachment(request, self._artifacts, artifact)

    async def _place(
        self, request: Request, *, to_write: bool = False
    ) -> tuple[ArtifactPlace, ArtifactOwner]:
        place = parse_place(request.params["path"])
        return place, await self._owner_at(request, place, to_write=to_write)

    async def _owner_at(
        self, request: Request, place: ArtifactPlace, *, to_write: bool = False
    ) -> ArtifactOwner:
        owner = await self._artifacts.owner(request.principal, place.owner, to_write=to_write)
        owner.check_experiment(request.principal, place.experiment)
        return owner

    async def _owner_of_query(self, request: Request, *, to_write: bool = False) -> ArtifactOwner:
        run_id = one_run(request.arg("run_id") or "", request.arg("run_uuid") or "")
        if not run_id:
            raise missing("run_id")
        return await self._artifacts.owner(request.principal, run_id, to_write=to_write)


class PartRoutes:
    """Handlers of uploads in parts."""

    def __init__(self, services: Services) -> None:
        self._artifacts = services.artifacts
        self._uploads = Uploads(services.database, services.artifacts)
        scheme = "https" if services.gate.secure else "http"
        self._base = (scheme, services.settings.prefix)

    async def create(self, request: Request) -> Response:
        """POST mpu/create/{path}: an upload, with an address and a token for each part."""
        args, owner, path = await self._target(request)
        count = args.integer("num_parts", 1) or 1
        upload = await self._uploads.begin(request.principal, owner, path, count)
        scheme, prefix = self._base
        root = f"{scheme}://{request.header('host')}{prefix}{ARTIFACT_PREFIXES[0]}mpu/part"

        def sign() -> list[dict[str, Any]]:
            return [
                {
                    "url": f"{root}/{upload.id}/{number}",
                    "part_number": number,
                    "headers": {PART_TOKEN: token},
                }
                for number, token in enumerate(upload.tokens(), start=1)
            ]

        credentials = sign() if count <= FEW_PARTS else await asyncio.to_thread(sign)
        return JSONResponse({"upload_id": upload.id, "credentials": credentials})

    async def put_part(self, request: Request) -> Response:
        """PUT mpu/part/{upload}/{number}: a part, on the strength of its token alone."""
        number = request.params["number"]
        stored = await self._uploads.put_part(
            request.params["upload"],
            int(number) if _PART_NUMBER.match(number) else 0,
            request.header(PART_TOKEN) or "",
            whole_body(request),
            length=request.content_length(),
        )
        return Response(headers=[("etag", f'"{stored.sha256}"')])

    async def complete(self, request: Request) -> Response:
        """POST mpu/complete/{path}: one artifact of all parts."""
        args, owner, path = await self._target(request)
        parts = [_part(item) for item in args.objects("parts")]
        upload_id = args.need("upload_id")
        await self._uploads.complete(request.principal, owner, path, upload_id, parts)
        return JSONResponse(_EMPTY)

    async def abort(self, request: Request) -> Response:
        """POST mpu/abort/{path}: forget the upload and its parts."""
        args, owner, path = await self._target(request)
        await self._uploads.abort(request.principal, owner, path, args.need("upload_id"))
        return JSONResponse(_EMPTY)

    async def _target(self, request: Request) -> tuple[Arguments, ArtifactOwner, str]:
        """Return the arguments, the owner, and the path: a folder plus a local file's name."""
        place = parse_place(request.params["path"])
        owner = await self._artifacts.owner(request.principal, place.owner, to_write=True)
        owner.check_experiment(request.principal, place.experiment)
        args = await Arguments.of(request)
        return args, owner, join_path(place.path, file_name(args.need("path")))


def routes(services: Services) -> list[Route]:
    """Return the routes of artifacts."""
    files, parts = FileRoutes(services), PartRoutes(services)
    read, log, curate = Permission.READ, Permission.LOG, Permission.CURATE
    proxied: list[tuple[str, str, Handler, Permission, bool]] = [
        ("GET", "artifacts", files.list_proxied, read, True),
        ("GET", "artifacts/{path...}", files.download, read, True),
        ("PUT", "artifacts/{path...}", files.upload, log, True),
        # Replacing a file is logging; making it vanish is curating.
        ("DELETE", "artifacts/{path...}", files.delete, curate, False),
        ("GET", "presigned/{path...}", files.no_presigned, read, True),
        ("POST", "mpu/create/{path...}", parts.create, log, True),
        ("POST", "mpu/complete/{path...}", parts.complete, log, True),
        ("POST", "mpu/abort/{path...}", parts.abort, log, True),
        # MLflow's clients put parts without their credential; the token in a header stands for it.
        ("PUT", "mpu/part/{upload}/{number}", parts.put_part, Permission.PUBLIC, False),
    ]
    tracked: list[tuple[str, str, Handler, Permission, bool]] = [
        ("GET", "artifacts/list", files.list_of_run, read, True),
        ("GET", "get-artifact", files.get_artifact, read, True),
        ("POST", "upload-artifact", files.upload_of_ui, log, True),
        ("POST", "artifacts/presigned-upload-url", files.no_presigned_url, log, True),
        ("POST", "artifacts/presigned-download-url", files.no_presigned_url, read, True),
    ]
    found = [
        route
        for prefixes, table in ((ARTIFACT_PREFIXES, proxied), (PREFIXES, tracked))
        for method, path, handler, permission, attempts in table
        for route in mlflow_routes(
            method, path, handler, permission, attempts=attempts, prefixes=prefixes
        )
    ]
    return [*found, *_plain_routes(files)]


def _plain_routes(files: FileRoutes) -> list[Route]:
    read = Permission.READ
    return [
        Route(
            method="GET",
            path="/get-artifact",
            handler=files.get_artifact,
            permission=read,
            attempts=True,
        ),
        Route(
            method="GET",
            path="/model-versions/get-artifact",
            handler=files.get_version_artifact,
            permission=read,
        ),
        Route(
            method="GET",
            path="/api/v1/artifacts/preview",
            handler=files.preview,
            permission=read,
            query={
                "run_id": "the run, or a logged model's id",
                "path": "path of the file below its root",
            },
        ),
    ]


async def _once(data: bytes) -> Any:
    yield data


def _need(request: Request, name: str) -> str:
    value = request.arg(name)
    if not value:
        raise missing(name)
    return value


def _entry(entry: TreeEntry, path: str) -> dict[str, Any]:
    """Return a file or folder as MLflow writes it: a folder has no size."""
    if entry.is_dir:
        return {"path": path, "is_dir": True}
    return {"path": path, "is_dir": False, "file_size": entry.size}


def _part(item: dict[str, Any]) -> CompletedPart:
    number, etag = item.get("part_number"), item.get("etag")
    if isinstance(number, str):
        number = whole_number(number)
    if not isinstance(number, int) or not isinstance(etag, str):
        raise InvalidInput("each of `parts` is an object with a `part_number` and an `etag`")
    return CompletedPart(number=number, etag=etag)
