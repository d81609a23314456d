"""Data sets: adding, reading, comparing and removing versions. Owns the order of these steps and
the cache of manifests. Knows no HTTP; what jobs and models need is asked of whoever knows.
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from trackyard.access.principal import Principal
from trackyard.artifacts.blobs import BlobFault, checked
from trackyard.artifacts.service import Artifacts
from trackyard.core.dataset import (
    DATA_NAME,
    LAYOUTS,
    NAME_HINT,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
)
from trackyard.core.errors import Conflict, InvalidInput, NotFound
from trackyard.datasets import layouts
from trackyard.datasets.comparing import VersionDifference, compare
from trackyard.datasets.contents import Contents, note_pack, touch
from trackyard.datasets.preview import HEAD_BYTES, FilePreview, look
from trackyard.datasets.records import (
    DatasetVersionRow,
    delete_version,
    find_version,
    insert_version,
    note_used,
    read_reference,
    versions_of,
)
from trackyard.datasets.uses import jobs_of, runs_of
from trackyard.store.database import Database, ReadConnection, Tx

#: Files whose manifests stay in memory.
CACHED_FILES = 300_000
#: Contents looked up in one commit.
_PART = 5000
_MISSING_SHOWN = 5000


@dataclass(frozen=True, slots=True)
class Added:
    """The outcome of adding a version."""

    version: DatasetVersionRow | None
    is_new: bool = False
    #: contents that have to be sent first
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder within a version."""

    name: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Page:
    """What lies directly in a folder."""

    folders: list[Folder]
    files: list[ManifestEntry]
    #: name after which the next page starts; empty on the last page
    after: str


#: Which of some runs stand behind registered models: run -> `model/version`.
ModelsBehind = Callable[[ReadConnection | Tx, Sequence[str]], dict[str, list[str]]]
#: Which of some jobs have not ended.
OpenJobs = Callable[[ReadConnection | Tx, Sequence[str]], list[str]]


