"""Sort orders and page tokens. Knows no table.

A page starts after the last row of the one before, by that row's own sort values, so rows that
come or go meanwhile neither shift nor repeat others. A token names the query it belongs to; with
another team's or another query's token the call is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.store.connection import Dialect
from trackyard.store.database import ReadConnection
from trackyard.tracking.search.sql import ALWAYS, Fragment, join

_REFUSAL = "Invalid page token: ask for the first page again, without a token"


@dataclass(frozen=True, slots=True)
class Term:
    """One expression to sort by, never NULL."""

    sql: str
    ascending: bool
    kind: Literal["text", "whole", "number"]

    def ordered(self, dialect: Dialect) -> str:
        """Return the expression in a byte order that both databases share."""
        if self.kind == "text" and dialect.name == "postgresql":
            return f'{self.sql} COLLATE "C"'
        return self.sql


def nulls_last(
    sql: str, *, ascending: bool, kind: Literal["text", "whole", "number"]
) -> tuple[Term, Term]:
    """Return the terms that sort by a nullable expression with its NULLs at the end."""
    filler = "''" if kind == "text" else "0"
    return (
        Term(f"CASE WHEN {sql} IS NULL THEN 1 ELSE 0 END", ascending=True, kind="whole"),
        Term(f"COALESCE({sql}, {filler})", ascending, kind),
    )


def order_by(dialect: Dialect, terms: Sequence[Term]) -> str:
    """Return the list that follows ORDER BY."""
    return ", ".join(
        f"{term.ordered(dialect)} {'ASC' if term.ascending else 'DESC'}" for term in terms
    )


def after(dialect: Dialect, terms: Sequence[Term], values: Sequence[Any]) -> Fragment:
    """Return the condition of coming after a row with these sort values."""
    condition = Fragment("1 = 0")
    for term, value in zip(reversed(terms), reversed(values), strict=True):
        sql, beyond = term.ordered(dialect), ">" if term.ascending else "<"
        condition = Fragment(
            f"{sql} {beyond} ? OR ({sql} = ? AND ({condition.sql}))",
            (value, value, *condition.params),
        )
    first, reach = terms[0].ordered(dialect), ">=" if terms[0].ascending else "<="
    # Said once more as a plain bound, which an index can start from.
    return join("AND", [Fragment(f"{first} {reach} ?", (values[0],)), condition])


def binding(*parts: Any) -> str:
    """Return the short name of a query, so that its tokens fit no other."""
    text = msgspec.json.encode(parts)
    return hashlib.blake2b(text, digest_size=9).hexdigest()


def write_token(query: str, stage: int, terms: Sequence[Term], values: Sequence[Any]) -> str:
    """Return the token of the page that starts after these values."""
    packed = [
        float(value).hex() if term.kind == "number" else value
        for term, value in zip(terms, values, strict=True)
    ]
    return base64.urlsafe_b64encode(msgspec.json.encode([query, stage, *packed])).decode()


def read_token(token: str | None, query: str) -> tuple[int, list[Any]] | None:
    """Return the stage and the packed values of a token, or None for the first page."""
    if not token:
        return None
    try:
        raw = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        found = msgspec.json.decode(raw, type=list[int | str])
    except (ValueError, binascii.Error, msgspec.DecodeError) as fault:
        raise InvalidInput(_REFUSAL) from fault
    if len(found) < 3 or found[0] != query or not isinstance(found[1], int):
        raise InvalidInput(f"{_REFUSAL}. This one belongs to another query")
    return found[1], list(found[2:])


def unpack(terms: Sequence[Term], packed: Sequence[Any]) -> list[Any]:
    """Return a token's values in the types of the terms they are for."""
    if len(packed) != len(terms):
        raise InvalidInput(_REFUSAL)
    return [_unpacked(term, value) for term, value in zip(terms, packed, strict=True)]


def _unpacked(term: Term, value: Any) -> Any:
    if term.kind == "whole" and isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if term.kind == "text" and isinstance(value, str) and "\0" not in value:
        return value
    if term.kind == "number" and isinstance(value, str):
        try:
            return float.fromhex(value)
        except (ValueError, OverflowError) as fault:
            raise InvalidInput(_REFUSAL) from fault
    raise InvalidInput(_REFUSAL)


def check_page_size(max_results: int, most: int) -> None:
    """Refuse a page size that is not positive or too large."""
    if not 1 <= max_results <= most:
        raise InvalidInput(
            f"Invalid value {max_results} for parameter 'max_results' supplied: it must be at"
            f" least 1 and at most {most}"
        )


def find_page(
    reader: ReadConnection,
    *,
    key: str,
    source: Fragment,
    where: Fragment,
    terms: Sequence[Term],
    query: str,
    max_results: int,
    page_token: str | None,
) -> tuple[list[Any], str | None]:
    """Return one page of `key` values in order, and the token of the next page, if there is one.

    `source` follows FROM; the last term must tell all rows apart; `query` comes from `binding`.
    """
    start = read_token(page_token, query)
    since = ALWAYS
    if start is not None:
        since = after(reader.dialect, terms, unpack(terms, start[1]))
    condition = join("AND", [where, since])
    rows = reader.all(
        f"SELECT {key}, {', '.join(term.sql for term in terms)} FROM {source.sql}"
        f" WHERE {condition.sql} ORDER BY {order_by(reader.dialect, terms)} LIMIT ?",
        (*source.params, *condition.params, max_results + 1),
    )
    found = [row[0] for row in rows[:max_results]]
    if len(rows) <= max_results:
        return found, None
    return found, write_token(query, 0, terms, rows[max_results - 1][1:])
