"""Uploads in parts: begin, put parts in any order, complete or abort. Owns the table `uploads`.

A part is a blob of its own, kept in `artifacts` under the owner `upload:<id>`. Who may put a part
shows it by a token that is good for one part, once, for a day; it needs no other credential.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from trackyard.access.principal import Principal
from trackyard.artifacts.blobs import StoredBlob, join
from trackyard.artifacts.owners import ArtifactOwner
from trackyard.artifacts.service import Artifact, Artifacts
from trackyard.core.errors import Conflict, Denied, InvalidInput, NotFound
from trackyard.store.database import Database, ReadConnection, Tx

PARTS_LIMIT = 10_000
PART_BYTES = 1024**3
#: How long an upload may take from its beginning to its end.
LIFETIME_MS = 24 * 3600 * 1000

_UPLOAD_ID = re.compile(r"[0-9a-f]{32}\Z")
_TOKEN = re.compile(r"[0-9a-f]{64}\Z")
_REFUSED = "this upload token is not good for this part: it is forged, expired or used"


class UploadState(msgspec.Struct, frozen=True):
    """What is kept of an upload beside its place."""

    count: int
    expires_ms: int
    #: signs the tokens of this upload's parts, and nothing else
    key: str
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUpload:
    """An upload that is under way."""

    id: str
    #: what its parts' tokens are signed with
    key: str
    count: int

    def tokens(self) -> list[str]:
        """Sign the token of part 1, 2, ...; of thousands, off the event loop."""
        return [_sign(self.key, self.id, number) for number in range(1, self.count + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedPart:
    """A part as the client names it when it completes the upload."""

    number: int
    #: what the server answered when the part was put
    etag: str


class Uploads:
    """The life of uploads in parts."""

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        self._database = database
        self._artifacts = artifacts
        self._completing: dict[str, asyncio.Task[Artifact]] = {}

    async def begin(
        self, principal: Principal, owner: ArtifactOwner, path: str, count: int
    ) -> PartUpload:
        """Open an upload of so many parts to a path."""
        if not 1 <= count <= PARTS_LIMIT:
            raise InvalidInput(
                f"Invalid value {count} for parameter 'num_parts': an upload has 1 to"
                f" {PARTS_LIMIT} parts; choose larger ones"
            )
        owner.check_active()
        upload_id, key = secrets.token_hex(16), secrets.token_hex(32)

        def insert(tx: Tx) -> None:
            state = UploadState(count=count, expires_ms=tx.now_ms + LIFETIME_MS, key=key)
            tx.run(
                "INSERT INTO uploads"
                " (id, team_id, experiment_id, owner, path, state, created_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    upload_id,
                    principal.team_id,
                    owner.experiment_id,
                    owner.id,
                    path,
                    msgspec.json.encode(state).decode(),
                    tx.now_ms,
                ),
            )

        await self._database.write(insert)
        return PartUpload(id=upload_id, key=key, count=count)

    async def put_part(
        self,
        upload_id: str,
        number: int,
        token: str,
        pieces: AsyncIterator[bytes],
        *,
        length: int | None,
    ) -> StoredBlob:
        """Store a part on the strength of its token, once."""
        await self._database.peek(lambda reader: self._check(reader, upload_id, number, token))
        if length is not None and length > PART_BYTES:
            raise _too_long()
        stored = await self._artifacts.blobs.write(_at_most(pieces, PART_BYTES), length=length)

        def insert(tx: Tx) -> None:
            place = self._check(tx, upload_id, number, token)
            tx.run(
                "INSERT INTO artifacts"
                " (team_id, experiment_id, owner, path, blob, size, sha256, created_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *place,
                    _parts_of(upload_id),
                    _part_name(number),
                    stored.blob,
                    stored.size,
                    stored.sha256,
                    tx.now_ms,
                ),
            )

        try:
            await self._database.write(insert)
        except Denied:
            await self._artifacts.retire([stored.blob])
            raise
        return stored

    async def complete(
        self,
        principal: Principal,
        owner: ArtifactOwner,
        path: str,
        upload_id: str,
        parts: Sequence[CompletedPart],
    ) -> Artifact:
        """Make one artifact of the parts; asked again, answer the same."""
        state = await self._database.peek(
            lambda reader: _find(reader, principal, owner, path, upload_id)
        )
        if state.is_done:
            return await self._artifacts.find(owner.id, path)
        held = await self._database.read(lambda reader: _parts(reader, upload_id))
        chosen = _match(state.count, held, parts)
        task = self._completing.get(upload_id)
        if task is None:
            # A client that stops waiting and asks again must not start the work a second time.
            task = asyncio.create_task(self._complete(principal, owner, path, upload_id, chosen))
            self._completing[upload_id] = task
            task.add_done_callback(lambda done: self._finished(upload_id, done))
        return await asyncio.shield(task)

    def is_completing(self, upload_id: str) -> bool:
        """Tell whether the parts of an upload are being joined now."""
        return upload_id in self._completing

    async def abort(
        self, principal: Principal, owner: ArtifactOwner, path: str, upload_id: str
    ) -> None:
        """Forget an upload and its parts."""
        if self.is_completing(upload_id):
            raise Conflict("the upload is being completed; wait for its end")

        def remove(tx: Tx) -> list[str]:
            _find(tx, principal, owner, path, upload_id)
            return remove_upload(tx, upload_id)

        await self._artifacts.retire(await self._database.write(remove, frees=True))

    def _finished(self, upload_id: str, task: asyncio.Task[Artifact]) -> None:
        self._completing.pop(upload_id, None)
        if not task.cancelled():
            task.exception()

    def _check(
        self, reader: ReadConnection | Tx, upload_id: str, number: int, token: str
    ) -> tuple[int, int]:
        """Return team and experiment of an upload whose part a token opens, or refuse it."""
        if _UPLOAD_ID.match(upload_id) is None or _TOKEN.match(token) is None:
            raise Denied(_REFUSED)
        row = reader.one(
            "SELECT state, team_id, experiment_id FROM uploads WHERE id = ?", (upload_id,)
        )
        if row is None:
            raise Denied(_REFUSED)
        state = msgspec.json.decode(row[0], type=UploadState)
        genuine = hmac.compare_digest(_sign(state.key, upload_id, number), token)
        is_late = state.is_done or state.expires_ms < self._database.clock.time_ms()
        if not genuine or is_late or not 1 <= number <= state.count:
            raise Denied(_REFUSED)
        used = reader.one(
            "SELECT 1 FROM artifacts WHERE owner = ? AND path = ?",
            (_parts_of(upload_id), _part_name(number)),
        )
        if used is not None:
            raise Denied(_REFUSED)
        return row[1], row[2]

    async def _complete(
        self,
        principal: Principal,
        owner: ArtifactOwner,
        path: str,
        upload_id: str,
        parts: list[StoredBlob],
    ) -> Artifact:
        stored = await join(self._artifacts.blobs, parts)
        artifact = await self._artifacts.adopt(principal, owner, path, stored)

        def finish(tx: Tx) -> list[str]:
            state = _find(tx, principal, owner, path, upload_id)
            done = msgspec.json.encode(msgspec.structs.replace(state, is_done=True, key=""))
            tx.run("UPDATE uploads SET state = ? WHERE id = ?", (done.decode(), upload_id))
            return _remove_parts(tx, upload_id)

        await self._artifacts.retire(await self._database.write(finish))
        return artifact


def remove_upload(tx: Tx, upload_id: str) -> list[str]:
    """Delete an upload and its parts; return the blobs that nothing refers to any more."""
    tx.run("DELETE FROM uploads WHERE id = ?", (upload_id,))
    return _remove_parts(tx, upload_id)


def _remove_parts(tx: Tx, upload_id: str) -> list[str]:
    owner = _parts_of(upload_id)
    blobs = [row[0] for row in tx.all("SELECT blob FROM artifacts WHERE owner = ?", (owner,))]
    tx.run("DELETE FROM artifacts WHERE owner = ?", (owner,))
    return blobs


def _find(
    reader: ReadConnection | Tx,
    principal: Principal,
    owner: ArtifactOwner,
    path: str,
    upload_id: str,
) -> UploadState:
    row = None
    if _UPLOAD_ID.match(upload_id):
        row = reader.one(
            "SELECT state FROM uploads WHERE id = ? AND team_id = ? AND owner = ? AND path = ?",
            (upload_id, principal.team_id, owner.id, path),
        )
    if row is None:
        raise NotFound(f"No upload {upload_id[:64]!r} to {path!r}: it was aborted, or never begun")
    return msgspec.json.decode(row[0], type=UploadState)


def _parts(reader: ReadConnection | Tx, upload_id: str) -> dict[int, StoredBlob]:
    rows = reader.all(
        "SELECT path, blob, size, sha256 FROM artifacts WHERE owner = ?", (_parts_of(upload_id),)
    )
    return {int(row[0]): StoredBlob(blob=row[1], size=row[2], sha256=row[3]) for row in rows}


def _match(
    count: int, held: dict[int, StoredBlob], named: Sequence[CompletedPart]
) -> list[StoredBlob]:
    """Return every part in order, or say which one is missing or not what was sent."""
    if [part.number for part in named] != list(range(1, count + 1)):
        raise InvalidInput(
            f"the upload was begun with {count} parts; name all of them, in order, to complete it"
        )
    for part in named:
        stored = held.get(part.number)
        if stored is None:
            raise InvalidInput(f"part {part.number} has not arrived; put it, then complete")
        if part.etag.strip('"') != stored.sha256:
            raise InvalidInput(f"part {part.number} is not the one the server holds")
    return [held[part.number] for part in named]


async def _at_most(pieces: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    seen = 0
    async for piece in pieces:
        seen += len(piece)
        if seen > limit:
            raise _too_long()
        yield piece


def _too_long() -> Denied:
    return Denied(f"an upload token is good for a part of at most {PART_BYTES} bytes")


def _sign(key: str, upload_id: str, number: int) -> str:
    text = f"PUT {upload_id} {number}".encode()
    return hmac.digest(bytes.fromhex(key), text, "sha256").hex()


def _parts_of(upload_id: str) -> str:
    return f"upload:{upload_id}"


def _part_name(number: int) -> str:
    return f"{number:05d}"
