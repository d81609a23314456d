"""The life of nodes, read back from the event log: when they were there, ready, out or down.

Owns that reading. Knows nothing of what ran on them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import msgspec

from trackyard.core.node import NodeState
from trackyard.fleet.nodes import load
from trackyard.store.database import ReadConnection

#: A node that is down counts as broken for so long; then it is taken for removed.
GONE_AFTER_MS = 7 * 86_400_000
_KINDS = (
    "node.joined",
    "node.lost",
    "node.changed",
    "node.drained",
    "node.undrained",
    "node.quarantined",
    "node.unquarantined",
)
_OUT = {"node.drained": True, "node.quarantined": True}


class Stretch(NamedTuple):
    """A time in which nothing changed about a node."""

    since_ms: int
    until_ms: int
    gpus: int
    #: takes no new work
    is_out: bool
    #: does not answer
    is_down: bool


class Hardware(NamedTuple):
    """What a node is made of now."""

    gpu_type: str
    #: rented by the hour, and may be taken away
    is_spot: bool


class _State:
    def __init__(self) -> None:
        self.gpus = self.most = 0
        self.is_out = self.is_down = False
        self.since: int | None = None
        self.stretches: list[Stretch] = []

    def until(self, at_ms: int) -> None:
        """Close what was so far."""
        if self.since is not None and at_ms > self.since:
            end = min(at_ms, self.since + GONE_AFTER_MS) if self.is_down else at_ms
            # Where a GPU is lost nothing new starts, and what is lost is broken.
            is_out = self.is_out or self.gpus < self.most
            self.stretches.append(Stretch(self.since, end, self.most, is_out, self.is_down))
        self.since = at_ms


def node_lives(reader: ReadConnection, now_ms: int) -> dict[str, list[Stretch]]:
    """Return the stretches of every node's life, in order, up to now."""
    states: dict[str, _State] = defaultdict(_State)
    marks = ", ".join("?" for _ in _KINDS)
    rows = reader.all(
        f"SELECT subject_id, kind, time_ms, data FROM events WHERE subject = 'node'"
        # Every team has its own copy of an event about a node. The sum keeps databases from
        # reading all events of that team instead of those of nodes.
        f" AND team_id + 0 = (SELECT min(id) FROM teams) AND kind IN ({marks})"
        " ORDER BY subject_id, id",
        _KINDS,
    )
    for node, kind, at_ms, data in rows:
        state = states[node]
        state.until(at_ms)
        if kind in ("node.joined", "node.changed"):
            state.is_down = False if kind == "node.joined" else state.is_down
            gpus = msgspec.json.decode(data).get("gpus")
            if isinstance(gpus, int):
                state.gpus, state.most = gpus, max(state.most, gpus)
        elif kind == "node.lost":
            state.is_down = True
        else:
            state.is_out = _OUT.get(kind, False)
    for row in load(reader):
        state = states[row.id]
        if state.since is None:
            # It was there before the log began.
            state.since = row.joined_ms
            state.gpus = state.most = max(row.expected_gpus, len(row.facts.gpus))
            state.is_down = row.in_force is NodeState.DOWN
            state.is_out = not row.in_force.takes_work
    for state in states.values():
        state.until(now_ms)
    return {node: state.stretches for node, state in states.items()}


def hardware(reader: ReadConnection) -> dict[str, Hardware]:
    """Return what nodes are made of."""
    found = {}
    for row in load(reader):
        labels = row.labels
        words = (labels.get("spot", ""), labels.get("lifecycle", ""), labels.get("market", ""))
        is_spot = words[0].lower() in ("1", "true", "yes") or "spot" in words[1:]
        found[row.id] = Hardware(row.properties.gpu_model, is_spot)
    return found


def failures(reader: ReadConnection, since_ms: int, until_ms: int) -> list[tuple[str, int, str]]:
    """Return when which node went away or was quarantined: (node, time, kind)."""
    return [
        (node, at, kind)
        for node, at, kind in reader.all(
            "SELECT subject_id, time_ms, kind FROM events WHERE subject = 'node'"
            " AND team_id + 0 = (SELECT min(id) FROM teams)"
            " AND kind IN ('node.lost', 'node.quarantined') AND time_ms > ? AND time_ms <= ?",
            (since_ms, until_ms),
        )
    ]
