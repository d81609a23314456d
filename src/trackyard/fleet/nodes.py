"""Nodes: what the engine reports, what operators say of them, and what keeps work off them.

Owns `nodes`. An operator's drain, quarantine and labels outlive restarts; the engine's report is
a fact of the moment. Knows nothing of jobs, and nothing of how a verdict on health is found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.node import Node, NodeGpu, NodeState
from trackyard.core.ports import NODE_ID, NodeReport
from trackyard.store.database import ReadConnection, Tx

READY, DOWN = NodeState.READY.value, NodeState.DOWN.value
OPERATOR, HEALTH = "operator", "health"
SYSTEM = "system"
#: The label by which an operator names a node's class; leases charge and space nodes by it.
CLASS_LABEL = "class"
MAX_LABELS = 64
_LABEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}\Z")


class StoredGpu(msgspec.Struct, frozen=True):
    """A GPU as it is kept."""

    index: int
    vendor: str
    model: str
    memory_bytes: int
    uuid: str | None = None


class ForeignFacts(msgspec.Struct, frozen=True):
    """What someone past the queue holds on a node."""

    name: str
    gpus: list[int] = []
    gpu_milli: int = 1000
    cpu_milli: int = 0
    memory_bytes: int = 0


class NodeFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of an engine's report: totals, not what is free."""

    hostname: str
    address: str
    cpus: float
    memory_bytes: int
    gpus: list[StoredGpu] = []
    labels: dict[str, str] = {}
    notes: list[str] = []
    foreign: list[ForeignFacts] = []


class NodeProperties(msgspec.Struct, frozen=True):
    """What a node is made of, for choosing among nodes."""

    #: the operator's label `class`, else the GPUs' model, else `cpu`
    node_class: str
    gpu_vendor: str
    gpu_model: str
    gpu_count: int
    #: of one GPU; the least where they differ
    gpu_memory_bytes: int
    driver: str
    cuda: str
    rocm: str
    cpus: float
    memory_bytes: int
    os: str
    arch: str


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
    #: what an operator set; JSON
    labels_json: str
    until_ms: int | None
    state_by: str
    state_ms: int
    expected_gpus: int

    @property
    def facts(self) -> NodeFacts:
        """What the engine last said of it."""
        return _decode(self.report)

    @property
    def in_force(self) -> NodeState:
        """Its state: a node that is gone is down, whatever an operator said."""
        return NodeState.DOWN if self.engine_state == DOWN else NodeState(self.state)

    @property
    def own_labels(self) -> dict[str, str]:
        """Labels that an operator set."""
        return _decode_labels(self.labels_json)

    @property
    def labels(self) -> dict[str, str]:
        """The engine's labels, with the operator's over them."""
        return {**self.facts.labels, **self.own_labels}

    @property
    def properties(self) -> NodeProperties:
        """What it is made of."""
        return properties_of(self.facts, self.labels)


_COLUMNS = ", ".join("labels" if field == "labels_json" else field for field in NodeRow._fields)
_decode = msgspec.json.Decoder(NodeFacts).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode


def facts_of(report: NodeReport) -> NodeFacts:
    """Return what is kept of a report."""
    return NodeFacts(
        hostname=report.hostname,
        address=report.address,
        cpus=report.cpus,
        memory_bytes=report.memory_bytes,
        gpus=[
            StoredGpu(gpu.index, gpu.vendor, gpu.model, gpu.memory_bytes, gpu.uuid)
            for gpu in report.gpus
        ],
        labels=dict(report.labels),
        notes=list(report.notes),
        foreign=[
            ForeignFacts(
                one.name,
                list(one.gpus),
                round(one.fraction * 1000),
                round(one.cpus * 1000),
                one.memory_bytes,
            )
            for one in report.foreign
        ],
    )


def properties_of(facts: NodeFacts, labels: Mapping[str, str]) -> NodeProperties:
    """Describe a node's hardware."""
    first = facts.gpus[0] if facts.gpus else None
    model = first.model if first else ""
    return NodeProperties(
        node_class=labels.get(CLASS_LABEL) or model or "cpu",
        gpu_vendor=first.vendor if first else "",
        gpu_model=model,
        gpu_count=len(facts.gpus),
        gpu_memory_bytes=min((gpu.memory_bytes for gpu in facts.gpus), default=0),
        driver=labels.get("nvidia_driver") or labels.get("amd_driver") or "",
        cuda=labels.get("cuda", ""),
        rocm=labels.get("rocm", ""),
        cpus=facts.cpus,
        memory_bytes=facts.memory_bytes,
        os=labels.get("os", ""),
        arch=labels.get("arch", ""),
    )


