"""Assessments of traces: feedback, and what was expected. Owns their state changes.

One that overrides another makes that one invalid; deleting it makes the other valid again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import new_run_id
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.traces import traces
from trackyard.tracking.traces.wire import read_pairs, read_time, write_time

MAX_ASSESSMENT = 100_000
KINDS = ("feedback", "expectation")
_ID = re.compile(r"[A-Za-z0-9][\w-]{0,99}\Z")
SOURCES = ("HUMAN", "LLM_JUDGE", "AI_JUDGE", "CODE")
_FIELDS: dict[str, type] = {
    "assessment_name": str,
    "rationale": str,
    "overrides": str,
    "span_id": str,
    "metadata": dict,
    "source": dict,
    "feedback": dict,
    "expectation": dict,
}
_CHANGED = {
    "assessment_name": "assessment_name",
    "assessmentName": "assessment_name",
    "feedback": "feedback",
    "expectation": "expectation",
    "rationale": "rationale",
    "metadata": "metadata",
}


def create(tx: Tx, principal: Principal, trace_id: str, given: Any) -> dict[str, Any]:
    """Add an assessment to a trace and return it."""
    traces.find_own(tx, principal, trace_id)
    checked = _check(given)
    if "assessment_name" not in checked:
        raise InvalidInput("Missing value for required parameter 'assessment.assessment_name'.")
    if sum(kind in checked for kind in KINDS) != 1:
        raise InvalidInput("an assessment holds either `feedback` or an `expectation`")
    overrides = checked.get("overrides")
    now = write_time(tx.now_ms)
    made = {
        "assessment_id": f"a-{new_run_id()}",
        "create_time": now,
        "last_update_time": now,
        **checked,
        "trace_id": trace_id,
        "valid": True,
    }
    if overrides:
        _set_valid(tx, trace_id, overrides, is_valid=False)
    _put(tx, trace_id, made)
    traces.note(tx, principal, trace_id, assessment=made["assessment_name"])
    return made


def read_imported(given: Any) -> dict[str, Any]:
    """Check an assessment of another tracker, which keeps its id and times."""
    checked = _check(given)
    known = given.get("assessment_id")
    if not isinstance(known, str) or _ID.match(known) is None:
        raise InvalidInput(f"an assessment's id is not like {str(known)[:80]!r}")
    if "assessment_name" not in checked or sum(kind in checked for kind in KINDS) != 1:
        raise InvalidInput(f"the assessment {known} has no name, or no single value")
    return {"assessment_id": known, **checked, "valid": given.get("valid") is not False}


def put_imported(tx: Tx, trace_id: str, checked: dict[str, Any]) -> None:
    """Record a checked assessment of a trace."""
    created = read_time(checked.get("create_time", write_time(tx.now_ms)), "create_time")
    _put(tx, trace_id, {**checked, "trace_id": trace_id}, created)


def check_free(tx: Tx, trace_id: str, assessment_id: str) -> None:
    """Refuse the id of an assessment of another trace."""
    row = tx.one("SELECT trace_id FROM assessments WHERE id = ?", (assessment_id,))
    if row is not None and row[0] != trace_id:
        raise InvalidInput(f"the assessment id {assessment_id} is taken by another trace")


def get(
    reader: Tx | ReadConnection, principal: Principal, trace_id: str, assessment_id: str
) -> dict[str, Any]:
    """Return an assessment of a trace."""
    traces.find(reader, principal, trace_id)
    row = reader.one(
        "SELECT data FROM assessments WHERE id = ? AND trace_id = ?", (assessment_id, trace_id)
    )
    if row is None:
        raise NotFound(
            f"Assessment with ID '{assessment_id[:80]}' not found for trace '{trace_id}'"
        )
    found: dict[str, Any] = msgspec.json.decode(row[0])
    return found


def update(
    tx: Tx,
    principal: Principal,
    trace_id: str,
    assessment_id: str,
    *,
    given: Any,
    fields: Sequence[str],
) -> dict[str, Any]:
    """Change the named fields of an assessment and return it."""
    traces.find_own(tx, principal, trace_id)
    found = get(tx, principal, trace_id, assessment_id)
    checked = _check(given)
    for field in fields:
        name = _CHANGED.get(field)
        if name is None:
            raise InvalidInput(
                f"Invalid value {field[:80]!r} for parameter 'update_mask' supplied"
            )
        if name in KINDS and name not in found:
            raise InvalidInput(f"an assessment does not turn into another kind: it has no {name}")
        if name == "metadata":
            found[name] = {**found.get(name, {}), **checked.get(name, {})}
        elif name in checked:
            found[name] = checked[name]
        else:
            found.pop(name, None)
    found["last_update_time"] = write_time(tx.now_ms)
    _put(tx, trace_id, found)
    traces.note(tx, principal, trace_id, assessment=found.get("assessment_name", ""))
    return found


def delete(tx: Tx, principal: Principal, trace_id: str, assessment_id: str) -> None:
    """Delete an assessment; one that it overrode counts again."""
    traces.find_own(tx, principal, trace_id)
    found = get(tx, principal, trace_id, assessment_id)
    tx.run("DELETE FROM assessments WHERE id = ?", (assessment_id,))
    if found.get("overrides"):
        row = tx.one(
            "SELECT 1 FROM assessments WHERE id = ? AND trace_id = ?",
            (found["overrides"], trace_id),
        )
        if row is not None:
            _set_valid(tx, trace_id, found["overrides"], is_valid=True)
    traces.note(tx, principal, trace_id, assessment_removed=found.get("assessment_name", ""))


def _check(given: Any) -> dict[str, Any]:
    """Return the fields of an assessment that are kept, each of its kind."""
    if not isinstance(given, dict):
        raise InvalidInput("Missing value for required parameter 'assessment'.")
    found: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        value = given.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, kind):
            raise InvalidInput(f"Invalid value for parameter 'assessment.{name}' supplied")
        found[name] = value
    for name in ("create_time", "last_update_time"):
        if given.get(name) is not None:
            found[name] = write_time(read_time(given[name], name))
    found |= {name: read(found[name]) for name, read in _READERS.items() if name in found}
    if len(msgspec.json.encode(found)) > MAX_ASSESSMENT:
        raise InvalidInput(f"an assessment has at most {MAX_ASSESSMENT} bytes")
    return found


def _packed(expectation: dict[str, Any]) -> dict[str, Any]:
    """Return an expectation whose list or object is text, which is all that clients read."""
    value = expectation.get("value")
    if not isinstance(value, dict | list):
        return expectation
    text = msgspec.json.encode(value).decode()
    return {"serialized_value": {"serialization_format": "JSON_FORMAT", "value": text}}


def _source(source: dict[str, Any]) -> dict[str, str]:
    kind = source.get("source_type")
    if kind not in SOURCES:
        raise InvalidInput(
            f"Invalid assessment source type: {str(kind)[:80]}. Valid source types are"
            f" {', '.join(SOURCES)}"
        )
    return {"source_type": kind, "source_id": str(source.get("source_id") or "default")[:250]}


#: How the parts are read that are objects of their own.
_READERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "metadata": lambda pairs: dict(read_pairs(pairs, "metadata")),
    "expectation": _packed,
    "source": lambda source: dict(_source(source)),
}


def _value_of(data: dict[str, Any]) -> str:
    """Return what filters compare."""
    content = data.get("feedback") or data.get("expectation") or {}
    value = content.get("value")
    if value is None and isinstance(content.get("serialized_value"), dict):
        value = content["serialized_value"].get("value")
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _put(tx: Tx, trace_id: str, data: dict[str, Any], created: int | None = None) -> None:
    kind = "feedback" if "feedback" in data else "expectation"
    tx.run(
        "INSERT INTO assessments (id, trace_id, kind, name, value, created_ms, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
        " value = excluded.value, data = excluded.data",
        (
            data["assessment_id"],
            trace_id,
            kind,
            data.get("assessment_name", ""),
            _value_of(data),
            tx.now_ms if created is None else created,
            msgspec.json.encode(data).decode(),
        ),
    )


def _set_valid(tx: Tx, trace_id: str, assessment_id: str, *, is_valid: bool) -> None:
    row = tx.one(
        "SELECT data FROM assessments WHERE id = ? AND trace_id = ?", (assessment_id, trace_id)
    )
    if row is None:
        raise NotFound(
            f"Assessment with ID '{assessment_id[:80]}' not found for trace '{trace_id}'"
        )
    _put(tx, trace_id, {**msgspec.json.decode(row[0]), "valid": is_valid})
