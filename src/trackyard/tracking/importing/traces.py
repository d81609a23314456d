"""Traces from other trackers, with their spans and assessments."""

from __future__ import annotations

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.core.strict_json import check_text
from trackyard.store.database import Tx
from trackyard.tracking.experiments import inner_experiment_id, require
from trackyard.tracking.importing import provenance
from trackyard.tracking.importing.provenance import ImportOutcome, KnownImport, digest_of
from trackyard.tracking.importing.records import ImportedTrace
from trackyard.tracking.traces import assessments, traces
from trackyard.tracking.traces.wire import read_info


def trace_name(item: ImportedTrace) -> str:
    """Return the id that a trace claims to have."""
    return str(item.info.get("trace_id", ""))[:200]


def put_trace(tx: Tx, principal: Principal, item: ImportedTrace) -> ImportOutcome:
    """Import a trace under its own id."""
    info = read_info(item.info)
    judged = [assessments.read_imported(one) for one in item.assessments]
    spans = [_span(one.span_id, one.start_ns, one.data) for one in item.spans]
    require(tx, principal, inner_experiment_id(principal, info.experiment))
    row = tx.one("SELECT team_id, experiment_id FROM traces WHERE id = ?", (info.id,))
    if row is not None and row[0] != principal.team_id:
        raise InvalidInput("its id belongs to a trace of another team on this server")
    digest = digest_of(item)
    known = provenance.find(tx, principal, "trace", info.id)
    if row is not None and known is not None and known.digest == digest:
        return ImportOutcome(id=info.id, outcome="unchanged")
    for one in judged:
        assessments.check_free(tx, info.id, one["assessment_id"])
    traces.put_imported(tx, principal, info, spans, item.runs)
    for one in judged:
        assessments.put_imported(tx, info.id, one)
    provenance.note(tx, principal, "trace", info.id, KnownImport(info.id, digest))
    return ImportOutcome(id=info.id, outcome="created" if row is None else "updated")


def _span(span_id: str, start_ns: int, data: dict[str, object]) -> tuple[str, int, str]:
    text = msgspec.json.encode(data).decode()
    check_text(text)
    return span_id, start_ns, text
