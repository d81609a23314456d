"""Lines of waiting jobs against a plain sorted list."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackyard.scheduling.order.line import JobLine


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50)), max_size=300),
    st.lists(st.integers(0, 10_000), max_size=100),
    st.integers(0, 60),
)
def test_a_line_behaves_like_a_sorted_list(values, removals, bound):
    """Adding, removing, the first within a bound and the next all agree with a plain list."""
    line, plain = JobLine(), []
    for number, (key, length) in enumerate(values):
        entry = (float(key), 0.0, number, float(length), None)
        line.add(entry)
        plain.append(entry)
    plain.sort()
    for removal in removals:
        if plain:
            line.remove(plain.pop(removal % len(plain)))
    assert list(line) == plain
    assert len(line) == len(plain)
    assert line.first() == (plain[0] if plain else None)
    assert line.first(bound) == next((one for one in plain if one[3] <= bound), None)
    for one, following in itertools.pairwise(plain):
        assert line.after(one) == following
    assert list(JobLine(plain)) == plain


def test_removing_what_is_not_there_is_an_error():
    with pytest.raises(KeyError):
        JobLine([(1.0, 0.0, 1, 5.0, None)]).remove((1.0, 0.0, 2, 5.0, None))
