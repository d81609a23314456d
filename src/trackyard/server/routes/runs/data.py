"""Data sets over HTTP: adding, listing, reading, comparing, removing. What `yard data`, the Data
pages and runners call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.core.dataset import ManifestEntry
from trackyard.core.errors import InvalidInput
from trackyard.datasets.contents import MAX_CONTENTS
from trackyard.datasets.layouts import Classes, kind_of
from trackyard.datasets.records import DatasetVersionRow, newest_versions, version_counts
from trackyard.datasets.upkeep import clean
from trackyard.datasets.uses import nodes_holding, uses_of
from trackyard.server.http.downloads import PREVIEWS, content_type, disposition
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.http.pipe import PipeResponse
from trackyard.server.http.uploads import whole_body
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Days, Word
from trackyard.store.database import ReadConnection

MANIFEST_BYTES = 160 * 1024**2
MAX_PAGE = 1000
MAX_CHANGES = 1000
#: what a browser may do with a file of a data set: show it, and nothing else
_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"

Digests = Annotated[list[Word], Meta(max_length=MAX_CONTENTS)]


class ContentNames(msgspec.Struct):
    """Contents by their SHA-256."""

    contents: Digests


class MissingReply(msgspec.Struct):
    """Contents that have to be sent."""

    missing: list[str]


class StoredReply(msgspec.Struct):
    """How many contents were new."""

    stored: int


class VersionView(msgspec.Struct):
    """A version of a data set."""

    name: str
    version: int
    digest: str
    files: int
    size_bytes: int
    layout: str
    #: files by split and class
    classes: Classes
    source: str
    user: str
    created_ms: int
    used_ms: int


class AddReply(msgspec.Struct):
    """The version that was made or found; none while contents are missing."""

    version: VersionView | None
    is_new: bool
    missing: list[str]


class DataSummary(msgspec.Struct):
    """A data set in the list: its newest version, and all together."""

    newest: VersionView
    versions: int
    size_bytes: int


class DataList(msgspec.Struct):
    """Data sets of a team, by name; ask on after the last one."""

    data: list[DataSummary]
    next: str


class DataDetail(msgspec.Struct):
    """A data set with its versions, the newest first."""

    name: str
    versions: list[VersionView]


class FolderView(msgspec.Struct):
    """A folder of a version."""

    name: str
    files: int
    size_bytes: int


class FileView(msgspec.Struct):
    """A file of a version."""

    path: str
    size_bytes: int
    sha256: str
    #: `image`, `audio`, `table`, `text` or `binary`
    kind: str


class FilesReply(msgspec.Struct):
    """What lies in a folder; ask on after `next`."""

    folders: list[FolderView]
    files: list[FileView]
    next: str


class LookReply(msgspec.Struct):
    """What can be shown of a file."""

    kind: str
    columns: list[str]
    rows: list[list[str]]
    text: str
    is_cut: bool


class ChangeView(msgspec.Struct):
    """A file that differs."""

    what: str
    path: str
    size: int
    old_size: int
    old_path: str


class DiffReply(msgspec.Struct):
    """How a version differs from another."""

    old: VersionView
    new: VersionView
    added: int
    removed: int
    changed: int
    moved: int
    same: int
    added_bytes: int
    removed_bytes: int
    changes: list[ChangeView]
    is_cut: bool


class UseView(msgspec.Struct):
    """A run that read a version, with its job and the models that came of it."""

    run_id: str
    run_name: str
    job_id: str
    models: list[str]
    created_ms: int


class UsersReply(msgspec.Struct):
    """Who used a version, and the nodes that hold a copy."""

    version: VersionView
    uses: list[UseView]
    nodes: list[str]


class CleanRequest(msgspec.Struct):
    """What to clean up."""

    #: versions not used for so many days; null removes no version, contents alone
    unused_days: Days | None = None
    dry_run: bool = False


class KeptView(msgspec.Struct):
    """A version that is kept, and what needs it."""

    version: VersionView
    needed_by: str


class CleanReply(msgspec.Struct):
    """What was removed, or would be."""

    versions: list[VersionView]
    kept: list[KeptView]
    contents: int
    content_bytes: int
    dry_run: bool


class DataRoutes:
    """Handlers of data sets."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._data = services.data

    async def list(self, request: Request) -> Response:
        """GET /api/v1/data: data sets of the team, by name."""
        after, most = request.arg("after") or "", _page(request)
        team = request.principal.team_id

        def load(reader: ReadConnection) -> tuple[Any, Any]:
            return newest_versions(reader, team, after=after, most=most + 1), version_counts(
                reader, team
            )

        rows, counts = await self._services.database.read(load)
        shown = [
            DataSummary(view(row), versions=counts[row.name][0], size_bytes=counts[row.name][1])
            for row in rows[:most]
        ]
        return JSONResponse(DataList(shown, rows[most - 1].name if len(rows) > most else ""))

    async def missing(self, request: Request) -> Response:
        """POST /api/v1/data/missing: which contents are not stored yet."""
        wish = await decode(request, ContentNames)
        return JSONResponse(
            MissingReply(await self._data.contents.missing(request.principal, wish.contents))
        )

    async def store(self, request: Request) -> Response:
        """POST /api/v1/data/contents: a JSON line of digests and sizes, then their bytes."""
        stored = await self._data.contents.put(request.principal, whole_body(request))
        return JSONResponse(StoredReply(stored))

    async def fetch(self, request: Request) -> Response:
        """POST /api/v1/data/fetch: the bytes of contents, one after the other."""
        wish = await decode(request, ContentNames)
        places = await self._data.contents.fetch(request.principal, wish.contents)
        headers = _binary(sum(place.size for place in places))
        return PipeResponse(self._data.contents.read(places), headers=headers)

    async def add(self, request: Request) -> Response:
        """POST /api/v1/data/{name}/versions: a manifest becomes a version, whole or not at all."""
        manifest = await request.body()
        added = await self._data.add(
            request.principal,
            request.params["name"],
            manifest,
            layout=request.arg("layout") or "auto",
            source=request.arg("source") or "",
        )
        shown = None if added.version is None else view(added.version)
        return JSONResponse(AddReply(shown, added.is_new, [*added.missing]))

    async def show(self, request: Request) -> Response:
        """GET /api/v1/data/{name}: a data set and its versions."""
        rows = await self._data.versions(request.principal, request.params["name"])
        return JSONResponse(DataDetail(rows[0].name, [view(row) for row in rows]))

    async def version(self, request: Request) -> Response:
        """GET /api/v1/data/{name}/versions/{version}: one version; `latest` is the newest."""
        return JSONResponse(view(await self._version(request)))

    async def manifest(self, request: Request) -> Response:
        """GET …/manifest: one JSON line per file; its SHA-256 is the version's digest."""
        row = await self._version(request)
        await self._data.note_used(row)
        return PipeResponse(
            _generated(self._data.manifest(row)), headers=_binary(row.manifest_bytes)
        )

    async def files(self, request: Request) -> Response:
        """GET …/files: what lies in a folder."""
        row = await self._version(request)
        page = await self._data.page(
            row, request.arg("folder") or "", request.arg("after") or "", _page(request)
        )
        folders = [FolderView(one.name, one.files, one.size) for one in page.folders]
        return JSONResponse(FilesReply(folders, [_file(one) for one in page.files], page.after))

    async def samples(self, request: Request) -> Response:
        """GET …/samples: files to look at, evenly from all classes or from one."""
        row = await self._version(request)
        found = await self._data.samples(
            row, min(_page(request), 200), request.arg("of_class") or ""
        )
        return JSONResponse(FilesReply([], [_file(one) for one in found], ""))

    async def look(self, request: Request) -> Response:
        """GET …/preview: the first rows of a table, the first lines of a text."""
        row = await self._version(request)
        entry = await self._data.file(row, _path(request))
        found = await self._data.look(request.principal, entry)
        return JSONResponse(LookReply(**asdict(found)))

    async def file(self, request: Request) -> Response:
        """GET …/file: the bytes of one file, to be shown where that is safe, else saved."""
        row = await self._version(request)
        entry = await self._data.file(row, _path(request))
        kind = PREVIEWS.get(entry.path.rpartition(".")[2].lower())
        name = entry.path.rpartition("/")[2]
        headers = [
            ("content-type", kind or content_type(entry.path)),
            ("content-security-policy", _POLICY),
            ("etag", f'"{entry.sha256}"'),
            ("cache-control", "private, max-age=86400"),
            ("content-length", str(entry.size)),
        ]
        if kind is None or kind.startswith("text/html"):
            headers.append(("content-disposition", disposition(name)))
        if f'"{entry.sha256}"' in (request.header("if-none-match") or ""):
            return Response(status=304, headers=headers[:-1])
        if not entry.size:
            return Response(headers=headers[:4])
        pieces = self._data.read(request.principal, entry)
        return PipeResponse(_generated(pieces), headers=headers)

    async def diff(self, request: Request) -> Response:
        """GET /api/v1/data/{name}/diff: how one version differs from another."""
        name = request.params["name"]
        find = partial(self._data.find, request.principal)
        old = await find(f"{name}@{request.arg('old') or 'latest'}")
        new = await find(f"{name}@{request.arg('new') or 'latest'}")
        found = await self._data.compare(old, new, MAX_CHANGES)
        facts = asdict(found)
        facts["changes"] = [ChangeView(**change) for change in facts["changes"]]
        return JSONResponse(DiffReply(view(old), view(new), **facts))

    async def users(self, request: Request) -> Response:
        """GET …/users: runs, jobs and models that used a version, and nodes that hold it."""
        row = await self._version(request)
        team = request.principal.team_id

        def load(reader: ReadConnection) -> UsersReply:
            uses = uses_of(reader, row.id)
            models = self._data.models_behind(reader, [use.run_uuid for use in uses])
            shown = [
                UseView(
                    use.run_uuid,
                    use.run_name,
                    use.job_id,
                    models.get(use.run_uuid, []),
                    use.created_ms,
                )
                for use in uses
            ]
            return UsersReply(view(row), shown, nodes_holding(reader, team, row.digest))

        return JSONResponse(await self._services.database.read(load))

    async def remove(self, request: Request) -> Response:
        """DELETE /api/v1/data/{name}/versions/{version}: remove one version."""
        row = await self._version(request)
        await self._data.remove(request.principal, row, force=request.arg("force") == "1")
        return JSONResponse(view(row))

    async def clean(self, request: Request) -> Response:
        """POST /api/v1/data/clean: remove versions unused for long, and what nothing refers to."""
        wish = await decode(request, CleanRequest)
        found = await clean(
            self._services.database,
            self._services.artifacts,
            self._data,
            request.principal,
            unused_days=wish.unused_days,
            dry_run=wish.dry_run,
        )
        return JSONResponse(
            CleanReply(
                [view(row) for row in found.versions],
                [KeptView(view(kept.version), kept.needed_by) for kept in found.kept],
                found.contents,
                found.content_bytes,
                wish.dry_run,
            )
        )

    async def _version(self, request: Request) -> DatasetVersionRow:
        text = f"{request.params['name']}@{request.params['version']}"
        return await self._data.find(request.principal, text)


