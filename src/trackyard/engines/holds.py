"""Leases as an engine without reservations of its own keeps them: a file beside its state.

Owns that file. The queue alone starts work here and respects leases; the file tells other programs
on the machine for whom it is held. Must not touch the store.
"""

from __future__ import annotations

import json
import threading
from datetime import datetime
from pathlib import Path

from trackyard.core.ports import LeaseHold
from trackyard.engines.statefolder import write_json


class Holds:
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
