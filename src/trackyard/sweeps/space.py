"""The space of a sweep: parameters with their ranges and conditions, read from a document.

Owns what a parameter may be, drawing one point at random, listing a grid, and narrowing a space
around good points. Pure: knows neither samplers, storage nor jobs. Every refusal names the
parameter and what to write instead.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trackyard.core.errors import InvalidInput

Value = str | int | float | bool
Point = dict[str, Value]

MAX_PARAMETERS = 100
MAX_CHOICES = 1000
MAX_GRID = 10_000
#: A parameter's name becomes a flag and a variable.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}\Z")
_KINDS = ("choice", "int", "log", "range")
_KEYS = (*_KINDS, "points", "step", "when")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the search."""

    name: str
    #: choice, int, log or range
    kind: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    #: how many values a grid takes of a range without steps
    points: int | None = None
    is_log: bool = False
    #: conditions: it applies only if each of these has one of these values
    when: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    def is_active(self, point: Mapping[str, Value]) -> bool:
        """Return whether this parameter applies, given the values chosen so far."""
        return all(name in point and point[name] in allowed for name, allowed in self.when)

    def draw(self, source: random.Random) -> Value:
        """Return one value at random."""
        if self.kind == "choice":
            return source.choice(self.choices)
        if self.step is not None:
            return self._at(self.low + self.step * source.randrange(self._steps() + 1))
        low, high = (self.low, self.high) if self.kind != "int" else (self.low, self.high + 1)
        if self.is_log:
            found = math.exp(source.uniform(math.log(low), math.log(high)))
        else:
            found = source.uniform(low, high)
        return self._at(min(math.floor(found) if self.kind == "int" else found, self.high))

    def grid(self) -> list[Value]:
        """Return the values a grid takes."""
        if self.kind == "choice":
            return list(self.choices)
        if self.points is not None:
            return self._spread(self.points)
        step = self.step if self.step is not None else 1.0 if self.kind == "int" else None
        if step is None:
            raise InvalidInput(
                f"a grid needs to know which values {self.name} takes: add `points: 5` or"
                " `step: 0.1`, or list them"
            )
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        if count > MAX_GRID:
            raise InvalidInput(f"{self.name} has {count} values in a grid: use a larger step")
        return [self._at(self.low + at * step) for at in range(count)]

    def _spread(self, count: int) -> list[Value]:
        shares = [at / max(count - 1, 1) for at in range(count)]
        if self.is_log:
            span = math.log(self.high / self.low)
            return list(dict.fromkeys(self._at(self.low * math.exp(s * span)) for s in shares))
        return list(dict.fromkeys(self._at(self.low + s * (self.high - self.low)) for s in shares))

    def _steps(self) -> int:
        assert self.step is not None
        return math.floor((self.high - self.low) / self.step + 1e-9)

    def _at(self, number: float) -> Value:
        number = min(max(number, self.low), self.high)
        # Twelve digits: 0.1 + 0.2 is 0.3 in a command line.
        return round(number) if self.kind == "int" else float(f"{number:.12g}")

    def around(self, values: Sequence[Value]) -> Parameter:
        """Return it narrowed to the span of good points plus an eighth on each side."""
        if not values:
            return self
        if self.kind == "choice":
            return replace(self, choices=tuple(c for c in self.choices if c in values))
        if self.step is not None:
            return self
        found = [float(value) for value in values]
        if self.is_log:
            margin = (self.high / self.low) ** 0.125
            low, high = min(found) / margin, max(found) * margin
        else:
            margin = (self.high - self.low) * 0.125
            low, high = min(found) - margin, max(found) + margin
        low, high = max(low, self.low), min(high, self.high)
        if self.kind == "int":
            low, high = math.floor(low), math.ceil(high)
        return replace(self, low=float(f"{low:.6g}"), high=float(f"{high:.6g}"))

    def document(self) -> dict[str, Any]:
        """Return it as a sweep file writes it."""
        if self.kind == "choice":
            found: dict[str, Any] = {"choice": list(self.choices)}
        else:
            bounds = [self.low, self.high]
            found = {self.kind: [int(b) for b in bounds] if self.kind == "int" else bounds}
        if self.kind == "int" and self.is_log:
            found["log"] = True
        if self.step is not None:
            found["step"] = self.step
        if self.points is not None:
            found["points"] = self.points
        if self.when:
            found["when"] = {name: list(allowed) for name, allowed in self.when}
        return found