def view(row: DatasetVersionRow) -> VersionView:
    """Show a version."""
    return VersionView(
        name=row.name,
        version=row.version,
        digest=row.digest,
        files=row.files,
        size_bytes=row.size_bytes,
        layout=row.layout,
        classes=msgspec.json.decode(row.classes, type=Classes),
        source=row.source,
        user=row.user_name,
        created_ms=row.created_ms,
        used_ms=row.used_ms,
    )


def _file(entry: ManifestEntry) -> FileView:
    return FileView(entry.path, entry.size, entry.sha256, kind_of(entry.path))


def _path(request: Request) -> str:
    path = request.arg("path") or ""
    if not path:
        raise InvalidInput("name a file with ?path=")
    return path


def _page(request: Request) -> int:
    return max(1, min(MAX_PAGE, request.number("limit", 200)))


def _binary(size: int) -> list[tuple[str, str]]:
    return [("content-type", "application/octet-stream"), ("content-length", str(size))]


async def _generated(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        yield piece


def _get(
    path: str,
    handler: Any,
    gives: Any,
    query: dict[str, str] | None = None,
    *,
    jobs: bool = False,
) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        permission=Permission.READ,
        attempts=jobs,
        runners=jobs,
        gives=gives,
        query=query or {},
    )


def _post(path: str, handler: Any, takes: Any, gives: Any, **more: Any) -> Route:
    permission = more.pop("permission", Permission.LOG)
    return Route(
        method="POST",
        path=path,
        handler=handler,
        permission=permission,
        takes=takes,
        gives=gives,
        **more,
    )