def load(reader: ReadConnection | Tx) -> list[NodeRow]:
    """Return every node that was ever seen and not forgotten."""
    rows = reader.all(f"SELECT {_COLUMNS} FROM nodes ORDER BY id")
    return [NodeRow(*row) for row in rows]


load_nodes = load


def find(reader: ReadConnection | Tx, node_id: str) -> NodeRow:
    """Return one node, or say that there is none."""
    row = reader.one(f"SELECT {_COLUMNS} FROM nodes WHERE id = ?", (node_id,))
    if row is None:
        raise NotFound(f"no node {node_id[:80]!r}; `yard nodes` lists the nodes")
    return NodeRow(*row)


# -- what the engine says ---------------------------------------------------------------------


def record(tx: Tx, engine: str, reports: Sequence[NodeReport]) -> bool:
    """Write down what the engine says now; return whether something changed."""
    known = {row.id: row for row in load(tx) if row.engine == engine}
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
    expected = _expected_gpus(report, 0 if row is None else row.expected_gpus)
    if row is None:
        tx.run(
            "INSERT INTO nodes (id, engine, engine_state, state, note, actor, report, joined_ms,"
            " changed_ms, state_ms, expected_gpus)"
            " VALUES (?, ?, ?, 'ready', '', '', ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
            " SET engine = excluded.engine, engine_state = excluded.engine_state,"
            " report = excluded.report, changed_ms = excluded.changed_ms,"
            " expected_gpus = excluded.expected_gpus",
            (report.node_id, engine, state, facts, tx.now_ms, tx.now_ms, tx.now_ms, expected),
        )
        node_event(tx, "node.joined", report.node_id, gpus=len(report.gpus))
        return True
    changed = False
    if facts != row.report or expected != row.expected_gpus:
        tx.run(
            "UPDATE nodes SET report = ?, changed_ms = ?, expected_gpus = ? WHERE id = ?",
            (facts, tx.now_ms, expected, row.id),
        )
        if facts != row.report:
            node_event(tx, "node.changed", row.id, gpus=len(report.gpus))
        changed = True
    if state != row.engine_state:
        _set_engine_state(tx, row, state, "")
        changed = True
    return changed


def _expected_gpus(report: NodeReport, before: int) -> int:
    """GPUs the node has when it is whole: what the engine knows, else the most ever seen."""
    if report.expected_gpus is not None:
        return report.expected_gpus
    return max(before, len(report.gpus))


def _set_engine_state(tx: Tx, row: NodeRow, state: str, sentence: str) -> None:
    tx.run(
        "UPDATE nodes SET engine_state = ?, changed_ms = ? WHERE id = ?",
        (state, tx.now_ms, row.id),
    )
    node_event(tx, "node.lost" if state == DOWN else "node.joined", row.id, sentence=sentence)


# -- what keeps work off it -------------------------------------------------------------------


def set_state(
    tx: Tx,
    node_id: str,
    state: NodeState,
    *,
    note: str,
    actor: str,
    until_ms: int | None = None,
    by: str = OPERATOR,
    **data: object,
) -> None:
    """Drain a node, quarantine it or give it back; `by` says whether a person did it."""
    if not NODE_ID.match(node_id):
        raise InvalidInput(f"{node_id[:80]!r} is no name of a node")
    if state is NodeState.DOWN or len(note) > 500 or not (note.isprintable() or not note):
        raise InvalidInput("a note is one line of at most 500 characters")
    if until_ms is not None and (state is not NodeState.DRAINED or until_ms <= tx.now_ms):
        raise InvalidInput("a drain ends in the future; give a later time, or none")
    before = find(tx, node_id)
    tx.run(
        "UPDATE nodes SET state = ?, note = ?, actor = ?, until_ms = ?, state_by = ?,"
        " state_ms = ?, changed_ms = ? WHERE id = ?",
        (state.value, note, actor, until_ms, by, tx.now_ms, tx.now_ms, node_id),
    )
    node_event(
        tx,
        _kind(NodeState(before.state), state),
        node_id,
        actor=actor,
        state=state.value,
        note=note,
        until_ms=until_ms,
        by=by,
        **{"sentence": _state_sentence(node_id, state, note, until_ms), **data},
    )


def _kind(before: NodeState, after: NodeState) -> str:
    if after is NodeState.QUARANTINED:
        return "node.quarantined"
    if after is NodeState.DRAINED:
        return "node.drained"
    return "node.unquarantined" if before is NodeState.QUARANTINED else "node.undrained"


