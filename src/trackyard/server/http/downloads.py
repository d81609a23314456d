"""How an artifact leaves over HTTP: its headers, ranges, and the way its bytes take.

Owns names and types in headers, and what a browser may show. Whoever calls has checked access.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import PurePosixPath
from urllib.parse import quote

from trackyard.artifacts.paths import file_name
from trackyard.artifacts.service import Artifact, Artifacts
from trackyard.core.errors import InvalidInput, RangeNotSatisfiable
from trackyard.server.http.messages import FileResponse, Request, Response, error_response
from trackyard.server.http.pipe import PipeResponse

Headers = list[tuple[str, str]]

#: Answers up to this size are read, checked and sent as one; more flows at the caller's pace.
WHOLE_BYTES = 2 * 1024 * 1024

#: MLflow's clients and UI expect these as plain text.
_TEXT = frozenset(
    (
        "cf cfg cnf conf csv err hocon ini ipynb js json log md mlmodel mlproject prop properties"
        " py py3 rst toml tsv txt xml yaml yml"
    ).split()
)
_BINARY = "application/octet-stream"
_PLAIN = "text/plain; charset=utf-8"
#: What a preview may be shown as; any other type is for downloading alone.
PREVIEWS: dict[str, str] = {
    **dict.fromkeys(_TEXT, _PLAIN),
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": _BINARY,
    "html": "text/html; charset=utf-8",
    "htm": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "avif": "image/avif",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "mp4": "video/mp4",
    "webm": "video/webm",
}
#: No script, no form, no request and an origin of its own, whatever the file holds.
_SANDBOX = "sandbox; default-src 'none'"
_PREVIEW_POLICY = (
    f"{_SANDBOX}; style-src 'unsafe-inline'; img-src data:; media-src data:; font-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
#: A page may run the scripts it carries: without an origin, so that no cookie, no store and no
#: other frame is its own, and without a way to load or to send anything.
_PAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data:"
    " blob:; style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:;"
    " font-src data:; worker-src blob:; connect-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)

_TOKEN = re.compile(r"[A-Za-z0-9!#$&+.^_`|~-]+\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9!#$&+.^_`|~ ()@=,-]")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


async def attachment(request: Request, artifacts: Artifacts, artifact: Artifact) -> Response:
    """Answer with a file to be saved, never shown."""
    headers = [
        ("content-type", content_type(artifact.path)),
        ("content-disposition", disposition(file_name(artifact.path))),
        ("content-security-policy", _SANDBOX),
    ]
    return await _send(request, artifacts, artifact, headers)


async def preview(request: Request, artifacts: Artifacts, artifact: Artifact) -> Response:
    """Answer with a file a page may show, in a sandbox; refuse types that are not for showing."""
    kind = PREVIEWS.get(_extension(artifact.path))
    if kind is None:
        raise InvalidInput(
            f"there is no preview of {file_name(artifact.path)!r}: its type is not one that is"
            " shown; download it instead"
        )
    policy = _PAGE_POLICY if kind.startswith("text/html") else _PREVIEW_POLICY
    headers = [("content-type", kind), ("content-security-policy", policy)]
    return await _send(request, artifacts, artifact, headers)


def content_type(path: str) -> str:
    """Return a file's type by its name, as MLflow does."""
    if _extension(path) in _TEXT:
        return "text/plain"
    kind, encoding = mimetypes.guess_type(PurePosixPath(file_name(path)).name)
    return _BINARY if kind is None or encoding is not None else kind


def disposition(name: str) -> str:
    """Return a Content-Disposition that no name can break out of."""
    if _TOKEN.match(name):
        return f"attachment; filename={name}"
    plain = _UNSAFE.sub("_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Return first byte and the byte after the last one, or None for the whole file."""
    match = _RANGE.match(text.strip()) if text is not None else None
    if match is None or match[1] == match[2] == "":
        return None  # absent, of several parts or not understood: HTTP lets us send all
    if not match[1]:
        wanted = int(match[2])
        start, end = max(0, size - wanted), size
    else:
        start = int(match[1])
        end = min(size, int(match[2]) + 1) if match[2] else size
        if match[2] and int(match[2]) < start:
            return None
    if start >= size or start >= end:
        raise RangeNotSatisfiable(
            f"the file has {size} bytes; the range asked for has none of them"
        )
    return start, end


async def _send(
    request: Request, artifacts: Artifacts, artifact: Artifact, headers: Headers
) -> Response:
    etag = f'"{artifact.sha256}"'
    headers += [("etag", etag), ("accept-ranges", "bytes")]
    if etag in (request.header("if-none-match") or ""):
        return Response(status=304, headers=headers)
    if request.method == "HEAD":
        return Response(headers=[*headers, ("content-length", str(artifact.size))])
    wanted = request.header("range")
    if request.header("if-range") not in (None, etag):
        wanted = None  # the caller holds the beginning of another version
    try:
        span = parse_range(wanted, artifact.size)
    except RangeNotSatisfiable as fault:
        refusal = error_response(fault)
        refusal.headers.append(("content-range", f"bytes */{artifact.size}"))
        return refusal
    if span is None:
        return await _whole(artifacts, artifact, headers)
    return await _partial(artifacts, artifact, headers, span)


async def _whole(artifacts: Artifacts, artifact: Artifact, headers: Headers) -> Response:
    if artifact.size <= WHOLE_BYTES:
        return Response(await artifacts.read_all(artifact), headers=headers)
    headers.append(("content-length", str(artifact.size)))
    return PipeResponse(await _started(artifacts.read(artifact)), headers=headers)


async def _partial(
    artifacts: Artifacts, artifact: Artifact, headers: Headers, span: tuple[int, int]
) -> Response:
    start, end = span
    await artifacts.vouch(artifact)
    headers.append(("content-range", f"bytes {start}-{end - 1}/{artifact.size}"))
    if end - start <= WHOLE_BYTES:
        body = b"".join([piece async for piece in artifacts.read(artifact, start, end)])
        return Response(body, status=206, headers=headers)
    headers.append(("content-length", str(end - start)))
    path = await artifacts.local_file(artifact)
    if path is not None:
        return FileResponse(path, span=span, status=206, headers=headers)
    pieces = await _started(artifacts.read(artifact, start, end))
    return PipeResponse(pieces, status=206, headers=headers)


async def _started(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Fetch the first piece, so that a blob that is gone is an error and not a cut download."""
    first = await anext(pieces)

    async def whole() -> AsyncGenerator[bytes, None]:
        yield first
        async for piece in pieces:
            yield piece

    return whole()


def _extension(path: str) -> str:
    name = file_name(path)
    return (PurePosixPath(name).suffix.removeprefix(".") or name).lower()
