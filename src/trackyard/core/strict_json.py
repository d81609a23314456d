"""What JSON from strangers may not hold: endless depth, a name twice in one object, NUL in text,
more values than an event loop can look at.

Decoders take all four silently. Owns telling them, in time proportional to the body; knows no
route and no field.
"""

from __future__ import annotations

import json
from typing import Any

from trackyard.core.errors import BadRequest, InvalidInput, TooLarge

MAX_DEPTH = 32
#: Values in one body: about 20 ms of decoding. Text may hold any number of commas.
MAX_VALUES = 60_000
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep; flatten it"


def check_json(raw: bytes, value: Any) -> None:
    """Refuse a decoded body that is too deep, says a name twice or holds NUL."""
    names = _count_names(value)
    # Each name has its colon outside of texts, so fewer names than colons means a twin.
    if raw.count(b":") != names and _outside_texts(raw).count(b":") != names:
        check_twins(raw)


def check_twins(raw: bytes) -> Any:
    """Decode again, refusing an object that says a name twice."""
    count_values(raw)
    try:
        return json.loads(raw, object_pairs_hook=_once)
    except RecursionError as fault:
        raise BadRequest(_TOO_DEEP) from fault
    except ValueError as fault:
        raise BadRequest(f"the body is not valid JSON: {fault}") from fault


def count_values(raw: bytes) -> int:
    """Return about how many values a body has, refusing one with too many to decode."""
    found = _commas(raw)
    if found > MAX_VALUES:
        # Texts are names or values, and a name has one value: to tell them apart takes long.
        texts = (raw.count(b'"') - raw.count(b'\\"')) // 2
        if texts <= 2 * MAX_VALUES:
            found = _commas(_outside_texts(raw))
        if found > MAX_VALUES:
            raise TooLarge(f"the body has over {MAX_VALUES} values; send it in parts")
    return found


def check_text(text: str) -> str:
    """Refuse text that a database cannot keep."""
    if "\0" in text:
        raise InvalidInput("the text holds a NUL character (\\u0000), which cannot be kept")
    return text


def too_deep() -> BadRequest:
    """Return the refusal of a body that a decoder gave up on."""
    return BadRequest(_TOO_DEEP)


def _commas(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _outside_texts(raw: bytes) -> bytes:
    """Return a body without what stands between quotes."""
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(plain.split(b'"')[::2])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise BadRequest(f"the body says {name[:80]!r} twice in one object; say it once")
            seen.add(name)
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
