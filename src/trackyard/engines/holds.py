"""Leases as engines keep them: who may start on a held node, and a file that outlives a restart.

Owns that file, which also tells other programs on the machine for whom it is held. Must not touch
the store.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from trackyard.core.ports import LaunchRefused, LaunchSpec, LeaseHold
from trackyard.engines.statefolder import write_json


def check_held(spec: LaunchSpec, holds: Iterable[LeaseHold], now: datetime) -> None:
    """Refuse an attempt on a node that is held now for a lease it may not use."""
    nodes = {share.node_id for share in spec.placement}
    for hold in holds:
        taken = sorted(nodes & set(hold.node_ids))
        if taken and hold.starts_at <= now < hold.ends_at and hold.lease_id not in spec.leases:
            raise LaunchRefused(
                f"node {taken[0]} is held for lease {hold.lease_id} until"
                f" {hold.ends_at:%Y-%m-%d %H:%MZ}; the job waits, or names the lease with --lease"
            )


class LeaseHolds:
    """The leases an engine was told of, kept over restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def keep(self, hold: LeaseHold) -> None:
        """Write a hold down, in place of an earlier one of the same lease."""
        with self._lock:
            write_json(self._path, {**self._read(), hold.lease_id: _entry(hold)})

    def drop(self, lease_id: str) -> None:
        """Strike a hold out; unknown ones are fine."""
        with self._lock:
            known = self._read()
            if known.pop(lease_id, None) is not None:
                write_json(self._path, known)

    def all(self) -> list[LeaseHold]:
        """Return the holds, the first to begin first."""
        with self._lock:
            found = [_hold(lease_id, entry) for lease_id, entry in self._read().items()]
        return sorted(found, key=lambda hold: (hold.starts_at, hold.lease_id))

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            found = json.loads(self._path.read_text())
        except (OSError, ValueError):
            # A file that is not there, or was spoilt, is written anew with the next hold.
            return {}
        return found if isinstance(found, dict) else {}


def _entry(hold: LeaseHold) -> dict[str, object]:
    return {
        "nodes": list(hold.node_ids),
        "starts_at": hold.starts_at.isoformat(),
        "ends_at": hold.ends_at.isoformat(),
        "users": list(hold.users),
    }


def _hold(lease_id: str, entry: dict[str, object]) -> LeaseHold:
    nodes, users = entry["nodes"], entry["users"]
    assert isinstance(nodes, list)
    assert isinstance(users, list)
    return LeaseHold(
        lease_id=lease_id,
        node_ids=tuple(str(node) for node in nodes),
        starts_at=datetime.fromisoformat(str(entry["starts_at"])),
        ends_at=datetime.fromisoformat(str(entry["ends_at"])),
        users=tuple(str(user) for user in users),
    )
