"""Finds runs: a filter, an order and a page, answered as inner ids. Loads no run.

Owns the way from the text to the query and the choice how to go; the SQL is `statement`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from trackyard.core.errors import InvalidInput
from trackyard.store.database import ReadConnection
from trackyard.tracking.names import Names
from trackyard.tracking.search import plan
from trackyard.tracking.search.grammar import (
    Clause,
    Expression,
    SortKey,
    parse_filter,
    parse_order,
)
from trackyard.tracking.search.language import RUNS
from trackyard.tracking.search.paging import (
    binding,
    check_page_size,
    read_token,
    unpack,
    write_token,
)
from trackyard.tracking.search.plan import Leaf, SearchScope, Start
from trackyard.tracking.search.sql import ALWAYS, NEVER, Fragment, compile_where, conjuncts, join
from trackyard.tracking.search.statement import RunQuery, Sorted
from trackyard.tracking.search.values import attribute_terms, complete, find_lookup, run_columns

MAX_RESULTS = 50_000
#: Clauses joined as tables; further ones become conditions, for SQLite joins 64 tables at most.
JOINED = 16
#: Rows up to this number are looked up one by one.
FEW = 5_000

LIFECYCLES: dict[str, Fragment] = {
    "ACTIVE_ONLY": Fragment("r.lifecycle = ?", ("active",)),
    "DELETED_ONLY": Fragment("r.lifecycle = ?", ("deleted",)),
    "ALL": ALWAYS,
}


def find_runs(
    reader: ReadConnection,
    *,
    names: Names,
    team_id: int,
    experiment_ids: Sequence[int],
    filter: str | None = None,  # noqa: A002 - MLflow's word
    view: str = "ACTIVE_ONLY",
    order_by: Sequence[str] | None = None,
    max_results: int = 1000,
    page_token: str | None = None,
    also: Fragment | None = None,
) -> tuple[list[int], str | None]:
    """Return the inner ids of a page of runs, and the next page's token if there is one.

    `also` is a further condition on a run `r`, for callers that may see but some of them.
    """
    check_page_size(max_results, MAX_RESULTS)
    lifecycle = LIFECYCLES.get(view)
    if lifecycle is None:
        raise InvalidInput(f"Invalid run_view_type '{view}': one of {', '.join(LIFECYCLES)}")
    expression = parse_filter(filter, RUNS)
    orders = parse_order(order_by, RUNS)
    ids = tuple(sorted(set(experiment_ids)))
    name = binding("runs", team_id, ids, filter or "", view, list(order_by or ()))
    start = read_token(page_token, name)
    more = [lifecycle, also or ALWAYS]
    scope = SearchScope(team_id, ids)
    query = _query(reader, names, scope, expression, orders=orders, more=more) if ids else None
    if query is None:
        return [], None
    since = None if start is None else unpack(query.terms, start[1])
    rows = _rows(query, since, max_results + 1)
    found = [row[0] for row in rows[:max_results]]
    if len(rows) <= max_results:
        return found, None
    return found, write_token(name, 0, query.terms, rows[max_results - 1][1:])


def _query(
    reader: ReadConnection,
    names: Names,
    scope: SearchScope,
    expression: Expression | None,
    *,
    orders: Sequence[SortKey],
    more: Sequence[Fragment],
) -> RunQuery | None:
    """Take a search apart; return None when no run can meet it."""
    columns = run_columns(reader, names)
    leaves: list[Leaf] = []
    others = [part for part in more if part is not ALWAYS]
    for part in conjuncts(expression):
        leaf = _leaf(reader, names, part) if len(leaves) < JOINED else None
        if leaf is not None:
            leaves.append(leaf)
            continue
        found = compile_where(reader.dialect, part, columns)
        if found is NEVER:
            return None
        if found is not ALWAYS:
            others.append(found)
    return RunQuery(
        reader=reader,
        scope=scope,
        leaves=tuple(leaves),
        others=join("AND", others),
        orders=tuple(_sorted(reader, names, complete(orders))),
        is_filtered=expression is not None or len(others) > 1,
    )


def _leaf(reader: ReadConnection, names: Names, part: Expression) -> Leaf | None:
    """Return a clause on a named value, if that is what a part is and some run has the name."""
    if not isinstance(part, Clause) or part.operator == "IS NULL":
        return None
    if part.key.entity in ("attribute", "dataset"):
        return None
    lookup = find_lookup(reader, names, part.key)
    return None if lookup is None else Leaf(lookup, part)


def _sorted(reader: ReadConnection, names: Names, orders: Sequence[SortKey]) -> Iterator[Sorted]:
    """Yield the orders that can tell two runs apart; a name no run has cannot."""
    for place, order in enumerate(orders):
        if order.key.entity == "attribute":
            yield Sorted(order, attribute_terms(order))
            continue
        lookup = find_lookup(reader, names, order.key)
        if lookup is not None:
            terms = lookup.terms(f"o{place}", ascending=order.ascending)
            yield Sorted(order, terms, f"o{place}", lookup)


def _rows(query: RunQuery, since: list[Any] | None, wanted: int) -> list[Any]:
    """Return up to `wanted` rows after a place, by the cheapest way."""
    first = query.orders[0]
    is_plain = query.order_index == "runs" and not query.is_filtered
    if is_plain:
        start: Start = "order"
    elif plan.is_small(query.reader, query.scope):
        return replace(query, is_fixed=True).sort("runs", since, wanted)
    else:
        query, start = _planned(query, wanted)
    if start != "order":
        return query.sort(start, since, wanted)
    found: list[Any] = []
    for number in range(first.stages):
        if since is None or since[0] <= number:
            at = since if since is not None and since[0] == number else None
            found += query.stage(number, "order", at, wanted - len(found))
        if len(found) >= wanted:
            break
    return found


def _planned(query: RunQuery, wanted: int) -> tuple[RunQuery, Start]:
    """Look at some runs and decide where to start."""
    figures = plan.look(query.reader, query.scope, query.leaves, query.others)
    start = plan.choose(
        figures,
        query.leaves,
        wanted=wanted,
        folded=query.folded,
        order=query.order_index,
        keys=sum(one.lookup is not None for one in query.orders),
    )
    # Few rows are best looked up one by one; of many, PostgreSQL makes better tables itself.
    is_fixed = start == "order"
    if isinstance(start, int):
        is_fixed = figures.leaves[start] * figures.total < FEW
    return replace(query, shares=figures.leaves, is_fixed=is_fixed), start
