"""Types of requests: which fields take any amount, and what is too much."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from trackyard.store.bounds import Free, Int64, Labels, Line, Word, Words, excess, unbounded


class Inner(msgspec.Struct):
    name: Word
    count: Int64 = 0


class Bounded(msgspec.Struct):
    name: Word | None = None
    words: Words = []
    labels: Labels = {}
    document: Free | None = None
    inner: Annotated[list[Inner], Meta(max_length=3)] = []
    share: float = 0.0
    flag: bool = False


def test_a_type_of_bounded_fields_has_no_gap() -> None:
    assert unbounded(Bounded) == ()


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (str, "$.field"),
        (int, "$.field"),
        (str | None, "$.field"),
        (Annotated[int, Meta(ge=0)], "$.field"),
        (list[Word], "$.field"),
        (Annotated[list[str], Meta(max_length=3)], "$.field[item]"),
        (Annotated[dict[str, Word], Meta(max_length=3)], "$.field[key]"),
        (Annotated[dict[Word, Any], Meta(max_length=3)], "$.field[value]"),
        (dict[Word, Word], "$.field"),
        (Any, "$.field"),
    ],
)
def test_a_field_that_takes_any_amount_is_named(kind: Any, place: str) -> None:
    made = msgspec.defstruct("Made", [("field", kind), ("fine", Word)])
    assert unbounded(made) == (place,)


def test_what_is_too_much_is_told_with_its_place() -> None:
    kind = msgspec.inspect.type_info(Bounded)
    assert excess({"name": "a", "words": ["b"], "unknown": "x" * 10**6}, kind, "body") is None
    for value, place in (
        ({"name": "x" * 1001}, "'body.name' has 1001 characters"),
        ({"words": ["x"] * 1001}, "'body.words' has 1001 items"),
        ({"words": ["x" * 1001]}, "'body.words[0]' has 1001 characters"),
        ({"labels": {str(at): "" for at in range(1001)}}, "'body.labels' has 1001 entries"),
        ({"inner": [{"name": "y" * 1001}]}, "'body.inner[0].name'"),
    ):
        assert str(excess(value, kind, "body")).startswith(place)


def test_a_value_of_another_kind_is_left_to_its_reader() -> None:
    kind = msgspec.inspect.type_info(Bounded)
    assert excess({"name": 5, "words": "one", "inner": {"a": 1}}, kind, "body") is None
    assert excess("x" * 20_001, msgspec.inspect.type_info(Line | None), "x") is not None
    assert excess("9" * 20_001, msgspec.inspect.type_info(Int64), "x") is not None