@dataclass(frozen=True, slots=True)
class Space:
    """Every parameter, those that others depend on first."""

    parameters: tuple[Parameter, ...]

    def draw(self, source: random.Random) -> Point:
        """Return one point at random."""
        point: Point = {}
        for parameter in self.parameters:
            if parameter.is_active(point):
                point[parameter.name] = parameter.draw(source)
        return point

    def grid(self) -> list[Point]:
        """Return every point of the grid; parameters that do not apply are left out."""
        found: list[Point] = []
        for point in self._grid(0, {}):
            found.append(point)
            if len(found) > MAX_GRID:
                raise InvalidInput(
                    f"the grid has over {MAX_GRID} points: list fewer values, or use"
                    " `sampler: random` with a budget of trials"
                )
        return found

    def _grid(self, at: int, point: Point) -> Iterator[Point]:
        if at == len(self.parameters):
            yield dict(point)
            return
        parameter = self.parameters[at]
        if not parameter.is_active(point):
            yield from self._grid(at + 1, point)
            return
        for value in parameter.grid():
            yield from self._grid(at + 1, {**point, parameter.name: value})

    def around(self, points: Sequence[Mapping[str, Value]]) -> Space:
        """Return it narrowed to where good points lie."""
        narrowed = []
        for parameter in self.parameters:
            values = [point[parameter.name] for point in points if parameter.name in point]
            if not values and parameter.when:
                continue
            narrowed.append(parameter.around(values))
        return Space(tuple(narrowed))

    def document(self) -> dict[str, Any]:
        """Return it as a sweep file writes it."""
        return {parameter.name: parameter.document() for parameter in self.parameters}

    def names(self) -> list[str]:
        """Return the names of all parameters."""
        return [parameter.name for parameter in self.parameters]