def _state_sentence(node_id: str, state: NodeState, note: str, until_ms: int | None) -> str:
    why = f": {note}" if note else ""
    if state is NodeState.READY:
        return f"{node_id} takes work again{why}."
    until = ""
    if until_ms is not None:
        moment = datetime.fromtimestamp(until_ms / 1000, tz=UTC)
        until = f" until {moment.strftime('%Y-%m-%d %H:%M UTC')}"
    return f"{node_id} is {state.value}{until}{why}; what runs there goes on."


def accept_gpus(tx: Tx, row: NodeRow) -> None:
    """Take the GPUs a node reports now for all that it should have."""
    tx.run("UPDATE nodes SET expected_gpus = ? WHERE id = ?", (len(row.facts.gpus), row.id))


def end_drains(tx: Tx) -> list[str]:
    """Give back the nodes whose drain was until now; return them."""
    due = [
        row
        for row in load(tx)
        if row.state == NodeState.DRAINED
        and row.until_ms is not None
        and row.until_ms <= tx.now_ms
    ]
    for row in due:
        set_state(tx, row.id, NodeState.READY, note="the time of its drain is over", actor=SYSTEM)
    return [row.id for row in due]


def set_labels(
    tx: Tx, node_id: str, set_: Mapping[str, str], remove: Sequence[str], *, actor: str
) -> dict[str, str]:
    """Set and remove an operator's labels; return those it has now."""
    row = find(tx, node_id)
    for name, value in set_.items():
        if not _LABEL_NAME.match(name):
            raise InvalidInput(
                f"{name[:80]!r} is no name of a label: letters, digits, '.', '_', '/' and '-'"
            )
        if not value or len(value) > 200 or not value.isprintable():
            raise InvalidInput(f"label {name}: a value is one line of 1 to 200 characters")
    labels = {name: value for name, value in row.own_labels.items() if name not in remove}
    labels.update(set_)
    if len(labels) > MAX_LABELS:
        raise InvalidInput(f"a node carries at most {MAX_LABELS} labels; remove some first")
    if labels == row.own_labels:
        return labels
    tx.run(
        "UPDATE nodes SET labels = ?, changed_ms = ? WHERE id = ?",
        (msgspec.json.encode(labels, order="sorted").decode(), tx.now_ms, node_id),
    )
    words = [f"{name}={value}" for name, value in sorted(set_.items())]
    words += [f"{name} removed" for name in sorted(remove)]
    node_event(
        tx,
        "node.labelled",
        node_id,
        actor=actor,
        labels=labels,
        sentence=f"Labels of {node_id}: {', '.join(words)}."[:500],
    )
    return labels


# -- for the queue ----------------------------------------------------------------------------


def scheduler_nodes(
    rows: Sequence[NodeRow], held: Mapping[str, int] | None = None
) -> tuple[Node, ...]:
    """Return the nodes in the scheduler's own words.

    `held` says how many GPUs, counted from the first, running attempts hold on to. The scheduler
    counts GPUs without gaps; so on a node with a lost GPU the lost one is listed too, and nothing
    new starts there: what is left may be numbered anew at any time.
    """
    found = []
    for row in rows:
        facts = row.facts
        gpus = _whole(facts.gpus, max(row.expected_gpus, (held or {}).get(row.id, 0)))
        state, note = row.in_force, row.note
        if state.takes_work and len(gpus) > len(facts.gpus):
            state = NodeState.QUARANTINED
            note = f"{len(gpus) - len(facts.gpus)} of {len(gpus)} GPUs gone"
        found.append(
            Node(
                id=row.id,
                name=row.id,
                gpus=gpus,
                cpu_milli=round(facts.cpus * 1000),
                memory_bytes=facts.memory_bytes,
                labels=tuple(sorted({**facts.labels, **row.own_labels}.items())),
                state=state,
                state_note=note,
            )
        )
    return tuple(found)


def _whole(present: Sequence[StoredGpu], expected: int) -> tuple[NodeGpu, ...]:
    """List GPUs without gaps: those that are there, and those that are lost."""
    known = {
        gpu.index: NodeGpu(index=gpu.index, type=gpu.model, memory_bytes=gpu.memory_bytes)
        for gpu in present
    }
    alike = next(iter(known.values()), NodeGpu(index=0))
    return tuple(
        known.get(index) or NodeGpu(index=index, type=alike.type, memory_bytes=alike.memory_bytes)
        for index in range(max([expected, *(index + 1 for index in known)]))
    )


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


def node_event(tx: Tx, kind: str, node_id: str, *, actor: str = SYSTEM, **data: object) -> None:
    """Record a fact about a node: nodes are everybody's, so every team's stream has it."""
    for row in tx.all("SELECT id FROM teams"):
        tx.event(kind, team_id=row[0], actor=actor, subject="node", subject_id=node_id, **data)
