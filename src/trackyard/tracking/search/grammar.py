"""Reads a filter or order text into a tree. Pure: knows neither tables nor SQL.

    filter     := either
    either     := all ("OR" all)*
    all        := one ("AND" one)*
    one        := "NOT" one | "(" either ")" | comparison
    comparison := key operator value | key ["NOT"] "IN" "(" string ("," string)* ")"
                | key "IS" ["NOT"] "NULL"
    key        := [entity "."] name | ("min" | "max") "(" key ")"
    order      := key ["ASC" | "DESC"]

Which keys exist, with which operators and types of value, is said by a `Language`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from trackyard.core.errors import InvalidInput
from trackyard.tracking.search.language import (
    LISTS,
    NULLS,
    Aggregate,
    Entity,
    Field,
    Language,
    Operator,
    Type,
)
from trackyard.tracking.search.lexer import SearchToken, TokenKind, check_text, snippet, tokens

CLAUSE_LIMIT = 64
DEPTH_LIMIT = 32
#: Each key may cost a join, and SQLite joins at most 64 tables.
ORDER_LIMIT = 32
_INT64 = 2**63

Value: TypeAlias = str | int | float | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Key:
    """What is compared or sorted by: an attribute, or a named metric, parameter or tag."""

    entity: Entity
    name: str
    #: which of a metric's values: the latest, or the least or most it ever had
    aggregate: Aggregate = "latest"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: a key, an operator and a value of the key's type."""

    key: Key
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class All:
    """Holds when every part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Holds when any part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Holds when its part does not."""

    part: Expression


