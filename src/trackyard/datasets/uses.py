"""Who used a version, and which nodes hold it. Owns `data_uses` and `data_places`, and telling
from an MLflow data set's source which version it means. Knows neither bytes nor HTTP.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from trackyard.core.dataset import DatasetReference, parse_reference
from trackyard.core.errors import NotFound
from trackyard.datasets.records import DatasetVersionRow, by_digest, find_version, note_used
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.inputs import CONTEXT_TAG, DatasetUse, write_dataset

SOURCE_TYPE = "yard"
MAX_PLACES = 1000
#: MLflow's digests have at most 36 characters
_SHORT_DIGEST = 32
_IN_CACHE = re.compile(r"/data/([0-9a-f]{64})(?:/|\"|\Z)")
_BY_NAME = re.compile(r"(?:yard:(?://)?|/data/)([A-Za-z0-9][A-Za-z0-9._-]{0,127}@v[0-9]{1,9})")


class VersionUse(NamedTuple):
    """A run that read a version."""

    run_uuid: str
    run_name: str
    job_id: str
    created_ms: int


def input_of(version: DatasetVersionRow) -> DatasetUse:
    """Describe a version as an MLflow dataset input."""
    source = {"uri": f"yard:{version.label}", "digest": version.digest}
    profile = {"files": version.files, "size_bytes": version.size_bytes}
    facts = (
        SOURCE_TYPE,
        msgspec.json.encode(source).decode(),
        None,
        msgspec.json.encode(profile).decode(),
    )
    tags = msgspec.json.encode([{"key": CONTEXT_TAG, "value": "training"}]).decode()
    return DatasetUse(version.name, version.digest[:_SHORT_DIGEST], facts, tags)


def note_jobs(
    tx: Tx,
    team_id: int,
    wanted: Sequence[tuple[str, int]],
    *,
    experiment: int,
    jobs: Sequence[tuple[str, str]],
) -> None:
    """Record that jobs, each with its run, read versions: as uses, and as inputs of the runs."""
    versions = []
    for name, number in wanted:
        # If one was removed by force, the attempt fails with a sentence that says so.
        with contextlib.suppress(NotFound):
            versions.append(find_version(tx, team_id, DatasetReference(name=name, version=number)))
    for job_id, run_uuid in jobs:
        row = tx.one("SELECT id FROM runs WHERE uuid = ?", (run_uuid,))
        for version in versions:
            _insert(tx, version.id, run_uuid, job_id)
            if row is not None:
                write_dataset(tx, experiment, row[0], input_of(version))
    note_used(tx, [version.id for version in versions])


def note_inputs(tx: Tx, team_id: int, run_uuid: str, datasets: Iterable[dict[str, Any]]) -> int:
    """Link a run with the versions among the data sets that it logged; return how many."""
    linked = 0
    for item in datasets:
        dataset = item.get("dataset")
        version = recognise(tx, team_id, dataset) if isinstance(dataset, dict) else None
        if version is not None:
            _insert(tx, version.id, run_uuid, "")
            note_used(tx, [version.id])
            linked += 1
    return linked


def recognise(
    reader: ReadConnection | Tx, team_id: int, dataset: dict[str, Any]
) -> DatasetVersionRow | None:
    """Return the version that a logged data set came from: by its path in a node's cache, or by
    an address that ends in NAME@vN.
    """
    source = dataset.get("source")
    if not isinstance(source, str):
        return None
    cached = _IN_CACHE.search(source)
    if cached is not None:
        return by_digest(reader, team_id, cached[1])
    named = _BY_NAME.search(source)
    if named is None:
        return None
    try:
        return find_version(reader, team_id, parse_reference(named[1]))
    except NotFound:
        return None


def uses_of(reader: ReadConnection | Tx, version_id: int, *, most: int = 1000) -> list[VersionUse]:
    """Return the runs that read a version, the latest first."""
    rows = reader.all(
        "SELECT u.run_uuid, r.name, u.job_id, u.created_ms FROM data_uses u"
        " LEFT JOIN runs r ON r.uuid = u.run_uuid WHERE u.version_id = ?"
        " ORDER BY u.created_ms DESC LIMIT ?",
        (version_id, most),
    )
    return [VersionUse(row[0], row[1] or "", row[2], row[3]) for row in rows]


def runs_of(reader: ReadConnection | Tx, version_id: int) -> list[str]:
    """Return every run that read a version."""
    rows = reader.all("SELECT run_uuid FROM data_uses WHERE version_id = ?", (version_id,))
    return [row[0] for row in rows]


def jobs_of(reader: ReadConnection | Tx, version_id: int) -> list[str]:
    """Return every job that asked for a version."""
    rows = reader.all(
        "SELECT job_id FROM data_uses WHERE version_id = ? AND job_id <> ''", (version_id,)
    )
    return [row[0] for row in rows]


def note_places(tx: Tx, team_id: int, node: str, digests: Sequence[str]) -> None:
    """Replace the record of which versions a node's cache holds."""
    held = "SELECT digest FROM data_places WHERE team_id = ? AND node = ?"
    if {row[0] for row in tx.all(held, (team_id, node))} == set(digests):
        return
    tx.run("DELETE FROM data_places WHERE team_id = ? AND node = ?", (team_id, node))
    tx.many(
        "INSERT INTO data_places (team_id, node, digest, seen_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (team_id, node, digest) DO NOTHING",
        [(team_id, node, digest, tx.now_ms) for digest in digests[:MAX_PLACES]],
    )


def load_places(reader: ReadConnection | Tx) -> dict[tuple[int, str], frozenset[str]]:
    """Return the nodes that hold each version, by team and digest."""
    found: dict[tuple[int, str], set[str]] = {}
    for team_id, digest, node in reader.all("SELECT team_id, digest, node FROM data_places"):
        found.setdefault((team_id, digest), set()).add(node)
    return {key: frozenset(nodes) for key, nodes in found.items()}


def nodes_holding(reader: ReadConnection | Tx, team_id: int, digest: str) -> list[str]:
    """Return the nodes that hold a version."""
    rows = reader.all(
        "SELECT node FROM data_places WHERE team_id = ? AND digest = ? ORDER BY node LIMIT 1000",
        (team_id, digest),
    )
    return [row[0] for row in rows]


def _insert(tx: Tx, version_id: int, run_uuid: str, job_id: str) -> None:
    tx.run(
        "INSERT INTO data_uses (version_id, run_uuid, job_id, created_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (version_id, run_uuid) DO NOTHING",
        (version_id, run_uuid, job_id, tx.now_ms),
    )
