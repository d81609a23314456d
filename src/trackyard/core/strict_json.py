"""What JSON from strangers may not hold: endless depth, a name twice in one object, NUL in text.

Decoders take all three silently. Owns telling them; knows no route and no field.
"""

from __future__ import annotations

import json
from typing import Any

from trackyard.core.errors import BadRequest, InvalidInput

MAX_DEPTH = 32
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep; flatten it"


def check_json(raw: bytes, value: Any) -> None:
    """Refuse a decoded body that is too deep, says a name twice or holds NUL."""
    names = _count_names(value)
    # Each name has its colon, so fewer names than colons means a twin or a colon inside a text.
    if raw.count(b":") != names:
        check_twins(raw)


def check_twins(raw: bytes) -> Any:
    """Decode again, refusing an object that says a name twice."""
    try:
        return json.loads(raw, object_pairs_hook=_once)
    except RecursionError as fault:
        raise BadRequest(_TOO_DEEP) from fault
    except ValueError as fault:
        raise BadRequest(f"the body is not valid JSON: {fault}") from fault


def check_text(text: str) -> str:
    """Refuse text that a database cannot keep."""
    if "\0" in text:
        raise InvalidInput("the text holds a NUL character (\\u0000), which cannot be kept")
    return text


def too_deep() -> BadRequest:
    """Return the refusal of a body that a decoder gave up on."""
    return BadRequest(_TOO_DEEP)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the body says {twin[:80]!r} twice in one object; say it once")
    return found


def _count_names(value: Any) -> int:
    """Return how many names all objects in a value have, refusing depth and NUL on the way."""
    names = 0
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                names += len(item)
                for name in item:
                    check_text(name)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str):
                check_text(item)
        if not below:
            return names
        level = below
    raise BadRequest(_TOO_DEEP)
