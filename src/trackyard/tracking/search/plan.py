"""Decides where a search starts: at the runs, at an ordered index, or at one clause.

SQLite keeps no statistics here, and those of PostgreSQL do not tell one name's values from
another's. So a few hundred runs are looked at first and the cheapest start is reckoned from them.
Owns the reckoning; builds no final query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trackyard.store.database import ReadConnection
from trackyard.tracking.search.grammar import Clause
from trackyard.tracking.search.sql import Fragment, join
from trackyard.tracking.search.values import Lookup, is_indexed

#: Below this many runs in scope nothing is worth planning.
SMALL = 2000
#: Newest runs looked at, and ids spread over all runs.
SAMPLE = 200
SPREAD = 64
#: What reading the next entry of an index costs, in look-ups by key.
STEP = 0.15
#: What a look-up costs when the last one was not nearby, and what sorting a row costs.
FAR = 2.0
SORT = 1.0

#: A clause by its place among the leaves, or one of the two fixed starts.
Start = int | Literal["runs", "order"]
#: The index that has the rows as they are wanted: an experiment's runs by their start, the team's
#: runs by their start, or a metric's values.
IndexOrder = Literal["runs", "team", "value"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A clause on a named value that every result must meet."""

    lookup: Lookup
    clause: Clause


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The runs that are searched, as conditions on `r`."""

    team_id: int
    experiment_ids: tuple[int, ...]

    def experiments(self, dialect_name: str) -> Fragment:
        """Return the condition to be in one of the experiments."""
        ids = self.experiment_ids
        if len(ids) == 1:
            return Fragment("r.experiment_id = ?", ids)
        if len(ids) <= 500:
            return Fragment(f"r.experiment_id IN ({', '.join('?' * len(ids))})", ids)
        if dialect_name == "sqlite":
            text = f"[{','.join(map(str, ids))}]"
            return Fragment("r.experiment_id IN (SELECT value FROM json_each(?))", (text,))
        return Fragment("r.experiment_id = ANY(?)", (list(ids),))


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """What a search would meet: sizes, and the share of runs that each condition lets through."""

    #: runs in scope, and runs of all teams together
    runs: float
    total: float
    #: share that meets each leaf, and all other conditions together
    leaves: tuple[float, ...]
    others: float

    @property
    def scope(self) -> float:
        """Return the share of all runs that is in scope."""
        return max(self.runs / self.total, 1e-6)


def is_small(reader: ReadConnection, scope: SearchScope) -> bool:
    """Tell whether so few runs are in scope that they may as well all be read."""
    where = scope.experiments(reader.dialect.name)
    row = reader.one(
        f"SELECT COUNT(*) FROM (SELECT 1 FROM runs r WHERE {where.sql} LIMIT ?) found",
        (*where.params, SMALL + 1),
    )
    return row is None or row[0] <= SMALL


def look(
    reader: ReadConnection, scope: SearchScope, leaves: Sequence[Leaf], others: Fragment
) -> SearchFigures:
    """Look at a sample of the runs."""
    row = reader.one("SELECT MAX(id) FROM runs")
    total = float(row[0] or 1) if row else 1.0
    shares = _shares(reader, scope, leaves, others)
    return SearchFigures(
        runs=total * _share_in_scope(reader, scope, int(total)),
        total=total,
        leaves=tuple(shares[1:]),
        others=shares[0],
    )


def choose(
    figures: SearchFigures,
    leaves: Sequence[Leaf],
    *,
    wanted: int,
    folded: Sequence[int] = (),
    order: IndexOrder | None = None,
    keys: int = 0,
) -> Start:
    """Return the cheapest start.

    `folded` leaves are ranges of the index that has the order; `keys` is how many values each
    match is looked up for to be sorted.
    """
    scope = figures.scope * figures.others
    matching = max(scope * math.prod(figures.leaves), 1e-9)
    found = figures.total * matching * (SORT + keys)
    steps = 1 + _chain(figures.leaves)
    costs: dict[Start, float] = {"runs": figures.runs * steps + found}
    if order == "runs":
        costs["order"] = min(figures.runs, wanted * figures.scope / matching) * steps
    elif order == "team":
        costs["order"] = min(figures.total, wanted / matching) * steps
    elif order == "value":
        free = [share for at, share in enumerate(figures.leaves) if at not in folded]
        entries = figures.total * math.prod(figures.leaves[at] for at in folded)
        visited = min(entries, wanted / max(scope * math.prod(free), 1e-9))
        costs["order"] = visited * (STEP + FAR * _chain([*free, scope]))
    for place, leaf in enumerate(leaves):
        rest = [share for at, share in enumerate(figures.leaves) if at != place]
        reached = figures.total * figures.leaves[place]
        work = reached * _chain([*rest, scope])
        if is_range(leaf):
            costs[place] = reached * STEP + FAR * (work + found)
        elif is_indexed(leaf.clause):
            costs[place] = figures.total * STEP + work + found
    return min(costs, key=lambda start: costs[start])


def is_range(leaf: Leaf) -> bool:
    """Tell whether the index of latest metric values holds the rows of a clause side by side."""
    return leaf.lookup.is_number and leaf.lookup.column == "value" and leaf.clause.operator != "!="


def _chain(shares: Sequence[float]) -> float:
    """Return how many look-ups a row costs when each goes on only if the last one held."""
    cost, reached = 0.0, 1.0
    for share in sorted(shares):
        cost += reached
        reached *= share
    return cost


def _shares(
    reader: ReadConnection, scope: SearchScope, leaves: Sequence[Leaf], others: Fragment
) -> list[float]:
    conditions = [others, *(exists(reader, leaf) for leaf in leaves)]
    sums = ", ".join(f"SUM(CASE WHEN {found.sql} THEN 1 ELSE 0 END)" for found in conditions)
    # One experiment's newest runs, or the team's newest where there are several: both are indexed.
    within = Fragment("r.team_id = ?", (scope.team_id,))
    if len(scope.experiment_ids) == 1:
        within = scope.experiments(reader.dialect.name)
    row = reader.one(
        f"SELECT COUNT(*), {sums} FROM (SELECT * FROM runs r WHERE {within.sql}"
        " ORDER BY r.start_ms DESC LIMIT ?) r",
        (*(value for found in conditions for value in found.params), *within.params, SAMPLE),
    )
    if row is None or not row[0]:
        return [1.0] * len(conditions)
    return [max(float(found or 0), 0.5) / row[0] for found in row[1:]]


def _share_in_scope(reader: ReadConnection, scope: SearchScope, total: int) -> float:
    ids = sorted({1 + total * step // SPREAD for step in range(SPREAD)})
    marks = ", ".join("?" * len(ids))
    where = scope.experiments(reader.dialect.name)
    # The plus sign keeps databases from the experiments' index, which would be read to the end.
    row = reader.one(
        f"SELECT COUNT(*) FROM runs r WHERE r.id IN ({marks}) AND +{where.sql}",
        (*ids, *where.params),
    )
    return max(float(row[0]) if row else 0.0, 0.5) / len(ids)


def exists(reader: ReadConnection, leaf: Leaf) -> Fragment:
    """Return a leaf as a condition on a run `r`."""
    found = join(
        "AND",
        [
            Fragment("x.run_id = r.id"),
            leaf.lookup.row("x"),
            leaf.lookup.holds(reader.dialect, "x", leaf.clause),
        ],
    )
    sql = f"EXISTS (SELECT 1 FROM {leaf.lookup.table} x WHERE {found.sql})"
    return Fragment(sql, found.params)
