"""Turns a parsed filter into a condition for SQLite or PostgreSQL. Owns how values compare.

Knows no table by name: the caller says where each key lies. User text only ever travels as a
parameter. Every condition made here is true or false, never NULL, so NOT means what it says: a
key that is absent fails each comparison but IS NULL, and a NaN satisfies `!=` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trackyard.store.connection import Dialect
from trackyard.tracking.search.grammar import All, Clause, Expression, Key, Not, Value
from trackyard.tracking.search.language import Entity, Operator

_GLOB = str.maketrans({"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"})


class Fragment(NamedTuple):
    """A piece of SQL with the values of its placeholders."""

    sql: str
    params: tuple[Any, ...] = ()


#: Conditions that hold for every row and for none.
ALWAYS = Fragment("1 = 1")
NEVER = Fragment("1 = 0")


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute that lies in the row itself."""

    sql: str
    nullable: bool = False
    #: turns the text of a filter into what the column holds
    convert: Callable[[str], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Named values in a table of their own: tags, parameters, metrics."""

    table: str
    #: the column that points at the thing searched for, and the thing's own id in the outer query
    owner: str
    parent: str
    key: str = "key"
    value: str = "value"
    #: numbers hold NULL for NaN
    is_number: bool = False
    #: the stored form of a key, or None when nothing can have it
    key_of: Callable[[str], Any] | None = None
    #: further condition on the row, whose alias is `x`
    also: Fragment | None = None
    #: the value that `=` and `!=` see where a key has no row
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchColumns:
    """Where the keys of a language lie."""

    attributes: Mapping[str, Column]
    rows: Mapping[Entity, Rows] = field(default_factory=dict)
    #: in place of `rows`, where the rows depend on more than the entity
    rows_of: Callable[[Key], Rows] | None = None
    #: compiles comparisons that fit neither
    special: Mapping[Entity, Callable[[Clause], Fragment]] = field(default_factory=dict)


def compile_where(
    dialect: Dialect, expression: Expression | None, columns: SearchColumns
) -> Fragment:
    """Return the condition a filter stands for."""
    if expression is None:
        return ALWAYS
    if isinstance(expression, Clause):
        return compile_comparison(dialect, expression, columns)
    if isinstance(expression, Not):
        inner = compile_where(dialect, expression.part, columns)
        return Fragment(f"NOT ({inner.sql})", inner.params)
    word = "AND" if isinstance(expression, All) else "OR"
    return join(word, (compile_where(dialect, part, columns) for part in expression.parts))


def join(word: str, parts: Iterable[Fragment]) -> Fragment:
    """Join conditions with AND or OR."""
    found = list(parts)
    if not found:
        return ALWAYS if word == "AND" else NEVER
    if len(found) == 1:
        return found[0]
    sql = f" {word} ".join(f"({part.sql})" for part in found)
    return Fragment(sql, tuple(value for part in found for value in part.params))


def conjuncts(expression: Expression | None) -> list[Expression]:
    """Return the parts that must all hold."""
    if expression is None:
        return []
    if isinstance(expression, All):
        return [leaf for part in expression.parts for leaf in conjuncts(part)]
    return [expression]


def compile_comparison(dialect: Dialect, clause: Clause, columns: SearchColumns) -> Fragment:
    """Return the condition of one clause."""
    special = columns.special.get(clause.key.entity)
    if special is not None:
        return special(clause)
    if clause.key.entity == "attribute":
        column = columns.attributes[clause.key.name]
        value = _converted(clause.value, column.convert)
        found = compare(dialect, column.sql, clause.operator, value)
        if column.nullable:
            return Fragment(f"{column.sql} IS NOT NULL AND {found.sql}", found.params)
        return found
    of = columns.rows_of
    return _in_rows(dialect, clause, of(clause.key) if of else columns.rows[clause.key.entity])


def compare(dialect: Dialect, column: str, operator: Operator, value: Value) -> Fragment:
    """Return a comparison of a column with a value."""
    if isinstance(value, tuple):
        marks = ", ".join("?" * len(value))
        return Fragment(f"{column} {operator} ({marks})", value)
    if operator == "LIKE" and dialect.name == "sqlite":
        # GLOB is LIKE with other wildcards, but minds case, as LIKE does elsewhere.
        return Fragment(f"{column} GLOB ?", (str(value).translate(_GLOB),))
    if operator in ("LIKE", "ILIKE"):
        return Fragment(dialect.like(column, any_case=operator == "ILIKE"), (value,))
    return Fragment(f"{column} {'<>' if operator == '!=' else operator} ?", (value,))


def compare_value(dialect: Dialect, column: str, clause: Clause, rows: Rows) -> Fragment:
    """Return the condition a row's value must meet, in which NaN differs from every number."""
    if clause.operator in ("IS NULL", "IS NOT NULL"):
        return ALWAYS
    found = compare(dialect, column, clause.operator, clause.value)
    if rows.is_number and clause.operator == "!=":
        return Fragment(f"({column} IS NULL OR {found.sql})", found.params)
    if rows.is_number:
        return Fragment(f"({column} IS NOT NULL AND {found.sql})", found.params)
    return found


def _in_rows(dialect: Dialect, clause: Clause, rows: Rows) -> Fragment:
    name = clause.key.name
    key = rows.key_of(name) if rows.key_of else name
    if key is None:
        return ALWAYS if clause.operator == "IS NULL" else NEVER
    value = compare_value(dialect, f"x.{rows.value}", clause, rows)
    conditions = [
        Fragment(f"x.{rows.owner} = {rows.parent}"),
        Fragment(f"x.{rows.key} = ?", (key,)),
        *([value] if value is not ALWAYS else []),
        *([rows.also] if rows.also else []),
    ]
    inside = join("AND", conditions)
    word = "NOT EXISTS" if clause.operator == "IS NULL" else "EXISTS"
    # With an OFFSET, PostgreSQL looks rows up by key and never reads a whole name's into a table.
    fence = " OFFSET 0" if dialect.name == "postgresql" else ""
    found = Fragment(
        f"{word} (SELECT 1 FROM {rows.table} x WHERE {inside.sql}{fence})", inside.params
    )
    default = rows.absent.get(name)
    if default is None or not _default_holds(default, clause):
        return found
    missing = (
        f"NOT EXISTS (SELECT 1 FROM {rows.table} x"
        f" WHERE x.{rows.owner} = {rows.parent} AND x.{rows.key} = ?)"
    )
    return Fragment(f"({found.sql} OR {missing})", (*found.params, key))


def _default_holds(default: str, clause: Clause) -> bool:
    if clause.operator == "=":
        return clause.value == default
    return clause.operator == "!=" and clause.value != default


def _converted(value: Value, convert: Callable[[str], Any] | None) -> Any:
    if convert is None:
        return value
    if isinstance(value, tuple):
        return tuple(convert(one) for one in value)
    return convert(str(value))
