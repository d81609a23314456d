"""Metric points in the log: what goes in comes out, read together or one by one."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trackyard.tracking.metrics.log_rows import gather, pack_log
from trackyard.tracking.metrics.points import Points, from_lists

Series = tuple[int, list[int], list[int], list[float]]

NAMES = st.integers(0, 2**20)
STEPS = st.one_of(st.integers(-(2**62), 2**62), st.integers(0, 300), st.integers(60_000, 70_000))
FLOATS = st.floats(allow_nan=True, width=64)


def _same(one: Points, two: Points) -> bool:
    return (
        np.array_equal(one.steps, two.steps)
        and np.array_equal(one.times, two.times)
        and np.array_equal(one.values.view(np.int64), two.values.view(np.int64))
    )


def _plainly(rows: list[tuple[int, bytes]]) -> dict[tuple[int, int], Points]:
    """Read rows as any reader of msgpack would."""
    found: dict[tuple[int, int], tuple[list[int], list[int], list[float]]] = {}
    for key, data in rows:
        for name_id, *columns in msgspec.msgpack.decode(data):
            for whole, part in zip(
                found.setdefault((name_id, key), ([], [], [])), columns, strict=True
            ):
                whole.extend(part)
    return {series: from_lists(*columns) for series, columns in found.items()}


def _check(rows: list[tuple[int, bytes]]) -> None:
    plain, read = _plainly(rows), gather(rows)
    assert plain.keys() == read.keys()
    assert all(_same(read[series], points) for series, points in plain.items())


@st.composite
def stretches(draw: st.DrawFn, count: int) -> Series:
    """Points of one series as one request holds them."""
    several = {"min_size": count, "max_size": count}
    return (
        draw(NAMES),
        draw(st.lists(STEPS, **several)),
        draw(st.lists(STEPS, **several)),
        draw(st.lists(FLOATS, **several)),
    )


@given(st.data())
@settings(max_examples=60)
def test_rows_of_any_shape_give_back_their_points(data: st.DataObject) -> None:
    """Whatever the numbers and however the rows differ, nothing changes and order stays."""
    rows = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, 1),
                st.lists(st.integers(1, 3).flatmap(stretches), min_size=1, max_size=3).map(
                    pack_log
                ),
            ),
            max_size=12,
        )
    )
    _check(rows)


@given(
    st.integers(0, 2**33),
    st.integers(1, 40),
    st.integers(1, 3),
    st.integers(8, 40),
    st.sampled_from([1, 3, 700]),
)
def test_rows_that_look_alike_give_back_their_points(
    first: int, points: int, series: int, requests: int, stride: int
) -> None:
    """A training's batches, read together, hold what was sent, also where steps grow wider."""
    rows = []
    for request in range(requests):
        steps = [first + (request * points + place) * stride for place in range(points)]
        times = [1_700_000_000_000 + step for step in steps]
        values = [step / 7 for step in steps]
        rows.append((0, pack_log([(300 + key, steps, times, values) for key in range(series)])))
    _check(rows)


def test_rows_as_long_but_built_otherwise_are_not_mixed_up() -> None:
    """A row of the same length with other names, or other widths, is told apart."""
    one = pack_log([(5, [1, 2], [200, 200], [0.5, 0.25])])
    other_name = pack_log([(6, [1, 2], [200, 200], [0.5, 0.25])])
    other_width = pack_log([(5, [200, 200], [1, 2], [0.5, 0.25])])
    assert len(one) == len(other_name) == len(other_width)
    for odd in (other_name, other_width):
        _check([(0, one)] * 9 + [(0, odd)] + [(0, one)] * 3)
        _check([(0, odd)] + [(0, one)] * 12)


def test_a_long_row_by_itself_gives_back_its_points() -> None:
    """A column of one width is read at once, a mixed one number by number."""
    for first in (0, 65_000, 2**40):
        steps = [first + place for place in range(2000)]
        _check([(0, pack_log([(7, steps, steps, [place / 7 for place in steps])]))])


def test_only_what_is_wanted_is_returned() -> None:
    row = pack_log([(1, [1], [1], [1.0]), (2, [1], [1], [2.0])])
    for count in (1, 20):
        assert list(gather([("a", row)] * count, {2})) == [(2, "a")]
