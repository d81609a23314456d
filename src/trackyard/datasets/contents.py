"""Stored contents: pieces of at most 32 MiB, named by their SHA-256 within a team, many small ones
in one blob. Owns `data_contents` and `data_packs`; knows no data set.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from trackyard.access.principal import Principal
from trackyard.artifacts.blobs import BlobDigest, StoredBlob
from trackyard.artifacts.service import Artifacts
from trackyard.core.dataset import PART_BYTES, SHA256
from trackyard.core.errors import InvalidInput, NotFound, TooLarge
from trackyard.store.database import Database, ReadConnection, Tx

#: Contents named in one request, and bytes sent in one.
MAX_CONTENTS = 4096
MAX_PACK_BYTES = PART_BYTES
MAX_HEADER_BYTES = 512 * 1024
MAX_FETCH_BYTES = 2 * PART_BYTES
#: Adjacent contents are read from a blob together up to this size.
_SPAN_BYTES = 8 * 1024**2
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ContentPlace:
    """Where a content lies."""

    sha256: str
    blob: str
    start: int
    size: int


class Contents:
    """Writes and reads contents."""

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        self._db = database
        self._artifacts = artifacts

    async def missing(self, principal: Principal, wanted: Sequence[str]) -> list[str]:
        """Return the missing contents; those present are protected from clean-up for a day."""
        check_digests(wanted)
        return await self._db.write(
            lambda tx: touch(tx, principal.team_id, dict.fromkeys(wanted)), is_long=True
        )

    async def put(self, principal: Principal, body: AsyncIterator[bytes]) -> int:
        """Store contents from one body: a line of JSON with digests and sizes, then the bytes.

        All of them are kept, or none. Returns how many were new.
        """
        pieces = _Pieces(body)
        header = read_header(await pieces.line())
        stored = await self._artifacts.blobs.write(
            _checked(pieces, header), length=sum(size for _, size in header)
        )
        fresh = await self._db.write(
            lambda tx: _insert(tx, principal.team_id, header, stored), is_long=True
        )
        if not fresh:
            await self._artifacts.retire_now([stored.blob])
        return fresh

    async def places(self, team_id: int, wanted: Sequence[str]) -> list[ContentPlace]:
        """Return where contents lie, in the order asked."""
        found: dict[str, ContentPlace] = {}
        unique = list(dict.fromkeys(wanted))
        for at in range(0, len(unique), _PAGE):
            part = unique[at : at + _PAGE]
            for place in await self._db.peek(partial(_find, team_id=team_id, wanted=part)):
                found[place.sha256] = place
        for sha256 in unique:
            if sha256 not in found:
                raise NotFound(
                    f"content {sha256[:12]}… is not stored here: its data set was removed, or it"
                    " was never sent"
                )
        return [found[sha256] for sha256 in wanted]

    async def fetch(self, principal: Principal, wanted: Sequence[str]) -> list[ContentPlace]:
        """Return where contents for one answer lie; refuse more than an answer may carry."""
        check_digests(wanted)
        places = await self.places(principal.team_id, wanted)
        if sum(place.size for place in places) > MAX_FETCH_BYTES:
            raise TooLarge(
                f"one call fetches at most {MAX_FETCH_BYTES // 1024**2} MiB: name fewer contents"
            )
        return places

    async def read(self, places: Sequence[ContentPlace]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of contents in order; the caller checks the digests."""
        at = 0
        while at < len(places):
            first, end = places[at], places[at].start + places[at].size
            at += 1
            while (
                at < len(places)
                and places[at].blob == first.blob
                and places[at].start == end
                and end - first.start < _SPAN_BYTES
            ):
                end += places[at].size
                at += 1
            async for piece in self._artifacts.blobs.read(first.blob, first.start, end):
                yield piece

    async def read_whole(self, team_id: int, wanted: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a file that consists of these contents."""
        places = await self.places(team_id, wanted)
        async for piece in self.read(places):
            yield piece


def check_digests(wanted: Sequence[str]) -> None:
    """Refuse malformed digests."""
    if not wanted:
        raise InvalidInput("name at least one content by its SHA-256")
    for sha256 in wanted:
        if not SHA256.match(sha256):
            raise InvalidInput(
                f"{sha256[:80]!r} is not a SHA-256: write 64 hex digits in lower case"
            )


def touch(tx: Tx, team_id: int, wanted: dict[str, int | None]) -> list[str]:
    """Protect contents from clean-up; return those missing or of another size."""
    lost: list[str] = []
    digests = list(wanted)
    for at in range(0, len(digests), _PAGE):
        part = digests[at : at + _PAGE]
        known = {place.sha256: place.size for place in _find(tx, team_id=team_id, wanted=part)}
        here = [sha for sha in part if sha in known and wanted[sha] in (None, known[sha])]
        lost += [sha for sha in part if sha not in known or wanted[sha] not in (None, known[sha])]
        if here:
            marks = ", ".join("?" * len(here))
            tx.run(
                f"UPDATE data_contents SET seen_ms = ? WHERE team_id = ? AND sha256 IN ({marks})",
                (tx.now_ms, team_id, *here),
            )
    return lost


def note_pack(tx: Tx, team_id: int, stored: StoredBlob) -> None:
    """Register a blob, so that backups, checks and clean-up know it."""
    tx.run(
        "INSERT INTO data_packs (blob, team_id, size, sha256, created_ms) VALUES (?, ?, ?, ?, ?)",
        (stored.blob, team_id, stored.size, stored.sha256, tx.now_ms),
    )


def read_header(line: bytes) -> list[tuple[str, int]]:
    """Read the first line of an upload: `[["sha256", size], …]`."""
    try:
        header = msgspec.json.decode(line, type=list[tuple[str, int]])
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(
            f'the first line must be [["sha256", size], …] as JSON, then the bytes: {fault}'
        ) from fault
    if len(header) > MAX_CONTENTS:
        raise TooLarge(f"one call takes at most {MAX_CONTENTS} contents: send them in several")
    check_digests([sha256 for sha256, _ in header])
    if len({sha256 for sha256, _ in header}) < len(header):
        raise InvalidInput("a content is named twice: send each once")
    if any(not 0 < size <= PART_BYTES for _, size in header):
        raise InvalidInput(f"a content has 1 to {PART_BYTES} bytes: send larger files in parts")
    if sum(size for _, size in header) > MAX_PACK_BYTES:
        raise TooLarge(
            f"one call takes at most {MAX_PACK_BYTES // 1024**2} MiB of contents: send several"
        )
    return header


class _Pieces:
    """A body whose first line is read before the rest."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._rest = b""

    async def line(self) -> bytes:
        async for piece in self._body:
            self._rest += piece
            if b"\n" in piece:
                line, _, self._rest = self._rest.partition(b"\n")
                return line
            if len(self._rest) > MAX_HEADER_BYTES:
                break
        raise InvalidInput("the body has no first line that names its contents")

    async def rest(self) -> AsyncIterator[bytes]:
        if self._rest:
            yield self._rest
        async for piece in self._body:
            yield piece


async def _checked(pieces: _Pieces, header: list[tuple[str, int]]) -> AsyncIterator[bytes]:
    """Yield the bytes, each content compared with its digest as it ends."""
    waiting = iter(header)
    sha256, size = next(waiting)
    digest = BlobDigest()
    async for piece in pieces.rest():
        view = memoryview(piece)
        while view:
            if digest.size == size:
                sha256, size, digest = _next(waiting)
            part = bytes(view[: size - digest.size])
            await digest.add(part)
            view = view[len(part) :]
            if digest.size == size and digest.text() != sha256:
                raise InvalidInput(
                    f"content {sha256[:12]}… arrived with digest {digest.text()[:12]}…: the upload"
                    " was damaged or the file changed meanwhile; nothing was kept, send it again"
                )
        yield piece
    if digest.size != size or next(waiting, None) is not None:
        raise InvalidInput("the body ended before all of its contents; nothing was kept")


def _next(waiting: object) -> tuple[str, int, BlobDigest]:
    following = next(waiting, None)  # type: ignore[call-overload]
    if following is None:
        raise InvalidInput("the body continues after its last content; nothing was kept")
    return following[0], following[1], BlobDigest()


def _insert(tx: Tx, team_id: int, header: list[tuple[str, int]], stored: StoredBlob) -> int:
    lost = set(touch(tx, team_id, dict.fromkeys(sha256 for sha256, _ in header)))
    rows, start = [], 0
    for sha256, size in header:
        if sha256 in lost:
            rows.append((team_id, sha256, stored.blob, start, size, tx.now_ms))
        start += size
    if rows:
        note_pack(tx, team_id, stored)
        tx.many(
            "INSERT INTO data_contents (team_id, sha256, blob, start, size, seen_ms)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (team_id, sha256) DO NOTHING",
            rows,
        )
    return len(rows)


def _find(
    reader: ReadConnection | Tx, *, team_id: int, wanted: Sequence[str]
) -> list[ContentPlace]:
    marks = ", ".join("?" * len(wanted))
    rows = reader.all(
        "SELECT sha256, blob, start, size FROM data_contents WHERE team_id = ?"
        f" AND sha256 IN ({marks})",
        (team_id, *wanted),
    )
    return [ContentPlace(*row) for row in rows]