class DataSets:
    """Adds, reads and removes versions of data sets."""

    def __init__(
        self,
        database: Database,
        artifacts: Artifacts,
        *,
        models_behind: ModelsBehind = lambda _reader, _runs: {},
        open_jobs: OpenJobs = lambda _reader, _jobs: [],
    ) -> None:
        self._db = database
        self._artifacts = artifacts
        self.contents = Contents(database, artifacts)
        self.models_behind = models_behind
        self.open_jobs = open_jobs
        self._manifests: OrderedDict[str, list[ManifestEntry]] = OrderedDict()

    # -- adding -----------------------------------------------------------------------------

    async def add(
        self, principal: Principal, name: str, manifest: bytes, *, layout: str, source: str
    ) -> Added:
        """Create a version from stored contents; equal content is the same version."""
        if not DATA_NAME.match(name):
            raise InvalidInput(f"{name[:80]!r} is not a valid data set name: {NAME_HINT}")
        if layout not in LAYOUTS:
            raise InvalidInput(f"layout {layout[:40]!r} is none of {', '.join(LAYOUTS)}")
        try:
            entries, canonical = await asyncio.to_thread(_canonical, manifest)
        except ValueError as fault:
            raise InvalidInput(f"the manifest cannot be used: {fault}") from fault
        if not entries:
            raise InvalidInput("the data set is empty: name a folder or archive with files in it")
        missing = await self._touch_all(principal.team_id, entries)
        if missing:
            return Added(None, missing=tuple(missing[:_MISSING_SHOWN]))
        facts = await asyncio.to_thread(_facts, entries, canonical, layout)
        stored = await self._artifacts.blobs.write(_whole(canonical), length=len(canonical))

        def record(tx: Tx) -> tuple[DatasetVersionRow, bool]:
            columns = {
                **facts,
                "manifest_blob": stored.blob,
                "manifest_bytes": stored.size,
                "source": source[:1000],
            }
            version, is_new = insert_version(
                tx,
                team_id=principal.team_id,
                name=name,
                user_name=principal.name,
                facts=columns,
            )
            if is_new:
                note_pack(tx, principal.team_id, stored)
                _event(tx, principal, "data.added", version)
            return version, is_new

        version, is_new = await self._db.write(record)
        if not is_new:
            await self._artifacts.retire_now([stored.blob])
        return Added(version, is_new)

    async def _touch_all(self, team_id: int, entries: Sequence[ManifestEntry]) -> list[str]:
        """Protect contents from clean-up; return those that are missing."""
        wanted: dict[str, int | None] = {
            sha256: size for entry in entries for sha256, size in entry.contents()
        }
        digests = list(wanted)
        missing: list[str] = []
        for at in range(0, len(digests), _PART):
            part = {sha256: wanted[sha256] for sha256 in digests[at : at + _PART]}
            missing += await self._db.write(
                partial(touch, team_id=team_id, wanted=part), is_long=True
            )
        return missing

    # -- reading ----------------------------------------------------------------------------

    async def find(self, principal: Principal, text: str) -> DatasetVersionRow:
        """Return the version that `NAME@VERSION` means."""
        reference = read_reference(text)
        return await self._db.peek(
            lambda reader: find_version(reader, principal.team_id, reference)
        )

    async def versions(self, principal: Principal, name: str) -> list[DatasetVersionRow]:
        """Return a data set's versions, the newest first."""
        found = await self._db.read(lambda reader: versions_of(reader, principal.team_id, name))
        if not found:
            raise NotFound(f"no data set {name[:128]!r}; `yard data list` shows those that exist")
        return found

    def manifest(self, version: DatasetVersionRow) -> AsyncIterator[bytes]:
        """Yield a version's manifest; its last piece only once the whole is verified."""
        pieces = self._artifacts.blobs.read(version.manifest_blob, 0, version.manifest_bytes)
        fault = BlobFault(
            f"the manifest of {version.label} is damaged in the store; restore it from a backup"
        )
        return checked(pieces, version.digest, fault)

    async def entries(self, version: DatasetVersionRow) -> list[ManifestEntry]:
        """Return the files of a version, by path."""
        known = self._manifests.get(version.digest)
        if known is not None:
            self._manifests.move_to_end(version.digest)
            return known
        data = b"".join([piece async for piece in self.manifest(version)])
        entries = await asyncio.to_thread(decode_manifest, data)
        if len(entries) <= CACHED_FILES:
            self._manifests[version.digest] = entries
            while sum(map(len, self._manifests.values())) > CACHED_FILES:
                self._manifests.popitem(last=False)
        return entries

    async def page(self, version: DatasetVersionRow, folder: str, after: str, most: int) -> Page:
        """Return what lies directly in a folder, in the order of names."""
        entries = await self.entries(version)
        return await asyncio.to_thread(_page, entries, folder.strip("/"), after, most)

    async def samples(
        self, version: DatasetVersionRow, most: int, of_class: str
    ) -> list[ManifestEntry]:
        """Return sample files, drawn evenly from the classes."""
        entries = await self.entries(version)
        return await asyncio.to_thread(_samples, entries, most, of_class)

    async def file(self, version: DatasetVersionRow, path: str) -> ManifestEntry:
        """Return one file."""
        entries = await self.entries(version)
        at = bisect.bisect_left(entries, path, key=lambda entry: entry.path)
        if at < len(entries) and entries[at].path == path:
            return entries[at]
        raise NotFound(f"{version.label} has no file {path[:200]!r}")

    def read(self, principal: Principal, entry: ManifestEntry) -> AsyncIterator[bytes]:
        """Yield the bytes of a file."""
        wanted = [sha256 for sha256, _ in entry.contents()]
        return self.contents.read_whole(principal.team_id, wanted)

    async def look(self, principal: Principal, entry: ManifestEntry) -> FilePreview:
        """Return a preview of a file's beginning."""
        head = b""
        if entry.size:
            async for piece in self.contents.read_whole(
                principal.team_id, [entry.contents()[0][0]]
            ):
                head += piece
                if len(head) >= HEAD_BYTES:
                    break
        return await asyncio.to_thread(look, entry.path, head[:HEAD_BYTES], entry.size)

    async def compare(
        self, old: DatasetVersionRow, new: DatasetVersionRow, most: int
    ) -> VersionDifference:
        """Return how a version differs from another."""
        before, after = await self.entries(old), await self.entries(new)
        return await asyncio.to_thread(partial(compare, before, after, most=most))

    async def note_used(self, version: DatasetVersionRow) -> None:
        """Record that a version was fetched."""
        await self._db.write(lambda tx: note_used(tx, [version.id]))

    # -- removing ---------------------------------------------------------------------------

    async def remove(
        self, principal: Principal, version: DatasetVersionRow, *, force: bool
    ) -> None:
        """Remove a version; contents it alone referred to are collected later."""

        def change(tx: Tx) -> None:
            needed = self.needed_by(tx, version)
            if needed and not force:
                raise Conflict(f"{version.label} is needed by {needed}; --force removes it anyway")
            delete_version(tx, version)
            tx.run("DELETE FROM data_packs WHERE blob = ?", (version.manifest_blob,))
            _event(tx, principal, "data.removed", version)

        await self._db.write(change, frees=True)
        self._manifests.pop(version.digest, None)
        await self._artifacts.retire([version.manifest_blob])

    def needed_by(self, reader: ReadConnection | Tx, version: DatasetVersionRow) -> str:
        """Say what needs a version: a registered model, or a job that has not ended."""
        for models in self.models_behind(reader, runs_of(reader, version.id)).values():
            return f"registered model {models[0]}"
        jobs = self.open_jobs(reader, jobs_of(reader, version.id))
        return f"job {jobs[0]}" if jobs else ""


