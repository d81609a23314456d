"""Traces of calls, with their spans, tags and links to runs. Owns their state changes.

A trace comes in two ways, in any order and often in both: as a whole that a client describes
(`log`), and as spans over OpenTelemetry (`add_spans`). What was described wins over what spans
suggest. Files of a trace are the artifact store's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.access.reach import own_experiment
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.core.ids import TRACE_ID
from trackyard.core.storage_uri import scheme_of
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import (
    inner_experiment_id,
    outer_experiment_id,
    require,
    require_active,
)
from trackyard.tracking.traces.spans import SpanTrace
from trackyard.tracking.traces.wire import (
    LOCATION_TAG,
    NAME_TAG,
    RUN_KEY,
    SPANS_HERE,
    SPANS_TAG,
    TraceInfo,
    check_key,
    check_trace_id,
    shape,
)

#: Set once a client has described a trace, so that spans which come later change nothing of it.
FINAL_KEY = "mlflow.trace.infoFinalized"
MAX_DELETED, MAX_LINKED = 1000, 100
#: How long a link waits for its trace.
LINK_PATIENCE_MS = 24 * 3600 * 1000
#: What is written of an export in one commit, in spans.
_PART_COST = 2500
_CHUNK = 500
#: How a trace and its assessments look on the wire.
Form = Callable[[TraceInfo, list[dict[str, Any]]], dict[str, Any]]
_COLUMNS = (
    "id, experiment_id, name, state, time_ms, duration_ms, client_request_id, request_preview,"
    " response_preview"
)
_UPSERT_SPAN = (
    "INSERT INTO trace_spans (trace_id, span_id, start_ns, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (trace_id, span_id) DO UPDATE SET start_ns = excluded.start_ns,"
    " data = excluded.data"
)


def log(tx: Tx, principal: Principal, info: TraceInfo) -> dict[str, Any]:
    """Record a trace as its client describes it, and return it."""
    experiment = inner_experiment_id(principal, info.experiment)
    location = _open_experiment(tx, principal, experiment)
    info.tags.setdefault(LOCATION_TAG, f"{location}/traces/{info.id}/artifacts")
    info.metadata[FINAL_KEY] = "true"
    _put(tx, principal, experiment, info)
    return load(tx, principal, [info.id])[0]


def start(tx: Tx, principal: Principal, info: TraceInfo) -> None:
    """Begin a trace under an id of our own, as clients of MLflow 2.x do."""
    experiment = inner_experiment_id(principal, info.experiment)
    location = _open_experiment(tx, principal, experiment)
    info.tags[LOCATION_TAG] = f"{location}/traces/{info.id}/artifacts"
    _put(tx, principal, experiment, info)


def end(
    tx: Tx,
    principal: Principal,
    trace_id: str,
    *,
    time_ms: int,
    state: str,
    metadata: dict[str, str],
    tags: dict[str, str],
) -> None:
    """End a trace that `start` began; metadata and tags are added to those it has."""
    find_own(tx, principal, trace_id)
    tx.run(
        "UPDATE traces SET state = ?, duration_ms = ? - time_ms, name = coalesce(?, name)"
        " WHERE id = ?",
        (state, time_ms, tags.get(NAME_TAG), trace_id),
    )
    _write(tx, "trace_tags", trace_id, tags)
    _write(tx, "trace_metadata", trace_id, metadata)
    if metadata.get(RUN_KEY):
        _link(tx, trace_id, metadata[RUN_KEY])
    _event(tx, "trace.updated", principal, trace_id, state=state)


def add_spans(
    tx: Tx, principal: Principal, experiment: int, traces: Sequence[SpanTrace], run_id: str
) -> None:
    """Record spans, and the traces they belong to as far as they tell of them."""
    location = _open_experiment(tx, principal, experiment)
    for trace in traces:
        row = _row(tx, trace.id)
        if row is not None and (row[0] != principal.team_id or row[1] != experiment):
            raise InvalidInput(f"the trace ID {trace.id} is taken; make up another one")
        if row is None or (trace.has_root and not row[2]):
            info = trace.info()
            info.tags[LOCATION_TAG] = f"{location}/traces/{trace.id}/artifacts"
            _put(tx, principal, experiment, info, is_new=row is None)
        tx.many(
            _UPSERT_SPAN, [(trace.id, span.id, span.start_ns, span.data) for span in trace.spans]
        )
        _write(tx, "trace_tags", trace.id, {SPANS_TAG: SPANS_HERE})
        if run_id:
            _link(tx, trace.id, run_id)


def in_parts(traces: Sequence[SpanTrace]) -> list[list[SpanTrace]]:
    """Divide what an export holds into parts, each of which is written in little time."""
    parts: list[list[SpanTrace]] = []
    room = 0
    for trace in traces:
        # A trace costs as much as ten of its spans.
        cost = 10 + len(trace.spans)
        if not parts or cost > room:
            parts.append([])
            room = _PART_COST
        parts[-1].append(trace)
        room -= cost
    return parts


def _put(
    tx: Tx,
    principal: Principal,
    experiment: int,
    info: TraceInfo,
    *,
    is_new: bool | None = None,
    kind: str = "trace.logged",
) -> None:
    if is_new is None:
        known = _row(tx, info.id)
        if known is not None and (known[0] != principal.team_id or known[1] != experiment):
            raise InvalidInput(f"the trace ID {info.id} is taken; make up another one")
    tx.run(
        f"INSERT INTO traces (team_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, state = excluded.state,"
        " time_ms = excluded.time_ms, duration_ms = excluded.duration_ms,"
        " client_request_id = excluded.client_request_id,"
        " request_preview = excluded.request_preview,"
        " response_preview = excluded.response_preview",
        (
            principal.team_id,
            info.id,
            experiment,
            info.tags.get(NAME_TAG, ""),
            info.state,
            info.time_ms,
            info.duration_ms,
            info.client_request_id,
            info.request_preview,
            info.response_preview,
        ),
    )
    _write(tx, "trace_tags", info.id, info.tags)
    _write(tx, "trace_metadata", info.id, info.metadata)
    if info.metadata.get(RUN_KEY):
        _link(tx, info.id, info.metadata[RUN_KEY])
    _link_now(tx, principal, info.id)
    _event(tx, kind, principal, info.id, experiment=experiment, state=info.state)


def put_imported(
    tx: Tx,
    principal: Principal,
    info: TraceInfo,
    spans: Sequence[tuple[str, int, str]],
    runs: Sequence[str],
) -> None:
    """Record a trace of another tracker whole; its experiment may be a deleted one."""
    experiment = inner_experiment_id(principal, info.experiment)
    location = require(tx, principal, experiment)[2]
    if scheme_of(location) == "mlflow-artifacts" or not info.tags.get(LOCATION_TAG):
        # Else its file stays where the experiment's files stay.
        info.tags[LOCATION_TAG] = f"{location}/traces/{info.id}/artifacts"
    info.metadata[FINAL_KEY] = "true"
    if spans:
        info.tags[SPANS_TAG] = SPANS_HERE
    _put(tx, principal, experiment, info, kind="trace.imported")
    tx.many(_UPSERT_SPAN, [(info.id, *span) for span in spans])
    for run_id in runs:
        _link(tx, info.id, run_id)


def set_tag(tx: Tx, principal: Principal, trace_id: str, key: str, value: str) -> None:
    """Set a tag of a trace."""
    check_key(key)
    find_own(tx, principal, trace_id)
    _write(tx, "trace_tags", trace_id, {key: value})
    if key == NAME_TAG:
        tx.run("UPDATE traces SET name = ? WHERE id = ?", (value, trace_id))
    _event(tx, "trace.updated", principal, trace_id, tag=key)


def delete_tag(tx: Tx, principal: Principal, trace_id: str, key: str) -> None:
    """Remove a tag of a trace."""
    find_own(tx, principal, trace_id)
    gone = tx.run("DELETE FROM trace_tags WHERE trace_id = ? AND key = ?", (trace_id, key))
    if not gone:
        raise NotFound(f"No trace tag with key '{key[:80]}' for trace with ID '{trace_id}'")
    _event(tx, "trace.updated", principal, trace_id, tag_removed=key)


def link_to_run(tx: Tx, principal: Principal, trace_ids: Sequence[str], run_id: str) -> None:
    """Link traces to a run, so that they are found by it."""
    if len(trace_ids) > MAX_LINKED:
        raise InvalidInput(
            f"Cannot link more than {MAX_LINKED} traces to a run in a single request. Provided"
            f" {len(trace_ids)} traces."
        )
    for trace_id in trace_ids:
        if _row(tx, check_trace_id(trace_id)) is None:
            # Clients export traces in the background: the link may come first.
            _link_later(tx, principal, trace_id, run_id)
            continue
        find_own(tx, principal, trace_id)
        _link(tx, trace_id, run_id)
        _event(tx, "trace.updated", principal, trace_id, run_id=run_id)


def find_deleted(
    reader: ReadConnection,
    principal: Principal,
    experiment: int,
    *,
    trace_ids: Sequence[str] = (),
    until_ms: int | None = None,
    most: int | None = None,
) -> list[str]:
    """Return the traces of an experiment that are to go: by id, or the oldest up to a time."""
    require(reader, principal, experiment)
    if bool(trace_ids) == (until_ms is not None):
        raise InvalidInput("Either `max_timestamp_millis` or `trace_ids` must be specified.")
    if trace_ids and most is not None:
        raise InvalidInput("`max_traces` can't be specified if `trace_ids` is specified.")
    if most is not None and most <= 0:
        raise InvalidInput(f"`max_traces` must be a positive integer, received {most}.")
    if trace_ids:
        return list(dict.fromkeys(trace_ids))
    rows = reader.all(
        "SELECT id FROM traces WHERE experiment_id = ? AND team_id = ? AND time_ms <= ?"
        " ORDER BY time_ms, id LIMIT ?",
        (experiment, principal.team_id, until_ms, min(most or MAX_DELETED, MAX_DELETED)),
    )
    return [row[0] for row in rows]


def delete(
    tx: Tx,
    principal: Principal,
    experiment: int,
    *,
    trace_ids: Sequence[str],
    forget: Callable[[Tx, str], object],
) -> int:
    """Delete a few traces of an experiment; return how many were there."""
    marks = ",".join("?" * len(trace_ids))
    rows = tx.all(
        f"SELECT id FROM traces WHERE experiment_id = ? AND team_id = ? AND id IN ({marks})",
        (experiment, principal.team_id, *trace_ids),
    )
    for (trace_id,) in rows:
        tx.run("DELETE FROM traces WHERE id = ?", (trace_id,))
        forget(tx, trace_id)
    if rows:
        _event(tx, "trace.deleted", principal, str(experiment), count=len(rows))
    return len(rows)


# -- reading ----------------------------------------------------------------------------------


def load(
    reader: Tx | ReadConnection, principal: Principal, ids: Sequence[str], form: Form = shape
) -> list[dict[str, Any]]:
    """Return traces of the caller's team in MLflow's form, in the order of their ids."""
    found: dict[str, TraceInfo] = {}
    assessments: dict[str, list[dict[str, Any]]] = {}
    for at in range(0, len(ids), _CHUNK):
        chunk = ids[at : at + _CHUNK]
        marks = ",".join("?" * len(chunk))
        for row in reader.all(
            f"SELECT {_COLUMNS} FROM traces WHERE team_id = ? AND id IN ({marks})",
            (principal.team_id, *chunk),
        ):
            found[row[0]] = TraceInfo(
                id=row[0],
                experiment=outer_experiment_id(principal, row[1]),
                state=row[3],
                time_ms=row[4],
                duration_ms=row[5],
                client_request_id=row[6],
                request_preview=row[7],
                response_preview=row[8],
            )
        for table, name in (("trace_tags", "tags"), ("trace_metadata", "metadata")):
            for trace_id, key, value in reader.all(
                f"SELECT trace_id, key, value FROM {table} WHERE trace_id IN ({marks})"
                " ORDER BY key",
                chunk,
            ):
                if trace_id in found:
                    getattr(found[trace_id], name)[key] = value
        for trace_id, data in reader.all(
            f"SELECT trace_id, data FROM assessments WHERE trace_id IN ({marks})"
            " ORDER BY created_ms, id",
            chunk,
        ):
            assessments.setdefault(trace_id, []).append(msgspec.json.decode(data))
    return [form(found[one], assessments.get(one, [])) for one in ids if one in found]


def load_spans(reader: ReadConnection, trace_id: str) -> list[Any]:
    """Return the spans of a trace that came over OpenTelemetry, in the order they began."""
    rows = reader.all(
        "SELECT data FROM trace_spans WHERE trace_id = ? ORDER BY start_ns, span_id", (trace_id,)
    )
    return [msgspec.json.decode(row[0]) for row in rows]


def find(reader: Tx | ReadConnection, principal: Principal, trace_id: str) -> int:
    """Return the experiment of a trace of the caller's team."""
    row = TRACE_ID.match(trace_id) and reader.one(
        "SELECT experiment_id FROM traces WHERE id = ? AND team_id = ?",
        (trace_id, principal.team_id),
    )
    if not row:
        raise NotFound(f"Trace with ID '{trace_id[:80]}' not found.")
    return int(row[0])


