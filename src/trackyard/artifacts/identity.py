"""Whose store this is: an id that lies in the artifact store and in the database alike. Owns
comparing them, so that a server never calls files damaged that lie in another place.
"""

from __future__ import annotations

import re
import secrets

from trackyard.artifacts.blobs import BlobStore
from trackyard.core.errors import SetupError
from trackyard.store.database import Database, ReadConnection
from trackyard.store.settings import keep_setting, setting

#: Name of the file or object that holds the id.
MARKER = "store.id"
KEY = "artifact_store"
#: Before an id that is in the database and perhaps not in the store yet.
_PENDING = "pending:"
_ID = re.compile(r"[0-9a-f]{32}\Z")


async def check_identity(database: Database, blobs: BlobStore) -> None:
    """Insist that this store is the database's own; mark both where neither is marked.

    The caller sees to it that no other server does so at the same time.
    """
    known = await database.read(_known)
    marked = _clean(await blobs.marker())
    if known is None:
        if marked is not None and await _has_blobs(blobs):
            raise SetupError(
                f"the artifacts in {blobs.place} belong to another database (store {marked})",
                hint="name an empty place with --artifacts, or the database they belong to with"
                " --database",
            )
        known = _PENDING + (marked or secrets.token_hex(16))
        await _keep(database, known)
    wanted = known.removeprefix(_PENDING)
    if known != wanted and marked is None:
        # Marked in this order, a start that was cut short is finished by the next.
        await blobs.set_marker(wanted + "\n")
        marked = wanted
    if marked != wanted:
        raise SetupError(_difference(blobs.place, wanted, marked), hint=_remedy(blobs, wanted))
    if known != wanted:
        await _keep(database, wanted)


def _difference(place: str, wanted: str, marked: str | None) -> str:
    if marked is None:
        return f"{place} is not the store of this database's artifacts (store {wanted})"
    return f"{place} is store {marked}; this database's artifacts are in store {wanted}"


def _remedy(blobs: BlobStore, wanted: str) -> str:
    return (
        "name the place that all servers of this database share with --artifacts; if the files"
        f" were moved to {blobs.place}, put {MARKER} there as well, with the text {wanted}"
    )


async def _has_blobs(blobs: BlobStore) -> bool:
    async for _ in blobs.walk():
        return True
    return False


def _clean(text: str | None) -> str | None:
    """Return the id in a marker's text; what is none is kept short, to be shown."""
    if text is None:
        return None
    found = text.strip()
    return found if _ID.match(found) else repr(found[:40])


def _known(reader: ReadConnection) -> str | None:
    return setting(reader, KEY)


async def _keep(database: Database, value: str) -> None:
    await database.write(lambda tx: keep_setting(tx, KEY, value))
