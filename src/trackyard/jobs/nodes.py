"""Nodes as the queue sees them: what the engine reports, and what operators say of them.

Owns `nodes`. An operator's drain outlives restarts; the engine's report is a fact of the moment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.node import Gpu, Node, NodeState
from trackyard.core.ports import NODE_ID, NodeReport
from trackyard.store.database import Reader, Tx

READY, DOWN = NodeState.READY.value, NodeState.DOWN.value


class GpuFacts(msgspec.Struct, frozen=True):
    """A GPU as it is kept."""

    index: int
    vendor: str
    model: str
    memory_bytes: int
    uuid: str | None = None


class NodeFacts(msgspec.Struct, frozen=True):
    """What is kept of an engine's report: totals, not what is free."""

    hostname: str
    address: str
    cpus: float
    memory_bytes: int
    gpus: list[GpuFacts] = []
    labels: dict[str, str] = {}
    notes: list[str] = []


class NodeRow(NamedTuple):
    """A node's row."""

    id: str
    engine: str
    engine_state: str
    state: str
    note: str
    actor: str
    report: str
    joined_ms: int
    changed_ms: int

    @property
    def facts(self) -> NodeFacts:
        """What the engine last said of it."""
        return _decode(self.report)

    @property
    def in_force(self) -> NodeState:
        """Its state: a node that is gone is down, whatever an operator said."""
        return NodeState.DOWN if self.engine_state == DOWN else NodeState(self.state)


_COLUMNS = ", ".join(NodeRow._fields)
_decode = msgspec.json.Decoder(NodeFacts).decode


def facts_of(report: NodeReport) -> NodeFacts:
    """Return what is kept of a report."""
    return NodeFacts(
        hostname=report.hostname,
        address=report.address,
        cpus=report.cpus,
        memory_bytes=report.memory_bytes,
        gpus=[
            GpuFacts(gpu.index, gpu.vendor, gpu.model, gpu.memory_bytes, gpu.uuid)
            for gpu in report.gpus
        ],
        labels=dict(report.labels),
        notes=list(report.notes),
    )


def load_nodes(reader: Reader | Tx) -> list[NodeRow]:
    """Return every node that was ever seen and not forgotten."""
    rows = reader.all(f"SELECT {_COLUMNS} FROM nodes ORDER BY id")
    return [NodeRow(*row) for row in rows]


def record(tx: Tx, engine: str, reports: Sequence[NodeReport]) -> bool:
    """Write down what the engine says now; return whether something changed."""
    known = {row.id: row for row in load_nodes(tx) if row.engine == engine}
    changed = False
    for report in reports:
        row = known.pop(report.node_id, None)
        changed |= _record_one(tx, engine, report, row)
    for row in known.values():
        if row.engine_state != DOWN:
            _set_engine_state(tx, row, DOWN, "the engine does not list it any more")
            changed = True
    return changed


def _record_one(tx: Tx, engine: str, report: NodeReport, row: NodeRow | None) -> bool:
    facts = msgspec.json.encode(facts_of(report)).decode()
    state = DOWN if report.state is NodeState.DOWN else READY
    if row is None:
        tx.run(
            "INSERT INTO nodes (id, engine, engine_state, state, note, actor, report, joined_ms,"
            " changed_ms) VALUES (?, ?, ?, 'ready', '', '', ?, ?, ?) ON CONFLICT (id) DO UPDATE"
            " SET engine = excluded.engine, engine_state = excluded.engine_state,"
            " report = excluded.report, changed_ms = excluded.changed_ms",
            (report.node_id, engine, state, facts, tx.now_ms, tx.now_ms),
        )
        _event(tx, "node.joined", report.node_id, gpus=len(report.gpus))
        return True
    changed = False
    if facts != row.report:
        tx.run(
            "UPDATE nodes SET report = ?, changed_ms = ? WHERE id = ?", (facts, tx.now_ms, row.id)
        )
        _event(tx, "node.changed", row.id, gpus=len(report.gpus))
        changed = True
    if state != row.engine_state:
        _set_engine_state(tx, row, state, "")
        changed = True
    return changed


def _set_engine_state(tx: Tx, row: NodeRow, state: str, sentence: str) -> None:
    tx.run(
        "UPDATE nodes SET engine_state = ?, changed_ms = ? WHERE id = ?",
        (state, tx.now_ms, row.id),
    )
    _event(tx, "node.lost" if state == DOWN else "node.joined", row.id, sentence=sentence)


def set_state(tx: Tx, node_id: str, state: NodeState, *, note: str, actor: str) -> None:
    """Drain a node or give it back."""
    if not NODE_ID.match(node_id):
        raise InvalidInput(f"{node_id[:80]!r} is no name of a node")
    if state is NodeState.DOWN or len(note) > 500 or not (note.isprintable() or not note):
        raise InvalidInput("a note is one line of at most 500 characters")
    changed = tx.run(
        "UPDATE nodes SET state = ?, note = ?, actor = ?, changed_ms = ? WHERE id = ?",
        (state.value, note, actor, tx.now_ms, node_id),
    )
    if not changed:
        raise NotFound(f"no node {node_id[:80]!r}; `yard nodes` lists the nodes")
    kind = "node.undrained" if state is NodeState.READY else "node.drained"
    _event(tx, kind, node_id, actor=actor, state=state.value, note=note)


def scheduler_nodes(rows: Sequence[NodeRow]) -> tuple[Node, ...]:
    """Return the nodes in the scheduler's own words."""
    found = []
    for row in rows:
        facts = row.facts
        found.append(
            Node(
                id=row.id,
                name=row.id,
                gpus=tuple(
                    Gpu(index=gpu.index, type=gpu.model, memory_bytes=gpu.memory_bytes)
                    for gpu in facts.gpus
                ),
                cpu_milli=round(facts.cpus * 1000),
                memory_bytes=facts.memory_bytes,
                labels=tuple(sorted(facts.labels.items())),
                state=row.in_force,
                state_note=row.note,
            )
        )
    return tuple(found)


def match_types(wanted: Sequence[str], present: Collection[str]) -> tuple[str, ...]:
    """Turn what a user calls a GPU type into the names nodes report: `a100` finds `A100-80GB`."""
    found: list[str] = []
    for word in wanted:
        if word in present:
            found.append(word)
            continue
        close = sorted(name for name in present if word.lower() in name.lower())
        found.extend(close or [word])
    return tuple(dict.fromkeys(found))


def _event(tx: Tx, kind: str, node_id: str, *, actor: str = "system", **data: object) -> None:
    # Nodes are everybody's: their events go to every team's stream.
    for row in tx.all("SELECT id FROM teams"):
        tx.event(kind, team_id=row[0], actor=actor, subject="node", subject_id=node_id, **data)
