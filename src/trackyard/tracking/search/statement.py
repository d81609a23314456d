"""Writes the SQL of a run search, for a given start, and runs it. Decides nothing.

Rows come back as an id and one value per sort term. In index order the first key is taken in
stages, so that the index hands out rows one by one: runs that have the value, then those where it
is NaN, then those that lack it. Otherwise everything is sorted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trackyard.store.database import ReadConnection
from trackyard.tracking.search.grammar import SortKey
from trackyard.tracking.search.paging import Term, after, order_by
from trackyard.tracking.search.plan import IndexOrder, Leaf, SearchScope, Start
from trackyard.tracking.search.sql import ALWAYS, Fragment, join
from trackyard.tracking.search.values import Lookup, is_indexed, short


@dataclass(frozen=True, slots=True)
class Sorted:
    """An order with its sort terms, and the row it looks up, if it is a named value's."""

    order: SortKey
    terms: tuple[Term, ...]
    alias: str = ""
    lookup: Lookup | None = None

    @property
    def is_start_time(self) -> bool:
        """Tell whether runs are sorted by their start, as an index has them."""
        return self.order.key.entity == "attribute" and self.order.key.name == "start_time"

    @property
    def is_latest_metric(self) -> bool:
        """Tell whether runs are sorted by a metric's latest value, as an index has them."""
        lookup = self.lookup
        return lookup is not None and lookup.is_number and lookup.column == "value"

    @property
    def stages(self) -> int:
        """Return in how many stages the index gives all runs."""
        return 3 if self.lookup is not None else 2


