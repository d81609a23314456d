"""Searching traces: where the keys of their search language lie. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trackyard.core.errors import InvalidInput
from trackyard.store.connection import Dialect
from trackyard.store.database import ReadConnection
from trackyard.tracking.search.grammar import Clause, Value, parse_filter, parse_order
from trackyard.tracking.search.language import TRACES
from trackyard.tracking.search.paging import Term, binding, check_page_size, find_page, nulls_last
from trackyard.tracking.search.sql import (
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compare,
    compile_comparison,
    compile_where,
    join,
)

TRACES_DEFAULT = 100
TRACES_MOST = 500

_PLACES: dict[str, tuple[str, Literal["text", "whole"]]] = {
    "trace_id": ("t.id", "text"),
    "name": ("t.name", "text"),
    "status": ("t.state", "text"),
    "client_request_id": ("t.client_request_id", "text"),
    "timestamp_ms": ("t.time_ms", "whole"),
    "execution_time_ms": ("t.duration_ms", "whole"),
    "end_time_ms": ("(t.time_ms + t.duration_ms)", "whole"),
}
_NULLABLE = ("execution_time_ms", "end_time_ms")
_SPAN_TYPE = "mlflow.spanType"
_SPAN_STATES = {"OK": "STATUS_CODE_OK", "ERROR": "STATUS_CODE_ERROR", "UNSET": "STATUS_CODE_UNSET"}


def find_traces(
    reader: ReadConnection,
    team_id: int,
    *,
    experiments: Sequence[int],
    filter_text: str | None,
    order_by: Sequence[str],
    max_results: int,
    page_token: str | None,
) -> tuple[list[str], str | None]:
    """Return a page of trace ids, the newest first unless told otherwise."""
    check_page_size(max_results, TRACES_MOST)
    tree = parse_filter(filter_text, TRACES)
    orders = parse_order(order_by or ("timestamp_ms DESC",), TRACES)
    if not experiments:
        return [], None
    where = join(
        "AND",
        [_within(team_id, experiments), compile_where(reader.dialect, tree, _columns(reader))],
    )
    terms: list[Term] = []
    for order in orders:
        sql, kind = _PLACES[order.key.name]
        terms += nulls_last(sql, ascending=order.ascending, kind=kind)
    terms.append(Term("t.id", ascending=True, kind="text"))
    return find_page(
        reader,
        key="t.id",
        source=Fragment("traces t"),
        where=where,
        terms=terms,
        query=binding("traces", team_id, list(experiments), filter_text, list(order_by)),
        max_results=max_results,
        page_token=page_token,
    )


def matching(
    reader: ReadConnection, team_id: int, experiments: Sequence[int], filters: Sequence[str | None]
) -> Fragment:
    """Return the condition on `traces t` that every one of some filters holds."""
    columns = _columns(reader)
    parts = [
        compile_where(reader.dialect, parse_filter(text, TRACES), columns)
        for text in filters
        if text
    ]
    return join("AND", [_within(team_id, experiments), *parts])


def count_traces(reader: ReadConnection, where: Fragment) -> int:
    """Return how many traces meet a condition of `matching`."""
    row = reader.one(f"SELECT count(*) FROM traces t WHERE {where.sql}", where.params)
    return int(row[0]) if row is not None else 0


def _within(team_id: int, experiments: Sequence[int]) -> Fragment:
    if not experiments:
        return Fragment("1 = 0")
    marks = ",".join("?" * len(experiments))
    return Fragment(f"t.team_id = ? AND t.experiment_id IN ({marks})", (team_id, *experiments))


def _columns(reader: ReadConnection) -> SearchColumns:
    plain = SearchColumns(
        attributes={
            name: Column(sql, nullable=name in _NULLABLE) for name, (sql, _) in _PLACES.items()
        }
    )

    def attribute(clause: Clause) -> Fragment:
        if clause.key.name == "text":
            return _some_span(_in_text(reader.dialect, clause))
        if clause.key.name != "run_id":
            return compile_comparison(reader.dialect, clause, plain)
        return Fragment(
            "EXISTS (SELECT 1 FROM trace_runs r WHERE r.trace_id = t.id AND r.run_uuid = ?)",
            (clause.value,),
        )

    def rows(table: str, **more: Fragment | str) -> Rows:
        return Rows(table=table, owner="trace_id", parent="t.id", **more)  # type: ignore[arg-type]

    return SearchColumns(
        attributes={},
        rows={
            "tag": rows("trace_tags"),
            "metadata": rows("trace_metadata"),
            "feedback": rows("assessments", key="name", also=Fragment("x.kind = 'feedback'")),
            "expectation": rows(
                "assessments", key="name", also=Fragment("x.kind = 'expectation'")
            ),
        },
        special={
            "attribute": attribute,
            "span": lambda clause: _some_span(_on_span(reader.dialect, clause)),
        },
    )


def _some_span(condition: Fragment) -> Fragment:
    return Fragment(
        f"EXISTS (SELECT 1 FROM trace_spans s WHERE s.trace_id = t.id AND {condition.sql})",
        condition.params,
    )


def _in_text(dialect: Dialect, clause: Clause) -> Fragment:
    """Return the condition that some text of a span matches: a name, a key or a value."""
    if dialect.name == "sqlite":
        inner = compare(dialect, "j.value", clause.operator, clause.value)
        source, also = "json_tree(s.data) j", "j.type = 'text'"
    else:
        inner = compare(dialect, "(j #>> '{}')", clause.operator, clause.value)
        source = "jsonb_path_query(s.data::jsonb, 'strict $.**') j"
        also = "jsonb_typeof(j) = 'string'"
    return Fragment(f"EXISTS (SELECT 1 FROM {source} WHERE {also} AND {inner.sql})", inner.params)


def _on_span(dialect: Dialect, clause: Clause) -> Fragment:
    """Return the condition on one span, which is kept as JSON."""
    name, is_lite = clause.key.name, dialect.name == "sqlite"
    if name == "content":
        return _in_text(dialect, clause)
    if name == "name":
        column = "json_extract(s.data, '$.name')" if is_lite else "(s.data::jsonb->>'name')"
        return compare(dialect, column, clause.operator, clause.value)
    if name == "status":
        code = "json_extract(s.data, '$.status.code')"
        column = code if is_lite else "(s.data::jsonb->'status'->>'code')"
        return compare(dialect, column, clause.operator, _state(clause.value))
    key = _SPAN_TYPE if name == "type" else name.removeprefix("attributes.")
    if not key or (key == name and name != "type"):
        raise InvalidInput(
            f"Invalid span attribute '{name[:80]}'. Supported attributes: name, status, type,"
            " content, attributes.<attribute_name>."
        )
    # MLflow's clients write each value as JSON text: strings stand in quotes.
    if is_lite:
        inner = compare(
            dialect,
            "trim(json_extract(a.value, '$.value.string_value'), '\"')",
            clause.operator,
            clause.value,
        )
        sql = (
            "EXISTS (SELECT 1 FROM json_each(s.data, '$.attributes') a"
            f" WHERE json_extract(a.value, '$.key') = ? AND {inner.sql})"
        )
    else:
        inner = compare(
            dialect,
            "trim(both '\"' from a->'value'->>'string_value')",
            clause.operator,
            clause.value,
        )
        sql = (
            "EXISTS (SELECT 1 FROM jsonb_array_elements(s.data::jsonb->'attributes') a"
            f" WHERE a->>'key' = ? AND {inner.sql})"
        )
    return Fragment(sql, (key, *inner.params))


def _state(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(_SPAN_STATES.get(str(one).upper(), str(one)) for one in value)
    return _SPAN_STATES.get(str(value).upper(), value)
