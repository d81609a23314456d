"""What was imported, and what its source said of it. Owns the table `imported`.

What the source says is kept as a digest: a second pass writes what changed there since, and leaves
alone what did not, whatever became of it here.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from trackyard.access.principal import Principal
from trackyard.store.bounds import Word
from trackyard.store.database import Tx


class ImportOutcome(msgspec.Struct, omit_defaults=True):
    """What became of one thing that was sent."""

    #: what it is called at its source
    id: Word
    #: created, updated, unchanged, merged or refused
    outcome: Word
    #: what it is called here, where that may differ
    target: Word = ""
    #: why it was refused, or what is different here
    note: str = ""


class KnownImport(NamedTuple):
    """What is known of a thing from an earlier pass."""

    target: str
    digest: str


def digest_of(item: Any) -> str:
    """Return the digest of what a source says of one thing."""
    return hashlib.sha256(msgspec.json.encode(item, order="deterministic")).hexdigest()


def find(tx: Tx, principal: Principal, kind: str, key: str) -> KnownImport | None:
    """Return what an earlier pass recorded."""
    row = tx.one(
        "SELECT target, digest FROM imported WHERE team_id = ? AND kind = ? AND source_key = ?",
        (principal.team_id, kind, key),
    )
    return None if row is None else KnownImport(row[0], row[1])


def note(tx: Tx, principal: Principal, kind: str, key: str, known: KnownImport) -> None:
    """Record what was imported."""
    tx.run(
        "INSERT INTO imported (team_id, kind, source_key, target, digest, imported_ms)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (team_id, kind, source_key) DO UPDATE SET"
        " target = excluded.target, digest = excluded.digest,"
        " imported_ms = excluded.imported_ms",
        (principal.team_id, kind, key, known.target, known.digest, tx.now_ms),
    )