Expression: TypeAlias = Clause | All | Either | Not


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key to sort by."""

    key: Key
    ascending: bool = True


def parse_filter(text: str | None, language: Language) -> Expression | None:
    """Return the tree of a filter text, or None when it says nothing."""
    if not text:
        return None
    check_text(text, "filter string")
    parser = _Parser(tokens(text, "filter string"), language, "filter string")
    if parser.stands(TokenKind.END):
        return None
    expression = parser.either(0)
    if not parser.stands(TokenKind.END):
        parser.refuse("AND, OR or the end of the filter")
    return expression


def parse_order(texts: Sequence[str] | None, language: Language) -> tuple[SortKey, ...]:
    """Return the keys to sort by; a key named twice is an error."""
    if not texts:
        return ()
    if len(texts) > ORDER_LIMIT:
        raise InvalidInput(f"`order_by` has {len(texts)} keys; at most {ORDER_LIMIT} are taken")
    orders: list[SortKey] = []
    seen: set[Key] = set()
    for text in texts:
        order = _parse_one_order(text, language)
        if order.key in seen:
            raise InvalidInput(
                f"`order_by` contains duplicate fields: {snippet(str(list(texts)))}"
            )
        seen.add(order.key)
        orders.append(order)
    return tuple(orders)


def _parse_one_order(text: str, language: Language) -> SortKey:
    check_text(text, "order_by clause")
    parser = _Parser(tokens(text, "order_by clause"), language, "order_by clause")
    if not parser.stands(TokenKind.KEY):
        raise InvalidInput(
            f"Invalid order_by clause {snippet(text)!r}. Could not be parsed."
            " Expected a key such as `metrics.loss DESC`"
        )
    key, _ = parser.key(ordering=True)
    ascending = True
    if parser.stands(TokenKind.KEY):
        word = parser.token.text.upper()
        if word not in ("ASC", "DESC"):
            raise InvalidInput(
                f"Invalid ordering key in order_by clause {snippet(text)!r}: expected ASC or DESC"
                f" at position {parser.token.at}, found {snippet(parser.token.text)!r}"
            )
        ascending = word == "ASC"
        parser.step()
    if not parser.stands(TokenKind.END):
        raise InvalidInput(
            f"Invalid order_by clause {snippet(text)!r}. Could not be parsed:"
            f" expected its end at position {parser.token.at},"
            f" found {snippet(parser.token.text)!r}"
        )
    return SortKey(key, ascending)


class _Parser:
    """Walks the tokens once, by the rules at the head of this module."""

    def __init__(self, found: list[SearchToken], language: Language, what: str) -> None:
        self._tokens = found
        self._next = 0
        self._clauses = 0
        self._language = language
        self._what = what
        self.token = found[0]

    def stands(self, kind: TokenKind) -> bool:
        """Tell whether the next token is of this kind."""
        return self.token.kind is kind

    def step(self) -> SearchToken:
        """Move on, and return the token left behind."""
        left = self.token
        if left.kind is not TokenKind.END:
            self._next += 1
            self.token = self._tokens[self._next]
        return left

    def refuse(self, expected: str) -> NoReturn:
        """Say where the text stops making sense and what would."""
        token = self.token
        if token.kind is TokenKind.END:
            found = "it ends"
            clause = ""
        else:
            found = f"there is {snippet(token.text)!r}"
            clause = f" {snippet(token.text)!r}"
        raise InvalidInput(
            f"Invalid clause(s) in {self._what}:{clause} at position {token.at}."
            f" Expected {expected}, but {found}"
        )

    # -- AND, OR, NOT, brackets --------------------------------------------------------------

    def either(self, depth: int) -> Expression:
        parts = [self._all(depth)]
        while self._take("OR"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _all(self, depth: int) -> Expression:
        parts = [self._one(depth)]
        while self._take("AND"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self, depth: int) -> Expression:
        if depth > DEPTH_LIMIT:
            raise InvalidInput(
                f"Invalid {self._what}: brackets and NOT are nested deeper than {DEPTH_LIMIT}"
                f" at position {self.token.at}"
            )
        if self._take("NOT"):
            return Not(self._one(depth + 1))
        if self._is("("):
            self.step()
            inner = self.either(depth + 1)
            self._need(")")
            return inner
        return self._comparison()

    # -- comparisons -------------------------------------------------------------------------

    def _comparison(self) -> Clause:
        if self.token.kind is not TokenKind.KEY:
            self.refuse("a key such as metrics.loss, params.`batch size` or status")
        self._clauses += 1
        if self._clauses > CLAUSE_LIMIT:
            raise InvalidInput(
                f"Invalid {self._what}: more than {CLAUSE_LIMIT} clauses"
                f" at position {self.token.at}"
            )
        key, field = self.key(ordering=False)
        operator = self._operator(key, field)
        return Clause(key, operator, self._value(key, field, operator))

    def key(self, *, ordering: bool) -> tuple[Key, Field]:
        """Read a key and look up what may be done with it."""
        token = self.step()
        aggregate: Aggregate = "latest"
        if self._is("(") and not token.quote and token.text.lower() in ("min", "max"):
            if not self._language.aggregates:
                self.refuse("an operator")
            aggregate = "min" if token.text.lower() == "min" else "max"
            self.step()
            if self.token.kind is not TokenKind.KEY:
                self.refuse("a metric, as in max(metrics.accuracy)")
            token = self.step()
            self._need(")")
        entity = self._entity(token)
        if aggregate != "latest" and entity != "metric":
            raise InvalidInput(
                f"Invalid {self._what}: {aggregate}() takes a metric, not {snippet(token.text)!r}"
                f" at position {token.at}"
            )
        keys = (self._language.orders if ordering else self._language.filters).get(entity)
        if keys is None:
            raise InvalidInput(
                f"Invalid order_by entity: {entity} at position {token.at};"
                f" {self._language.name} cannot be sorted by it"
            )
        field = keys.get(token.value) or keys.get("*")
        if field is None or not token.value:
            names = sorted(name for name, known in keys.items() if not known.name)
            valid = ", ".join(names).replace("*", "any name")
            raise InvalidInput(
                f"Invalid {entity} key '{snippet(token.value)}' specified at position {token.at}."
                f" Valid keys are '{valid}'"
            )
        return Key(entity, field.name or token.value, aggregate), field

    def _entity(self, token: SearchToken) -> Entity:
        if token.entity is None:
            return "attribute"
        entity = self._language.entities.get(token.entity)
        if entity is None:
            valid = ", ".join(sorted(set(self._language.entities.values())))
            raise InvalidInput(
                f"Invalid entity type '{snippet(token.entity)}' at position {token.at}."
                f" Valid values are {valid}; a name that holds other characters than letters,"
                " digits and _ . - / goes in backticks after its entity"
            )
        return entity

    def _operator(self, key: Key, field: Field) -> Operator:
        at = self.token.at
        word = self._operator_word()
        if word in NULLS and word not in field.operators:
            raise InvalidInput(
                f"Invalid comparator '{word}' at position {at}: IS NULL / IS NOT NULL is only"
                f" supported for {self._language.nulls}, not for '{key.entity}' '{key.name}'"
            )
        if word in LISTS and word not in field.operators and field.type == "text":
            raise InvalidInput(
                f"Invalid comparator '{word}' at position {at}: only {self._language.lists}"
                " support comparison with a list of quoted string values; combine clauses with OR"
            )
        for operator in field.operators:
            if operator == word:
                return operator
        raise InvalidInput(
            f"Invalid comparator '{word}' at position {at} not one of"
            f" '{', '.join(field.operators)}' for {key.entity} '{snippet(key.name)}'"
        )

    def _operator_word(self) -> str:
        if self.token.kind is TokenKind.OPERATOR:
            return self.step().text
        if self._take("IS"):
            negated = self._take("NOT")
            if not self._take("NULL"):
                self.refuse("NULL")
            return "IS NOT NULL" if negated else "IS NULL"
        if self._take("NOT"):
            if not self._take("IN"):
                self.refuse("IN after NOT")
            return "NOT IN"
        word = self.token.text.upper()
        if self.token.kind is not TokenKind.KEY or self.token.quote or word in ("AND", "OR"):
            self.refuse("an operator (=, !=, <, LIKE, ...)")
        self.step()
        return word

    def _value(self, key: Key, field: Field, operator: Operator) -> Value:
        if operator in NULLS:
            return None
        if operator in LISTS:
            return self._list()
        if field.type == "text":
            return self._text(key)
        return self._number(key, field.type)

    def _text(self, key: Key) -> str:
        token = self.step()
        if token.kind is TokenKind.STRING:
            return token.value
        if token.kind is TokenKind.KEY and token.quote == '"' and token.entity is None:
            return token.value
        if token.kind is TokenKind.KEY:
            raise InvalidInput(
                "Parameter value is either not quoted or unidentified quote types used for string"
                f" value {snippet(token.text)} at position {token.at}."
                " Use either single or double quotes."
            )
        raise InvalidInput(
            f"Expected a quoted string value for {_noun(key)} (e.g. 'my-value')"
            f" at position {token.at}. Got value {snippet(token.text) or 'nothing'}"
        )

    def _number(self, key: Key, kind: Type) -> int | float:
        token = self.step()
        what = "metric" if key.entity == "metric" else f"numeric attribute: {key.name}"
        if token.kind is not TokenKind.NUMBER:
            raise InvalidInput(
                f"Expected numeric value type for {what} at position {token.at}."
                f" Found {snippet(token.text) or 'nothing'}"
            )
        number = float(token.text)
        if kind == "number":
            return number
        is_whole = token.text.lstrip("+-").isdigit()
        if (kind == "whole" and not is_whole) or not -_INT64 < number < _INT64:
            raise InvalidInput(
                f"Invalid value for numeric attribute '{key.name}': '{snippet(token.text)}'"
                f" at position {token.at}; a whole number of 64 bits is expected"
            )
        return int(token.text) if is_whole and len(token.text) < 30 else number

    def _list(self) -> tuple[str, ...]:
        lead = "While parsing a list in the query, expected a non-empty list of string values, but"
        if not self._is("("):
            raise InvalidInput(
                f"{lead} got ill-formed list at position {self.token.at}:"
                f" {snippet(self.token.text) or 'the end'!r} where ( is expected"
            )
        self.step()
        if self._is(")"):
            raise InvalidInput(f"{lead} got empty list at position {self.token.at}")
        values: list[str] = []
        while True:
            token = self.step()
            if token.kind is not TokenKind.STRING and not (
                token.quote == '"' and token.entity is None
            ):
                raise InvalidInput(
                    "While parsing a list in the query, expected string value, punctuation, or"
                    f" whitespace, but got different type in list: {snippet(token.text)!r}"
                    f" at position {token.at}"
                )
            values.append(token.value)
            comma = self._is(",")
            if comma:
                self.step()
            if self._is(")"):
                self.step()
                return tuple(values)
            if not comma:
                raise InvalidInput(
                    f"{lead} got ill-formed list at position {self.token.at}: expected , or )"
                )

    # -- single tokens -----------------------------------------------------------------------

    def _is(self, mark: str) -> bool:
        return self.token.kind is TokenKind.PUNCTUATION and self.token.text == mark

    def _need(self, mark: str) -> None:
        if not self._is(mark):
            self.refuse(f"{mark!r}")
        self.step()

    def _take(self, word: str) -> bool:
        """Step over a keyword, in any case, if it stands here."""
        token = self.token
        if token.kind is not TokenKind.KEY or token.quote or token.text.upper() != word:
            return False
        self.step()
        return True


def _noun(key: Key) -> str:
    if key.entity == "attribute":
        return "attributes"
    if key.entity == "dataset":
        return "dataset attributes"
    return key.entity
