"""Clean-up by last use: versions nobody used for long, and contents no version refers to. Owns
what is kept: all that a registered model's run read, and what open jobs asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from trackyard.access.principal import Principal
from trackyard.artifacts.service import Artifacts
from trackyard.core.errors import Conflict
from trackyard.datasets.records import DatasetVersionRow, all_versions
from trackyard.datasets.service import DataSets
from trackyard.store.connection import Row
from trackyard.store.database import Database, ReadConnection, Tx

DAY_MS = 24 * 3600 * 1000
#: Contents younger than this may belong to a data set that is being added.
GRACE_MS = DAY_MS
_PAGE = 1000


@dataclass(slots=True)
class KeptVersion:
    """A version that is old enough to go but is kept."""

    version: DatasetVersionRow
    needed_by: str


@dataclass(slots=True)
class VersionsRemoved:
    """What was removed, or would be."""

    versions: list[DatasetVersionRow] = field(default_factory=list)
    kept: list[KeptVersion] = field(default_factory=list)
    contents: int = 0
    content_bytes: int = 0


async def clean(
    database: Database,
    artifacts: Artifacts,
    data: DataSets,
    principal: Principal,
    *,
    unused_days: int | None,
    dry_run: bool,
    grace_ms: int = GRACE_MS,
) -> VersionsRemoved:
    """Remove versions unused for so many days (None: none), then contents nothing refers to."""
    found = VersionsRemoved()
    versions = await database.read(lambda reader: all_versions(reader, principal.team_id))
    now_ms = database.clock.time_ms()
    alive: list[DatasetVersionRow] = []
    for version in versions:
        if unused_days is None or version.used_ms >= now_ms - unused_days * DAY_MS:
            alive.append(version)
            continue
        needed = await database.read(partial(_needed, data=data, version=version))
        if needed:
            found.kept.append(KeptVersion(version, needed))
            alive.append(version)
            continue
        if not dry_run:
            try:
                await data.remove(principal, version, force=False)
            except Conflict as fault:
                # It has come into use in the meantime.
                found.kept.append(KeptVersion(version, fault.message))
                alive.append(version)
                continue
        found.versions.append(version)
    used: set[str] = set()
    for version in alive:
        for entry in await data.entries(version):
            used.update(sha256 for sha256, _ in entry.contents())
    await _collect(
        database,
        artifacts,
        found,
        team_id=principal.team_id,
        used=used,
        before_ms=now_ms - grace_ms,
        dry_run=dry_run,
    )
    return found


async def _collect(
    database: Database,
    artifacts: Artifacts,
    found: VersionsRemoved,
    *,
    team_id: int,
    used: set[str],
    before_ms: int,
    dry_run: bool,
) -> None:
    after = ""
    while True:
        rows = await database.read(partial(_stored, team_id=team_id, after=after))
        garbage = [row for row in rows if row[2] < before_ms and row[0] not in used]
        found.contents += len(garbage)
        found.content_bytes += sum(row[1] for row in garbage)
        if garbage and not dry_run:
            digests = [row[0] for row in garbage]
            free = await database.write(
                partial(_delete, team_id=team_id, digests=digests, before_ms=before_ms),
                frees=True,
                is_long=True,
            )
            await artifacts.retire(free)
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def _stored(reader: ReadConnection, *, team_id: int, after: str) -> list[Row]:
    return reader.all(
        "SELECT sha256, size, seen_ms FROM data_contents WHERE team_id = ?"
        f" AND sha256 > ? ORDER BY sha256 LIMIT {_PAGE}",
        (team_id, after),
    )


def _needed(reader: ReadConnection, *, data: DataSets, version: DatasetVersionRow) -> str:
    return data.needed_by(reader, version)


def _delete(tx: Tx, *, team_id: int, digests: list[str], before_ms: int) -> list[str]:
    """Remove contents not requested in the meantime; return blobs that became empty."""
    marks = ", ".join("?" * len(digests))
    doomed = f"team_id = ? AND seen_ms < ? AND sha256 IN ({marks})"
    params = (team_id, before_ms, *digests)
    blobs = [
        row[0] for row in tx.all(f"SELECT DISTINCT blob FROM data_contents WHERE {doomed}", params)
    ]
    tx.run(f"DELETE FROM data_contents WHERE {doomed}", params)
    free = [
        blob
        for blob in blobs
        if tx.one("SELECT 1 FROM data_contents WHERE blob = ? LIMIT 1", (blob,)) is None
    ]
    tx.many("DELETE FROM data_packs WHERE blob = ?", [(blob,) for blob in free])
    return free