def find_own(tx: Tx, principal: Principal, trace_id: str) -> int:
    """Return the experiment of a trace that the caller may change."""
    experiment = find(tx, principal, trace_id)
    bound = own_experiment(tx, principal)
    if bound is not None and bound != experiment:
        raise NotFound(f"Trace with ID '{trace_id}' not found.")
    return experiment


def _open_experiment(tx: Tx, principal: Principal, experiment: int) -> str:
    """Return where files of an experiment lie that the caller may log traces to."""
    bound = own_experiment(tx, principal)
    if bound is not None and bound != experiment:
        raise Denied("a job's script logs traces to the job's own experiment alone")
    return require_active(tx, principal, experiment)[2]


def _row(tx: Tx, trace_id: str) -> tuple[int, int, bool] | None:
    """Return team, experiment, and whether a trace was described by its client."""
    row = tx.one(
        "SELECT t.team_id, t.experiment_id, m.value FROM traces t LEFT JOIN trace_metadata m"
        " ON m.trace_id = t.id AND m.key = ? WHERE t.id = ?",
        (FINAL_KEY, trace_id),
    )
    return None if row is None else (row[0], row[1], row[2] is not None)


def _link(tx: Tx, trace_id: str, run_id: str) -> None:
    tx.run(
        "INSERT INTO trace_runs (trace_id, run_uuid) VALUES (?, ?)"
        " ON CONFLICT (trace_id, run_uuid) DO NOTHING",
        (trace_id, run_id),
    )


