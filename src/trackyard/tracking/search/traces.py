"""Searching traces: where the keys of their search language lie. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trackyard.store.database import Reader
from trackyard.tracking.search.grammar import Comparison, parse_filter, parse_order
from trackyard.tracking.search.language import TRACES
from trackyard.tracking.search.paging import Term, binding, check_page_size, find_page, nulls_last
from trackyard.tracking.search.sql import (
    Column,
    Columns,
    Fragment,
    Rows,
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
}


def find_traces(
    reader: Reader,
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
    marks = ",".join("?" * len(experiments))
    where = join(
        "AND",
        [
            Fragment("t.team_id = ?", (team_id,)),
            Fragment(f"t.experiment_id IN ({marks})", tuple(experiments)),
            compile_where(reader.dialect, tree, _columns(reader)),
        ],
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


def _columns(reader: Reader) -> Columns:
    plain = Columns(
        attributes={
            name: Column(sql, nullable=name == "execution_time_ms")
            for name, (sql, _) in _PLACES.items()
        }
    )

    def attribute(clause: Comparison) -> Fragment:
        if clause.key.name != "run_id":
            return compile_comparison(reader.dialect, clause, plain)
        return Fragment(
            "EXISTS (SELECT 1 FROM trace_runs r WHERE r.trace_id = t.id AND r.run_uuid = ?)",
            (clause.value,),
        )

    def rows(table: str, **more: Fragment | str) -> Rows:
        return Rows(table=table, owner="trace_id", parent="t.id", **more)  # type: ignore[arg-type]

    return Columns(
        attributes={},
        rows={
            "tag": rows("trace_tags"),
            "metadata": rows("trace_metadata"),
            "feedback": rows("assessments", key="name", also=Fragment("x.kind = 'feedback'")),
            "expectation": rows(
                "assessments", key="name", also=Fragment("x.kind = 'expectation'")
            ),
        },
        special={"attribute": attribute},
    )
