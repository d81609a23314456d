"""Amounts as people write them: `2h30m`, `64G`, `0.5`, `K=V`. Owns reading them and saying them
back; every refusal shows a form that works. Knows no command.
"""

from __future__ import annotations

import re
from typing import Any

from trackyard.core.errors import SetupError

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PARTS = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(i?B)?\Z", re.IGNORECASE)
_POWER = {"K": 1, "M": 2, "G": 3, "T": 4}
GIB = 1024**3


def seconds(text: Any, *, what: str) -> float:
    """Read `90s`, `45m`, `2h30m`, `1d`, `12:00:00` or `1-12:00:00`."""
    written = str(text).strip().lower()
    clock = _CLOCK.match(written)
    if clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return float(days * 86400 + hours * 3600 + minutes * 60 + rest)
    if not _PARTS.match(written):
        raise SetupError(
            f"{what} {str(text)!r} is not a length of time",
            hint="write it with units, as in 90s, 45m, 2h30m or 1d; or as 12:00:00",
        )
    return sum(float(count) * _UNIT_SECONDS[unit] for count, unit in _PART.findall(written))


def memory_bytes(text: Any, *, what: str = "--memory") -> int:
    """Read `500M`, `64G` or `64GiB` in powers of 1024, `64GB` in powers of 1000."""
    match = _SIZE.match(str(text).strip())
    if match is None:
        raise SetupError(
            f"{what} {str(text)!r} is not an amount of memory",
            hint="write it with a unit, as in 500M or 64G",
        )
    base = 1000 if (match[3] or "").upper() == "B" else 1024
    scale: int = base ** _POWER[match[2].upper()]
    return round(float(match[1]) * scale)


def number(text: Any, *, what: str) -> float:
    """Read a number that is not negative."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = -1.0
    if isinstance(text, bool) or not 0 <= value < float("inf"):
        raise SetupError(f"{what} {str(text)!r} is not a number", hint=f"write {what} 1, for one")
    return value


def whole(text: Any, *, what: str) -> int:
    """Read a whole number that is not negative."""
    value = number(text, what=what)
    if value != int(value):
        raise SetupError(f"{what} {str(text)!r} is not a whole number", hint=f"write {what} 2")
    return int(value)


def pair(text: str, *, what: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SetupError(f"{what} {text!r} has no value", hint=f"write it as {what} NAME=VALUE")
    return name, value


def size_words(count: float | None) -> str:
    """Say an amount of memory: `64 GiB`."""
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.3g} {unit}"


def gpu_words(count: float | None, types: list[str] | None = None, nodes: int = 1) -> str:
    """Say what a job asks for: `2xA100`, `0.5 gpu`, `2 nodes of 8xH100`, `cpu`."""
    if not count:
        each = "cpu"
    elif types:
        each = f"{count:g}x{'|'.join(types)}"
    else:
        each = f"{count:g} gpu" if count <= 1 else f"{count:g} gpus"
    return each if nodes == 1 else f"{nodes} nodes of {each}"