def _link_later(tx: Tx, principal: Principal, trace_id: str, run_id: str) -> None:
    """Note a link to a trace that has not come in yet."""
    tx.run("DELETE FROM trace_links WHERE created_ms < ?", (tx.now_ms - LINK_PATIENCE_MS,))
    tx.run(
        "INSERT INTO trace_links (team_id, trace_id, run_uuid, created_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (trace_id, team_id, run_uuid) DO NOTHING",
        (principal.team_id, trace_id, run_id, tx.now_ms),
    )


def _link_now(tx: Tx, principal: Principal, trace_id: str) -> None:
    """Make the links that were noted before a trace came in."""
    key = (trace_id, principal.team_id)
    rows = tx.all("SELECT run_uuid FROM trace_links WHERE trace_id = ? AND team_id = ?", key)
    for (run_id,) in rows:
        _link(tx, trace_id, run_id)
    if rows:
        tx.run("DELETE FROM trace_links WHERE trace_id = ? AND team_id = ?", key)


def _write(tx: Tx, table: str, trace_id: str, pairs: dict[str, str]) -> None:
    tx.many(
        f"INSERT INTO {table} (trace_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (trace_id, key) DO UPDATE SET value = excluded.value",
        [(trace_id, key, value) for key, value in pairs.items()],
    )


def note(tx: Tx, principal: Principal, trace_id: str, **data: Any) -> None:
    """Record that something about a trace has changed."""
    _event(tx, "trace.updated", principal, trace_id, **data)


def _event(tx: Tx, kind: str, principal: Principal, trace_id: str, **data: Any) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="trace",
        subject_id=trace_id,
        **data,
    )
