"""Finds experiments: a filter, an order and a page, answered as inner ids. Loads no experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import EXPERIMENT_ID
from trackyard.store.database import ReadConnection
from trackyard.tracking.search.grammar import SortKey, parse_filter, parse_order
from trackyard.tracking.search.language import EXPERIMENTS
from trackyard.tracking.search.paging import Term, binding, check_page_size, find_page
from trackyard.tracking.search.sql import (
    ALWAYS,
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compile_where,
    join,
)

MAX_RESULTS = 50_000

_LIFECYCLES: dict[str, Fragment] = {
    "ACTIVE_ONLY": Fragment("e.lifecycle = ?", ("active",)),
    "DELETED_ONLY": Fragment("e.lifecycle = ?", ("deleted",)),
    "ALL": ALWAYS,
}
_TAGS = Rows(table="experiment_tags", owner="experiment_id", parent="e.id")


def find_experiments(
    reader: ReadConnection,
    *,
    team_id: int,
    default_experiment: int | None = None,
    filter: str | None = None,  # noqa: A002 - MLflow's word
    view: str = "ACTIVE_ONLY",
    order_by: Sequence[str] | None = None,
    max_results: int = 1000,
    page_token: str | None = None,
) -> tuple[list[int], str | None]:
    """Return the inner ids of a page of experiments, and the next page's token if there is one.

    `default_experiment` is the inner id behind the caller's experiment `0`.
    """
    check_page_size(max_results, MAX_RESULTS)
    lifecycle = _LIFECYCLES.get(view)
    if lifecycle is None:
        raise InvalidInput(f"Invalid view_type '{view}': one of {', '.join(_LIFECYCLES)}")
    orders = parse_order(order_by, EXPERIMENTS)
    where = compile_where(
        reader.dialect, parse_filter(filter, EXPERIMENTS), _columns(default_experiment)
    )
    team = Fragment("e.team_id = ?", (team_id,))
    found: list[Any]
    found, token = find_page(
        reader,
        key="e.id",
        source=Fragment("experiments e"),
        where=join("AND", [team, lifecycle, where]),
        terms=_terms(orders, default_experiment),
        query=binding("experiments", team_id, filter or "", view, list(order_by or ())),
        max_results=max_results,
        page_token=page_token,
    )
    return found, token


def _columns(default_experiment: int | None) -> SearchColumns:
    def inner(text: str) -> int:
        if EXPERIMENT_ID.match(text) is None:
            raise InvalidInput(f"Invalid experiment ID '{text[:80]}': an id is a number")
        number = int(text)
        if number == 0 and default_experiment is not None:
            return default_experiment
        return number

    return SearchColumns(
        attributes={
            "name": Column("e.name"),
            "experiment_id": Column("e.id", convert=inner),
            "creation_time": Column("e.created_ms"),
            "last_update_time": Column("e.updated_ms"),
        },
        rows={"tag": _TAGS},
    )


def _terms(orders: Sequence[SortKey], default_experiment: int | None) -> list[Term]:
    """Return MLflow's sort: newest first, then by id; after an order of one's own, by id down."""
    # The caller's Default is called 0, and sorts by that name.
    shown = "e.id"
    if default_experiment is not None:
        shown = f"CASE WHEN e.id = {int(default_experiment)} THEN 0 ELSE e.id END"
    by_id = Term(shown, ascending=True, kind="whole")
    if not orders:
        return [Term("e.created_ms", ascending=False, kind="whole"), by_id]
    terms: list[Term] = []
    for order in orders:
        if order.key.name == "experiment_id":
            terms.append(Term(shown, order.ascending, "whole"))
        elif order.key.name == "name":
            terms.append(Term("e.name", order.ascending, "text"))
        elif order.key.name == "creation_time":
            terms.append(Term("e.created_ms", order.ascending, "whole"))
        else:
            terms.append(Term("e.updated_ms", order.ascending, "whole"))
    if all(term.sql != shown for term in terms):
        terms.append(Term(shown, ascending=False, kind="whole"))
    return terms
