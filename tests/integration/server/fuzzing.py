"""Requests made from the live route table and the types its routes declare, with a seed.

Owns how odd a request may be: values of every bound and beyond, of other kinds, text that breaks
parsers, bodies that are no JSON. Knows no route.
"""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from msgspec import inspect

from trackyard.server.routing import Route

#: Text that some parser, database or page may stumble over.
ODD_TEXTS = (
    "",
    " ",
    "\u0661\u0662",
    "\u00b2",
    "\u2460",
    "a\0b",
    "\0",
    "..",
    "../../etc/passwd",
    "..\0/x",
    "/",
    "//",
    "%00",
    "%",
    "'; DROP TABLE runs; --",
    "\u202egnp.exe",
    "a\u200bb",
    "\ufeff",
    "\U0001f600" * 20,
    "e\u0301",
    "\u0430dmin",
    "NaN",
    "1e999",
    "-0",
    "9" * 40,
    "-" + "9" * 25,
    "0x10",
    "1_000",
    "true",
    "null",
    "{}",
    "[" * 50,
    "(" * 300,
    "metrics.a > 1 AND " * 40,
    "\\" * 400,
    "\u2028",
    "\r\nset-cookie: a=b",
    "a" * 255,
    "a" * 1001,
    "\u4e00" * 700,
    "a" * 25_000,
)
ODD_NUMBERS = (0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, -1e308, 1e-320)
ODD_THINGS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": {}}, "x", 7, 1.5, [None])
ODD_BODIES = (
    b"",
    b"{",
    b"}",
    b"[]",
    b"null",
    b"0",
    b'"text"',
    b'"{}"',
    b"\xff\xfe",
    b'{"a":"\xff"}',
    b'{"a":1,"a":2}',
    b'{"a":NaN}',
    b'{"a":1e999}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\u0000"}',
    b'{"name":' + b"[" * 40 + b"]" * 40 + b"}",
    b"[" * 30_000 + b"]" * 30_000,
    b'{"a":[' + b"0," * 50_000 + b"0]}",
    b"9" * 5000,
    b"a=b&c=d",
    b"<xml/>",
    b"\0" * 2000,
)
_PLACE = re.compile(r"\{[a-z_]+(?:\.\.\.)?\}")
KINDS = ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "")


@dataclass(frozen=True)
class Case:
    """One request."""

    method: str
    target: str
    body: bytes | None
    headers: tuple[tuple[str, str], ...] = ()


class Maker:
    """Makes requests of a route; the same seed makes the same ones."""

    def __init__(self, seed: int, known: Sequence[str], honest: float = 0.7) -> None:
        self._random = random.Random(seed)
        #: words that mean something on this server, so that requests come past the first check
        self._known = list(known)
        #: the part of all values that an honest caller might send
        self._honest = honest

    def case(self, route: Route) -> Case:
        """Make one request of a route."""
        path = re.sub(
            r"\{[a-z_]+(?:\.\.\.)?\}", lambda _: quote(self._word(), safe=""), route.path
        )
        fields = self._fields(route)
        in_query = route.method in ("GET", "DELETE") or self._random.random() < 0.1
        query = self._query([*route.query, *(fields if in_query else ())])
        body, headers = None, ()
        if route.method != "GET":
            body, headers = self._body(route)
        return Case(route.method, path + query, body, headers)

    def _fields(self, route: Route) -> list[str]:
        kind = None if route.takes is None else inspect.type_info(route.takes)
        return [one.encode_name for one in kind.fields] if _is_struct(kind) else []

    def _query(self, names: Sequence[str]) -> str:
        chosen = [name for name in names if self._random.random() < 0.7]
        pairs = [(name, self._word()) for name in chosen for _ in range(self._few())]
        if self._random.random() < 0.1:
            pairs.append((self._word(), self._word()))
        # One long value would only ever be refused by the size of the head.
        return "?" + "&".join(f"{quote(k[:300])}={quote(v[:300])}" for k, v in pairs)

    def _body(self, route: Route) -> tuple[bytes, tuple[tuple[str, str], ...]]:
        kind = "application/json"
        if self._random.random() < 0.05:
            kind = self._random.choice(KINDS)
        headers = (("content-type", kind),)
        if route.takes is None or self._random.random() < 0.15:
            return self._random.choice(ODD_BODIES), headers
        value = self._value(inspect.type_info(route.takes), 0)
        text = json.dumps(value, ensure_ascii=self._random.random() < 0.5)
        return text.encode("utf-8", "replace"), headers

    def _value(self, kind: inspect.Type | None, depth: int) -> Any:
        if kind is None or depth > 6 or self._random.random() < (1 - self._honest) / 6:
            return self._oddity()
        if isinstance(kind, inspect.Metadata):
            return self._value(kind.type, depth)
        if isinstance(kind, inspect.UnionType):
            return self._value(self._random.choice(kind.types), depth)
        if isinstance(kind, inspect.StructType):
            return {
                field.encode_name: self._value(field.type, depth + 1)
                for field in kind.fields
                if field.required or self._random.random() < 0.6
            }
        return self._leaf(kind, depth)

    def _leaf(self, kind: inspect.Type, depth: int) -> Any:
        if isinstance(kind, inspect.DictType):
            return {
                self._word(): self._value(kind.value_type, depth + 1) for _ in range(self._few())
            }
        if isinstance(kind, inspect.CollectionType):
            one = self._value(kind.item_type, depth + 1)
            if self._random.random() < 0.05:
                return [one] * self._random.choice((kind.max_length or 0, 1000, 5000))
            return [self._value(kind.item_type, depth + 1) for _ in range(self._few())]
        if isinstance(kind, inspect.StrType):
            return self._word()
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            if self._random.random() < self._honest:
                return self._random.choice((0, 1, 2, 3, 60, 100))
            return self._random.choice(ODD_NUMBERS)
        if isinstance(kind, inspect.BoolType):
            return self._random.random() < 0.5
        return None

    def _oddity(self) -> Any:
        return self._random.choice((*ODD_THINGS, *ODD_NUMBERS, self._word(), [self._word()] * 50))

    def _word(self) -> str:
        if self._random.random() < self._honest:
            return self._random.choice(self._known)
        return self._random.choice(ODD_TEXTS)

    def _few(self) -> int:
        return self._random.choice((0, 1, 1, 1, 2, 3))


def _is_struct(kind: inspect.Type | None) -> bool:
    return isinstance(kind, inspect.StructType)
