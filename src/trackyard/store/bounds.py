"""Bounds of what callers may send: the types that fields of requests are made of.

Owns a few lengths and ranges, and telling which fields of a request type lack theirs. A test of
the route table refuses such a field; a start need not look again. Knows no route and no table. A
field's own rule, with its own sentence, may be narrower.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, inspect

#: What a column of integers can keep.
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A number of days, up to a century.
Days = Annotated[int, Meta(ge=0, le=36_525)]
#: An id, a name, one word of a list.
Word = Annotated[str, Meta(max_length=1000)]
#: A key or value, a filter, a sentence.
Line = Annotated[str, Meta(max_length=20_000)]
#: What people write or programs print: a description, a document.
Text = Annotated[str, Meta(max_length=1_000_000)]
Words = Annotated[list[Word], Meta(max_length=1000)]
Lines = Annotated[list[Line], Meta(max_length=1000)]
#: Ids of the rows of one page.
Rows = Annotated[list[Word], Meta(max_length=20_000)]
Labels = Annotated[dict[Word, Line], Meta(max_length=1000)]
Figures = Annotated[dict[Word, float], Meta(max_length=1000)]
#: Whatever another program's document holds; the limit on the body bounds it.
Free = Annotated[dict[Word, Any], Meta(max_length=1000, extra={"free": True})]


def unbounded(kind: Any) -> tuple[str, ...]:
    """Return the places in a request type that any amount may be put into."""
    return tuple(_gaps(inspect.type_info(kind), "$", set()))


def _gaps(kind: inspect.Type, place: str, seen: set[Any]) -> Iterator[str]:
    if isinstance(kind, inspect.Metadata):
        if not _is_free(kind):
            yield from _gaps(kind.type, place, seen)
    elif isinstance(kind, inspect.StructType):
        if kind.cls not in seen:
            seen.add(kind.cls)
            for field in kind.fields:
                yield from _gaps(field.type, f"{place}.{field.encode_name}", seen)
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _gaps(one, place, seen)
    else:
        if not _is_bounded(kind):
            yield place
        for name, part in _parts(kind):
            yield from _gaps(part, f"{place}[{name}]", seen)


def _is_free(kind: inspect.Metadata) -> bool:
    """Tell whether a document may hold anything, as many of it as its type says."""
    is_marked = bool((kind.extra or {}).get("free"))
    return is_marked and isinstance(kind.type, inspect.DictType) and _is_bounded(kind.type)


def _is_bounded(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.IntType):
        return kind.ge is not None and kind.le is not None
    if isinstance(kind, inspect.StrType | inspect.CollectionType):
        return kind.max_length is not None
    if isinstance(kind, inspect.DictType):
        return kind.max_length is not None
    return isinstance(
        kind,
        inspect.BoolType
        | inspect.NoneType
        | inspect.FloatType
        | inspect.EnumType
        | inspect.LiteralType
        | inspect.TupleType,
    )


def _parts(kind: inspect.Type) -> list[tuple[str, inspect.Type]]:
    if isinstance(kind, inspect.DictType):
        return [("key", kind.key_type), ("value", kind.value_type)]
    if isinstance(kind, inspect.CollectionType):
        return [("item", kind.item_type)]
    if isinstance(kind, inspect.TupleType):
        return [(str(at), one) for at, one in enumerate(kind.item_types)]
    return []


@cache
def field_types(kind: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    """Return the fields of a request type by their name on the wire."""
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return {field.encode_name: field.type for field in found.fields}


def excess(value: Any, kind: inspect.Type, place: str) -> str | None:
    """Return what is too much in a value that is read leniently, or None.

    A value of another kind than the type's is left to whoever reads it.
    """
    if isinstance(kind, inspect.Metadata):
        return excess(value, kind.type, place)
    if isinstance(kind, inspect.UnionType):
        kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        faults = [excess(value, one, place) for one in kinds]
        return None if None in faults else faults[0]
    if isinstance(value, str):
        most = kind.max_length if isinstance(kind, inspect.StrType) else _LENIENT_CHARACTERS
        if most is not None and len(value) > most:
            return f"'{place}' has {len(value)} characters; this call takes at most {most}"
    elif isinstance(value, list):
        return _excess_of_list(value, kind, place)
    elif isinstance(value, dict):
        return _excess_of_object(value, kind, place)
    return None


#: Characters of a text that stands where something else belongs, such as a number.
_LENIENT_CHARACTERS = 20_000


def _excess_of_list(value: list[Any], kind: inspect.Type, place: str) -> str | None:
    if not isinstance(kind, inspect.CollectionType):
        return None
    if kind.max_length is not None and len(value) > kind.max_length:
        return f"'{place}' has {len(value)} items; this call takes at most {kind.max_length}"
    faults = (excess(one, kind.item_type, f"{place}[{at}]") for at, one in enumerate(value))
    return next((fault for fault in faults if fault is not None), None)


def _excess_of_object(value: dict[str, Any], kind: inspect.Type, place: str) -> str | None:
    if isinstance(kind, inspect.StructType):
        known = {field.encode_name: field.type for field in kind.fields}
        parts = [(name, one, known[name]) for name, one in value.items() if name in known]
    elif isinstance(kind, inspect.DictType):
        if kind.max_length is not None and len(value) > kind.max_length:
            return f"'{place}' has {len(value)} entries; this call takes at most {kind.max_length}"
        parts = [(name, one, kind.value_type) for name, one in value.items()]
    else:
        return None
    faults = (excess(one, part, f"{place}.{name[:80]}") for name, one, part in parts)
    return next((fault for fault in faults if fault is not None), None)