def nearest(word: str, known: Collection[str]) -> str:
    """Return `; did you mean X?` for a word close to a known one, or the known ones."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(sorted(known))}"


def parse_space(document: Mapping[str, Any]) -> Space:
    """Read the `space` of a sweep."""
    if not document:
        raise InvalidInput("space is empty: name at least one parameter, as in `lr: [0.1, 0.01]`")
    if len(document) > MAX_PARAMETERS:
        raise InvalidInput(f"space has over {MAX_PARAMETERS} parameters: vary fewer at once")
    found = {name: _parameter(name, told) for name, told in document.items()}
    return Space(_ordered(found))


def _parameter(name: str, told: Any) -> Parameter:
    if not _NAME.match(name):
        raise InvalidInput(
            f"parameter {name[:80]!r} is not allowed: letters, digits and . _ -, not first a digit"
        )
    if isinstance(told, list):
        return Parameter(name=name, kind="choice", choices=_choices(name, told))
    if isinstance(told, str | int | float | bool):
        return Parameter(name=name, kind="choice", choices=_choices(name, [told]))
    if not isinstance(told, dict):
        raise InvalidInput(
            f"parameter {name}: write a list of values, or one of `range: [LOW, HIGH]`,"
            " `log: [LOW, HIGH]`, `int: [LOW, HIGH]`"
        )
    return _ranged(name, told)


def _ranged(name: str, told: dict[str, Any]) -> Parameter:
    for key in told:
        if key not in _KEYS:
            raise InvalidInput(f"parameter {name} has no key `{key}`; {nearest(key, _KEYS)}")
    is_log_int = "int" in told and isinstance(told.get("log"), bool)
    kinds = [kind for kind in _KINDS if kind in told and not (is_log_int and kind == "log")]
    if len(kinds) != 1:
        raise InvalidInput(
            f"parameter {name} needs exactly one of choice, range, log and int, and has"
            f" {' and '.join(kinds) or 'none'}"
        )
    kind, when = kinds[0], _when(name, told.get("when"))
    if kind == "choice":
        return Parameter(name=name, kind=kind, choices=_choices(name, told[kind]), when=when)
    low, high = _bounds(name, kind, told[kind])
    is_log = kind == "log" or bool(is_log_int and told["log"])
    if is_log and low <= 0:
        raise InvalidInput(f"parameter {name}: a log range must start above 0, not at {low:g}")
    step = _number(told.get("step"))
    if step is not None and (not _is_number(step) or step <= 0 or is_log):
        raise InvalidInput(f"parameter {name}: step is a number above 0, and not for log ranges")
    points = told.get("points")
    if points is not None and (isinstance(points, bool) or not isinstance(points, int)):
        raise InvalidInput(f"parameter {name}: points is a whole number")
    if points is not None and not 1 <= points <= MAX_CHOICES:
        raise InvalidInput(f"parameter {name}: points must be between 1 and {MAX_CHOICES}")
    return Parameter(
        name=name, kind=kind, low=low, high=high, step=None if step is None else float(step),
        points=points, is_log=is_log, when=when,
    )  # fmt: skip


def _choices(name: str, told: Any) -> tuple[Value, ...]:
    if not isinstance(told, list) or not 1 <= len(told) <= MAX_CHOICES:
        raise InvalidInput(f"parameter {name}: choice is a list of 1 to {MAX_CHOICES} values")
    for value in told:
        if not isinstance(value, str | int | float | bool) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            raise InvalidInput(f"parameter {name}: a value is text, a number, true or false")
        if isinstance(value, str) and (len(value) > 1000 or "\0" in value):
            raise InvalidInput(f"parameter {name}: a value has at most 1000 characters")
    return tuple(told)


def _bounds(name: str, kind: str, told: Any) -> tuple[float, float]:
    numbers = [_number(one) for one in told] if isinstance(told, list) else []
    if len(numbers) != 2 or not all(_is_number(one) for one in numbers):
        raise InvalidInput(f"parameter {name}: write `{kind}: [LOW, HIGH]` with two numbers")
    low, high = numbers
    if kind == "int" and not (float(low).is_integer() and float(high).is_integer()):
        raise InvalidInput(f"parameter {name}: the bounds of an int range are whole numbers")
    if not low < high and not (kind == "int" and low == high):
        raise InvalidInput(f"parameter {name}: {low:g} is not below {high:g}")
    return float(low), float(high)


def _number(told: Any) -> Any:
    """Read `1e-5` as a number, which YAML takes for text."""
    if isinstance(told, str):
        with contextlib.suppress(ValueError):
            return float(told)
    return told


def _is_number(told: Any) -> bool:
    return isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told)


def _when(name: str, told: Any) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    if told is None:
        return ()
    if not isinstance(told, dict) or not told:
        raise InvalidInput(f"parameter {name}: write `when: {{OTHER: VALUE}}`")
    return tuple(
        (str(other), _choices(name, allowed if isinstance(allowed, list) else [allowed]))
        for other, allowed in told.items()
    )


def _ordered(found: dict[str, Parameter]) -> tuple[Parameter, ...]:
    """Put parameters after those that their conditions name."""
    done: dict[str, Parameter] = {}
    left = dict(found)
    while left:
        ready = [p for p in left.values() if all(other in done for other, _ in p.when)]
        if not ready:
            _refuse_condition(left, found)
        for parameter in ready:
            done[parameter.name] = left.pop(parameter.name)
    return tuple(done.values())


def _refuse_condition(left: dict[str, Parameter], found: dict[str, Parameter]) -> None:
    for parameter in left.values():
        for other, _ in parameter.when:
            if other not in found:
                raise InvalidInput(
                    f"parameter {parameter.name} depends on {other[:80]!r}, which the space does"
                    f" not have; {nearest(other, list(found))}"
                )
    raise InvalidInput(f"the conditions of {', '.join(sorted(left))} depend on each other")
