"""Packing: no row is lost or cut, no bin is overfull, little is padding."""

from hypothesis import given
from hypothesis import strategies as st

from trackyard.finetune.data.packing import most_segments, pack


@given(
    lengths=st.lists(st.integers(1, 64), max_size=200),
    most=st.integers(1, 12),
)
def test_every_row_is_in_one_bin_that_holds_it(lengths: list[int], most: int) -> None:
    """Whatever the lengths."""
    bins = pack(lengths, 64, most=most)
    assert sorted(row for one in bins for row in one) == list(range(len(lengths)))
    assert all(sum(lengths[row] for row in one) <= 64 for one in bins)
    assert all(len(one) <= most for one in bins)


def test_best_fit_leaves_little_room() -> None:
    """Within two per cent of full on mixed lengths."""
    lengths = [(number * 37) % 300 + 20 for number in range(2000)]
    bins = pack(lengths, 2048, most=most_segments(2048))
    assert sum(lengths) / (len(bins) * 2048) > 0.98


def test_a_row_longer_than_the_bin_stands_alone() -> None:
    """It is cut elsewhere; here it takes a bin."""
    assert pack([100, 5], 64, most=8) == [[0], [1]]
