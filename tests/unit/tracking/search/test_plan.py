"""The planner: which start is cheapest, for figures that are clear."""

import pytest

from trackyard.tracking.search.grammar import Clause, Key
from trackyard.tracking.search.plan import Leaf, SearchFigures, SearchScope, Start, choose
from trackyard.tracking.search.values import Lookup


def on_metric(operator: str = ">") -> Leaf:
    key = Key("metric", "loss")
    clause = Clause(key, operator, 0.5)  # type: ignore[arg-type]
    return Leaf(Lookup(key, "metric_latest", "value", 1), clause)


def on_tag(value: str = "blue", operator: str = "=") -> Leaf:
    key = Key("tag", "team")
    clause = Clause(key, operator, value)  # type: ignore[arg-type]
    return Leaf(Lookup(key, "tags", "value", 2), clause)


def figures(*leaves: float, scope: float = 0.9, others: float = 1.0) -> SearchFigures:
    return SearchFigures(runs=100_000 * scope, total=100_000, leaves=leaves, others=others)


@pytest.mark.parametrize(
    ("leaves", "shares", "scope", "order", "start"),
    [
        # Most runs match: the index that has the order fills the page at once.
        ([on_metric(), on_tag()], (0.5, 0.5), 0.9, "value", "order"),
        ([on_metric(), on_tag()], (0.5, 0.5), 0.9, "runs", "order"),
        # Few match one clause: begin there.
        ([on_metric(), on_tag()], (0.001, 0.5), 0.9, "value", 0),
        ([on_metric(), on_tag()], (0.5, 0.001), 0.9, "value", 1),
        ([on_metric(), on_tag()], (0.5, 0.001), 0.9, None, 1),
        # No index knows the rare clause: `!=`, LIKE, and values too long for it.
        ([on_metric("!=")], (0.001,), 0.9, None, "runs"),
        ([on_tag("b%", "LIKE")], (0.001,), 0.9, None, "runs"),
        ([on_tag("x" * 500)], (0.001,), 0.9, None, "runs"),
        # A small part of a large database: begin with its own runs.
        ([on_metric(), on_tag()], (0.5, 0.5), 0.03, None, "runs"),
        ([on_tag()], (0.2,), 0.03, "team", "runs"),
    ],
)
def test_the_cheapest_start_is_chosen(
    leaves: list[Leaf],
    shares: tuple[float, ...],
    scope: float,
    order: str | None,
    start: Start,
) -> None:
    found = choose(figures(*shares, scope=scope), leaves, wanted=101, order=order)  # type: ignore[arg-type]
    assert found == start


def test_a_rare_range_of_the_ordered_metric_is_read_in_its_order() -> None:
    found = choose(figures(0.001), [on_metric()], wanted=101, folded=(0,), order="value")
    assert found == "order"


@pytest.mark.parametrize("count", [1, 2, 500, 501, 40_000])
def test_any_number_of_experiments_makes_a_condition(count: int) -> None:
    scope = SearchScope(1, tuple(range(count)))
    for name in ("sqlite", "postgresql"):
        found = scope.experiments(name)
        assert found.sql.count("?") == len(found.params) <= 500