@dataclass(frozen=True, slots=True)
class _Part:
    """A table of the query: the condition on its rows, and the share of runs it lets through."""

    table: str
    alias: str
    where: Fragment
    share: float

    @property
    def run(self) -> str:
        return "r.id" if self.alias == "r" else f"{self.alias}.run_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """All that a search asks for, taken apart."""

    reader: ReadConnection
    scope: SearchScope
    leaves: tuple[Leaf, ...]
    others: Fragment
    orders: tuple[Sorted, ...]
    #: whether more is asked than to be in scope and in view
    is_filtered: bool
    #: estimated share of runs that meets each leaf, where something is known
    shares: tuple[float, ...] = ()
    #: whether PostgreSQL, too, must go the way that was chosen
    is_fixed: bool = False

    @property
    def order_index(self) -> IndexOrder | None:
        """Return which index has the runs in the order that is wanted."""
        first = self.orders[0]
        if first.is_latest_metric:
            return "value"
        if first.is_start_time:
            return "runs" if len(self.scope.experiment_ids) == 1 else "team"
        return None

    @property
    def terms(self) -> list[Term]:
        """Return what rows are sorted by; a page token holds one value for each."""
        return [term for one in self.orders for term in one.terms]

    def sort(self, start: Start, since: Sequence[Any] | None, wanted: int) -> list[Any]:
        """Return rows after a place, sorted at once."""
        parts = [self._runs(ALWAYS), *self._leaf_parts((), start)]
        terms = self.terms
        return self._all(
            self._begin(parts, start),
            self.orders,
            names=[term.sql for term in terms],
            terms=terms,
            since=ALWAYS if since is None else after(self.reader.dialect, terms, since),
            wanted=wanted,
        )

    def stage(
        self, number: int, start: Start, since: Sequence[Any] | None, wanted: int
    ) -> list[Any]:
        """Return rows of one stage after a place in it, as an index has them."""
        first, rest = self.orders[0], self.orders[1:]
        folded = self.folded if first.lookup is not None else ()
        parts = self._leaf_parts(folded if number < 2 else ())
        if first.lookup is None:
            parts.insert(0, self._runs(Fragment(f"r.start_ms IS {'NOT ' * (number == 0)}NULL")))
        elif number < 2:
            parts = [self._runs(ALWAYS), self._first(number, folded), *parts]
        elif folded:
            return []
        else:
            parts.insert(0, self._runs(_lacks(first.lookup)))
        terms = [term for one in rest for term in one.terms]
        names = [str(number), "0", *(term.sql for term in terms)]
        values = None if since is None else since[2:]
        if number == 0:
            value = Term(_value(first), first.order.ascending, first.terms[1].kind)
            names[1], terms = value.sql, [value, *terms]
            values = None if since is None else since[1:]
        return self._all(
            self._begin(parts, start if number < 2 else "runs"),
            rest,
            names=names,
            terms=terms,
            since=ALWAYS if values is None else after(self.reader.dialect, terms, values),
            wanted=wanted,
        )

    @property
    def folded(self) -> tuple[int, ...]:
        """Return the leaves on the very value that comes first in the order."""
        first = self.orders[0].lookup
        return tuple(at for at, leaf in enumerate(self.leaves) if leaf.lookup == first)

    # -- parts -------------------------------------------------------------------------------

    def _runs(self, more: Fragment) -> _Part:
        """Return the runs themselves, reached by the index that fits."""
        name = self.reader.dialect.name
        experiments = self.scope.experiments(name)
        team = Fragment("r.team_id = ?", (self.scope.team_id,))
        if name == "sqlite":
            # A plus sign keeps SQLite from the index of that column.
            by_team = len(self.scope.experiment_ids) > 1 and "start_ms" in more.sql
            if by_team:
                experiments = Fragment(f"+{experiments.sql}", experiments.params)
            else:
                team = Fragment(f"+{team.sql}", team.params)
        conditions = [experiments, team, self.others, more]
        where = join("AND", [one for one in conditions if one is not ALWAYS])
        return _Part("runs", "r", where, 0.5)

    def _leaf_parts(self, without: Sequence[int], start: Start = "runs") -> list[_Part]:
        places = [at for at in range(len(self.leaves)) if at not in without]
        return [self._leaf(at, is_start=at == start) for at in places]

    def _leaf(self, at: int, *, is_start: bool) -> _Part:
        leaf, alias = self.leaves[at], f"f{at}"
        holds = leaf.lookup.holds(self.reader.dialect, alias, leaf.clause)
        conditions = [leaf.lookup.row(alias), *([holds] if holds is not ALWAYS else [])]
        # The index of short values is for the start: for one run, the table itself is nearer.
        if is_start and is_indexed(leaf.clause):
            conditions.append(short(alias))
        share = self.shares[at] if self.shares else 0.4
        return _Part(leaf.lookup.table, alias, join("AND", conditions), share)

    def _first(self, number: int, folded: Sequence[int]) -> _Part:
        """Return the rows of the value that comes first in the order, with the clauses on it."""
        first = self.orders[0]
        assert first.lookup is not None
        conditions = [
            first.lookup.row(first.alias),
            Fragment(f"{_value(first)} IS {'NOT ' * (number == 0)}NULL"),
        ]
        for at in folded:
            leaf = self.leaves[at]
            conditions.append(leaf.lookup.holds(self.reader.dialect, first.alias, leaf.clause))
        return _Part(first.lookup.table, first.alias, join("AND", conditions), 0.9)

    def _begin(self, parts: list[_Part], start: Start) -> list[_Part]:
        """Put the start first and the rest in the order that drops most runs soonest."""
        alias = "r" if start == "runs" else f"f{start}"
        if start == "order":
            alias = self.orders[0].alias or "r"
        return sorted(parts, key=lambda part: (part.alias != alias, part.share))

    # -- the statement -----------------------------------------------------------------------

    def _all(
        self,
        parts: Sequence[_Part],
        orders: Sequence[Sorted],
        *,
        names: Sequence[str],
        terms: Sequence[Term],
        since: Fragment,
        wanted: int,
    ) -> list[Any]:
        head, tail = parts[0], parts[1:]
        sql = f"SELECT r.id, {', '.join(names)} FROM {head.table} {head.alias}"
        params: list[Any] = []
        for part in tail:
            link = f"{part.run} = {head.run} AND {part.where.sql}"
            sql += self._joined(part.table, part.alias, link)
            params += part.where.params
        for one in orders:
            if one.lookup is not None:
                row = one.lookup.row(one.alias)
                link = f"{one.alias}.run_id = r.id AND {row.sql}"
                sql += self._joined(one.lookup.table, one.alias, link, is_outer=True)
                params += row.params
        where = join("AND", [head.where, *([since] if since is not ALWAYS else [])])
        sql += f" WHERE {where.sql} ORDER BY {order_by(self.reader.dialect, terms)} LIMIT ?"
        return self.reader.all(sql, (*params, *where.params, wanted))

    def _joined(self, table: str, alias: str, link: str, *, is_outer: bool = False) -> str:
        """Return a join that is made in the place it stands, where that matters."""
        if self.reader.dialect.name == "sqlite":
            # SQLite keeps CROSS JOINs in the order given.
            return f" {'LEFT' if is_outer else 'CROSS'} JOIN {table} {alias} ON {link}"
        if not self.is_fixed:
            return f" {'LEFT JOIN' if is_outer else 'JOIN'} {table} {alias} ON {link}"
        # PostgreSQL does not look into a subquery with an OFFSET: it runs it for each row before.
        inner = f"(SELECT {alias}.* FROM {table} {alias} WHERE {link} OFFSET 0) {alias}"
        return f" {'LEFT' if is_outer else 'INNER'} JOIN LATERAL {inner} ON TRUE"


def _value(first: Sorted) -> str:
    """Return the column that comes first in the order, as its index has it."""
    return "r.start_ms" if first.lookup is None else f"{first.alias}.{first.lookup.column}"


def _lacks(lookup: Lookup) -> Fragment:
    row = lookup.row("x")
    sql = f"NOT EXISTS (SELECT 1 FROM {lookup.table} x WHERE x.run_id = r.id AND {row.sql})"
    return Fragment(sql, row.params)