_PAGING = {"after": "go on after this name", "limit": f"at most so many, up to {MAX_PAGE}"}
_ONE = "/api/v1/data/{name}/versions/{version}"


def routes(services: Services) -> list[Route]:
    """Return the routes of data sets."""
    do = DataRoutes(services)
    by_jobs = {"permission": Permission.READ, "attempts": True, "runners": True}
    return [
        _get("/api/v1/data", do.list, DataList, _PAGING),
        _post("/api/v1/data/missing", do.missing, ContentNames, MissingReply),
        _post("/api/v1/data/contents", do.store, None, StoredReply),
        _post("/api/v1/data/fetch", do.fetch, ContentNames, None, **by_jobs),
        _post(
            "/api/v1/data/clean", do.clean, CleanRequest, CleanReply, permission=Permission.CURATE
        ),
        _post(
            "/api/v1/data/{name}/versions",
            do.add,
            None,
            AddReply,
            query={
                "layout": "auto (default), imagefolder, prefix or files",
                "source": "where it came from, for people",
            },
            body_limit=MANIFEST_BYTES,
        ),
        _get("/api/v1/data/{name}", do.show, DataDetail, jobs=True),
        _get(
            "/api/v1/data/{name}/diff",
            do.diff,
            DiffReply,
            {"old": "version to compare with, as v1", "new": "the other; newest by default"},
        ),
        *_version_routes(do),
    ]


def _version_routes(do: DataRoutes) -> list[Route]:
    path = {"path": "path of the file"}
    one_class = {"of_class": "folder of one class", "limit": "at most so many, up to 200"}
    return [
        _get(_ONE, do.version, VersionView, jobs=True),
        Route(
            method="DELETE",
            path=_ONE,
            handler=do.remove,
            permission=Permission.CURATE,
            gives=VersionView,
            query={"force": "1 removes it though a model or job needs it"},
        ),
        _get(f"{_ONE}/manifest", do.manifest, None, jobs=True),
        _get(f"{_ONE}/files", do.files, FilesReply, {"folder": "folder in it", **_PAGING}),
        _get(f"{_ONE}/samples", do.samples, FilesReply, one_class),
        _get(f"{_ONE}/preview", do.look, LookReply, path),
        _get(f"{_ONE}/file", do.file, None, path, jobs=True),
        _get(f"{_ONE}/users", do.users, UsersReply),
    ]