def _canonical(manifest: bytes) -> tuple[list[ManifestEntry], bytes]:
    entries = decode_manifest(manifest)
    return entries, encode_manifest(entries)


def _facts(entries: list[ManifestEntry], canonical: bytes, layout: str) -> dict[str, object]:
    chosen = layouts.detect(entries) if layout == "auto" else layout
    chosen = layouts.IMAGEFOLDER if chosen == "prefix" else chosen
    classes = layouts.count_classes(entries, chosen)
    return {
        "digest": hashlib.sha256(canonical).hexdigest(),
        "files": len(entries),
        "size_bytes": sum(entry.size for entry in entries),
        "layout": chosen,
        "classes": msgspec.json.encode(classes).decode(),
    }


def _page(entries: list[ManifestEntry], folder: str, after: str, most: int) -> Page:
    prefix = f"{folder}/" if folder else ""
    first = bisect.bisect_left(entries, prefix, key=lambda entry: entry.path)
    folders: dict[str, list[int]] = {}
    files: list[ManifestEntry] = []
    for entry in entries[first:]:
        if not entry.path.startswith(prefix):
            break
        name, slash, _ = entry.path[len(prefix) :].partition("/")
        if slash:
            counted = folders.setdefault(name, [0, 0])
            counted[0] += 1
            counted[1] += entry.size
        else:
            files.append(entry)
    if not folders and not files:
        raise NotFound(f"there is no folder {folder[:200]!r} in this version")
    left = [entry for entry in files if entry.path[len(prefix) :] > after]
    shown = [Folder(name, *counted) for name, counted in sorted(folders.items())]
    more = left[most - 1].path[len(prefix) :] if len(left) > most else ""
    return Page([] if after else shown[:5000], left[:most], more)


def _samples(entries: list[ManifestEntry], most: int, of_class: str) -> list[ManifestEntry]:
    groups: dict[str, list[ManifestEntry]] = {}
    for entry in entries:
        if layouts.kind_of(entry.path) == "binary":
            continue
        folder = entry.path.rpartition("/")[0]
        if not of_class or folder == of_class or folder.endswith(f"/{of_class}"):
            group = groups.setdefault(folder, [])
            if len(group) < most:
                group.append(entry)
    found: list[ManifestEntry] = []
    for at in range(most):
        for group in groups.values():
            if at < len(group) and len(found) < most:
                found.append(group[at])
    return sorted(found, key=lambda entry: entry.path)


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1024 * 1024):
        yield data[at : at + 1024 * 1024]


def _event(tx: Tx, principal: Principal, kind: str, version: DatasetVersionRow) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="data",
        subject_id=version.label,
        digest=version.digest,
        files=version.files,
        size_bytes=version.size_bytes,
    )
