"""Where a run's keys lie in the tables: its own columns, its named values, its data sets.

Owns the map from keys to columns and the sort terms of each key; runs no query but the look-up of
names. Knows nothing of pages and plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trackyard.store.connection import Dialect
from trackyard.store.database import ReadConnection
from trackyard.tracking.names import Names
from trackyard.tracking.search.grammar import Clause, Key, SortKey
from trackyard.tracking.search.language import Aggregate
from trackyard.tracking.search.paging import Term, nulls_last
from trackyard.tracking.search.sql import (
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compare,
    compare_value,
)

#: Values up to this length are in the index that finds runs by a tag or parameter.
INDEXED_LENGTH = 200

ATTRIBUTES = {
    "run_id": Column("r.uuid"),
    "run_name": Column("r.name"),
    "status": Column("r.status"),
    "user_id": Column("r.user_name"),
    "artifact_uri": Column("r.artifact_uri"),
    "start_time": Column("r.start_ms", nullable=True),
    "end_time": Column("r.end_ms", nullable=True),
}
_TABLES = {"metric": "metric_latest", "parameter": "params", "tag": "tags"}
_AGGREGATES: dict[Aggregate, str] = {"latest": "value", "min": "least", "max": "most"}
_CONTEXT = "mlflow.data.context"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A named value of a run: one row at most in its table."""

    key: Key
    table: str
    column: str
    name_id: int

    @property
    def is_number(self) -> bool:
        """Tell whether the value is a metric's, in which NULL is NaN."""
        return self.key.entity == "metric"

    def row(self, alias: str) -> Fragment:
        """Return the condition on a row of the table to hold this name."""
        return Fragment(f"{alias}.name_id = ?", (self.name_id,))

    def holds(self, dialect: Dialect, alias: str, clause: Clause) -> Fragment:
        """Return the condition on such a row to meet a clause."""
        rows = Rows(table=self.table, owner="run_id", parent="", is_number=self.is_number)
        return compare_value(dialect, f"{alias}.{self.column}", clause, rows)

    def terms(self, alias: str, *, ascending: bool) -> tuple[Term, Term]:
        """Return the sort terms of a row that may be absent: present, NaN, absent."""
        sql = f"{alias}.{self.column}"
        if not self.is_number:
            return nulls_last(sql, ascending=ascending, kind="text")
        rank = f"CASE WHEN {alias}.run_id IS NULL THEN 2 WHEN {sql} IS NULL THEN 1 ELSE 0 END"
        value = Term(f"COALESCE({sql}, 0)", ascending, "number")
        return Term(rank, ascending=True, kind="whole"), value


def short(alias: str) -> Fragment:
    """Return the condition that opens the index of short values."""
    return Fragment(f"length({alias}.value) <= {INDEXED_LENGTH}")


def is_indexed(clause: Clause) -> bool:
    """Tell whether the short-value index finds the rows that meet a clause."""
    return (
        clause.key.entity in ("parameter", "tag")
        and clause.operator == "="
        and len(str(clause.value)) <= INDEXED_LENGTH
    )


def find_lookup(reader: ReadConnection, names: Names, key: Key) -> Lookup | None:
    """Return where a named value lies, or None when no run has the name."""
    name_id = names.find(reader, key.name)
    if name_id is None:
        return None
    return Lookup(key, _TABLES[key.entity], _AGGREGATES[key.aggregate], name_id)


def run_columns(reader: ReadConnection, names: Names) -> SearchColumns:
    """Return where all keys lie, for conditions on a run `r`."""

    def rows(key: Key) -> Rows:
        return Rows(
            table=_TABLES[key.entity],
            owner="run_id",
            parent="r.id",
            key="name_id",
            value=_AGGREGATES[key.aggregate],
            is_number=key.entity == "metric",
            key_of=lambda name: names.find(reader, name),
        )

    return SearchColumns(
        attributes=ATTRIBUTES,
        rows_of=rows,
        special={"dataset": lambda clause: _dataset(reader.dialect, clause)},
    )


def attribute_terms(order: SortKey) -> tuple[Term, ...]:
    """Return the sort terms of a run's own column."""
    column = ATTRIBUTES[order.key.name]
    kind: Literal["whole", "text"] = "whole" if column.nullable else "text"
    if column.nullable:
        return nulls_last(column.sql, ascending=order.ascending, kind=kind)
    return (Term(column.sql, order.ascending, kind),)


def complete(orders: Sequence[SortKey]) -> list[SortKey]:
    """Add MLflow's tie-breaks: newest first, then by id; nothing matters after the id."""
    start, run_id = Key("attribute", "start_time"), Key("attribute", "run_id")
    found = list(orders)
    if all(order.key != start for order in found):
        found.append(SortKey(start, ascending=False))
    if all(order.key != run_id for order in found):
        found.append(SortKey(run_id))
    last = next(place for place, order in enumerate(found) if order.key == run_id)
    return found[: last + 1]


def _dataset(dialect: Dialect, clause: Clause) -> Fragment:
    if clause.key.name != "context":
        found = compare(dialect, f"d.{clause.key.name}", clause.operator, clause.value)
        return Fragment(
            "EXISTS (SELECT 1 FROM run_datasets x JOIN datasets d ON d.id = x.dataset_id"
            f" WHERE x.run_id = r.id AND {found.sql})",
            found.params,
        )
    if dialect.name == "sqlite":
        each = "json_each(x.tags) t"
        key, value = "json_extract(t.value, '$.key')", "json_extract(t.value, '$.value')"
    else:
        each = "json_array_elements(x.tags::json) t(value)"
        key, value = "(t.value ->> 'key')", "(t.value ->> 'value')"
    found = compare(dialect, value, clause.operator, clause.value)
    return Fragment(
        f"EXISTS (SELECT 1 FROM run_datasets x, {each}"
        f" WHERE x.run_id = r.id AND {key} = ? AND {found.sql})",
        (_CONTEXT, *found.params),
    )
