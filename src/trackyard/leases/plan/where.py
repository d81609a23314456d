"""The language in which nodes are chosen: `gpu.count >= 2 and gpu.memory >= 40GB`.

Owns its words, grammar and meaning over a Machine. Evaluates nothing but this grammar: a parsed
condition is a tree of comparisons. Every refusal shows where it stopped and what would do.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from trackyard.leases.plan.machines import LeasableNode

Value: TypeAlias = float | str

MAX_LENGTH = 1000
MAX_DEPTH = 20
NUMBERS: dict[str, Callable[[LeasableNode], float]] = {
    "gpu.count": lambda machine: machine.gpu_count,
    "gpu.memory": lambda machine: machine.gpu_memory_bytes,
    "cpus": lambda machine: machine.cpus,
    "memory": lambda machine: machine.memory_bytes,
}
WORDS: dict[str, Callable[[LeasableNode], str]] = {
    "gpu.model": lambda machine: machine.gpu_model,
    "gpu.vendor": lambda machine: machine.gpu_vendor,
    "class": lambda machine: machine.node_class,
    "name": lambda machine: machine.id,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TOKEN = re.compile(
    r"\s*(?:(?P<op>>=|<=|!=|==|=|>|<|~)|(?P<mark>[(),])|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<word>[A-Za-z0-9_][A-Za-z0-9_.:/-]*))"
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])(i?B)?\Z", re.IGNORECASE)
_POWER = {"K": 1, "M": 2, "G": 3, "T": 4}


class BadWhere(ValueError):
    """The expression cannot be read; the message says where and what would do."""


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """One property beside one or several values."""

    field: str
    op: str
    values: tuple[Value, ...]

    def matches(self, machine: LeasableNode) -> bool:
        """Say whether a machine has it so."""
        if self.field in NUMBERS:
            have = NUMBERS[self.field](machine)
            return any(_COMPARE[self.op](have, float(value)) for value in self.values)
        if self.field in WORDS:
            text = WORDS[self.field](machine).lower()
        else:
            text = machine.labels.get(self.field.removeprefix("label."), "").lower()
        wanted = [str(value).lower() for value in self.values]
        if self.op == "~":
            return any(word in text for word in wanted)
        return (text not in wanted) if self.op == "!=" else (text in wanted)


@dataclass(frozen=True, slots=True)
class Combined:
    """Conditions joined by `and`, `or`, or turned round by `not`."""

    word: str
    parts: tuple[Condition, ...]

    def matches(self, machine: LeasableNode) -> bool:
        """Say whether a machine fulfils it."""
        if self.word == "not":
            return not self.parts[0].matches(machine)
        join = all if self.word == "and" else any
        return join(part.matches(machine) for part in self.parts)


Condition: TypeAlias = NodeComparison | Combined


def parse(text: str) -> Condition:
    """Read an expression, or say what is wrong with it."""
    if len(text) > MAX_LENGTH:
        raise BadWhere(f"the expression has over {MAX_LENGTH} characters")
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _split(text)
        self._at = 0

    def whole(self) -> Condition:
        if not self._tokens:
            raise BadWhere("the expression is empty; write for example gpu.count >= 2")
        found = self._any(0)
        if self._at < len(self._tokens):
            raise self._fault("expected `and`, `or` or the end")
        return found

    def _any(self, depth: int) -> Condition:
        return self._joined("or", lambda: self._joined("and", lambda: self._one(depth)))

    def _joined(self, word: str, read: Callable[[], Condition]) -> Condition:
        parts = [read()]
        while self._takes(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Combined(word, tuple(parts))

    def _one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise BadWhere(f"the expression is nested over {MAX_DEPTH} deep")
        if self._takes("not"):
            return Combined("not", (self._one(depth + 1),))
        if self._takes("("):
            found = self._any(depth + 1)
            if not self._takes(")"):
                raise self._fault("expected `)`")
            return found
        return self._comparison()

    def _comparison(self) -> NodeComparison:
        name = self._next("the name of a property").lower()
        if name not in NUMBERS and name not in WORDS and not re.match(r"label\.\S", name):
            self._at -= 1
            known = ", ".join([*NUMBERS, *WORDS, "label.NAME"])
            raise self._fault(f"there is no property {name!r}; there are {known}")
        if name.startswith("label."):
            # Names of labels keep their case.
            name = "label." + self._tokens[self._at - 1].removeprefix("label.")
        if self._takes("in"):
            return NodeComparison(name, "=", self._list(name))
        op = self._next("a comparison such as >= or =")
        if op not in _COMPARE and op != "~":
            self._at -= 1
            raise self._fault("expected one of = != >= <= > < ~ or `in`")
        if name in NUMBERS and op == "~":
            raise self._fault(f"{name} is a number; `~` looks for text")
        if name not in NUMBERS and op in (">", "<", ">=", "<="):
            raise self._fault(f"{name} is text; use = != ~ or `in`")
        return NodeComparison(name, "=" if op == "==" else op, (self._value(name),))

    def _list(self, name: str) -> tuple[Value, ...]:
        if not self._takes("("):
            raise self._fault("expected `(` after `in`")
        values = [self._value(name)]
        while self._takes(","):
            values.append(self._value(name))
        if not self._takes(")"):
            raise self._fault("expected `,` or `)`")
        return tuple(values)

    def _value(self, name: str) -> Value:
        piece = self._next("a value")
        plain = piece[1:-1] if piece[0] in "'\"" else piece
        if name not in NUMBERS:
            if piece in ("(", ")", ","):
                self._at -= 1
                raise self._fault("expected a value")
            return plain
        found = _number(plain)
        if found is None:
            self._at -= 1
            raise self._fault(f"{name} is a number, as in 2 or 40GB")
        return found

    def _takes(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at].lower() == word:
            self._at += 1
            return True
        return False

    def _next(self, what: str) -> str:
        if self._at >= len(self._tokens):
            raise self._fault(f"expected {what}")
        self._at += 1
        return self._tokens[self._at - 1]

    def _fault(self, words: str) -> BadWhere:
        found = self._tokens[self._at] if self._at < len(self._tokens) else "the end"
        return BadWhere(f"at {found[:40]!r} of {self._text[:200]!r}: {words}")


def _split(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadWhere(f"cannot read {text[at:].strip()[:40]!r}; put text in quotes")
        tokens.append(match[0].strip())
        at = match.end()
    return tokens


def _number(text: str) -> float | None:
    size = _SIZE.match(text)
    if size is not None:
        base = 1000 if (size[3] or "").upper() == "B" else 1024
        power: int = base ** _POWER[size[2].upper()]
        return float(size[1]) * power
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
