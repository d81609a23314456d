"""Metric points on disk: what goes in comes out, roll-ups say what the points say."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trackyard.tracking.metrics.points import (
    BLOCK_BUCKETS,
    SUMMARY_FROM,
    Points,
    by_step,
    by_time,
    decode_block,
    decode_summary,
    encode_block,
    encode_summary,
    from_lists,
    merge,
    roll_up,
    shift_for,
)

INTS = st.integers(-(2**62), 2**62)
FLOATS = st.floats(allow_nan=True, allow_infinity=False, width=64)
ROWS = st.lists(st.tuples(INTS, INTS, FLOATS), min_size=1, max_size=200)


def _points(rows: list[tuple[int, int, float]]) -> Points:
    steps, times, values = zip(*rows, strict=True)
    return from_lists(list(steps), list(times), list(values))


def _same(one: Points, two: Points) -> bool:
    return (
        np.array_equal(one.steps, two.steps)
        and np.array_equal(one.times, two.times)
        and np.array_equal(one.values.view(np.int64), two.values.view(np.int64))
    )


FEW = st.integers(0, 4)
CROWDED = st.lists(st.tuples(FEW, FEW, st.sampled_from([0.0, 1.0, -1.0, math.nan])), max_size=12)


@given(CROWDED)
def test_points_that_share_steps_and_times_come_in_one_order_and_once(rows) -> None:
    """NaN counts as 0 in the order, after it where both are there."""

    def value(number: float) -> tuple[float, bool]:
        return (0.0, True) if math.isnan(number) else (number, False)

    if not rows:
        return
    for sort, key in (
        (by_step, lambda row: (row[0], row[1], value(row[2]))),
        (by_time, lambda row: (row[1], row[0], value(row[2]))),
    ):
        found = sort(_points(rows))
        shown = [
            (step, time, str(number))
            for step, time, number in zip(
                found.steps.tolist(), found.times.tolist(), found.values.tolist(), strict=True
            )
        ]
        ordered = [(row[0], row[1], str(row[2])) for row in sorted(rows, key=key)]
        assert shown == list(dict.fromkeys(ordered))


@given(ROWS)
def test_a_block_gives_back_its_points_to_the_bit(rows) -> None:
    """Encoding and decoding a block changes nothing, whatever the numbers."""
    points = _points(rows)
    assert _same(decode_block(encode_block(points)), points)


@given(ROWS)
def test_points_sent_twice_are_kept_once(rows) -> None:
    """Sorting drops exact repeats and nothing else."""
    points = _points(rows + rows)
    for order in (by_step, by_time):
        kept = order(points)
        bits = kept.values.view(np.int64).tolist()
        found = list(zip(kept.steps.tolist(), kept.times.tolist(), bits, strict=True))
        assert len(found) == len(set(found))
        assert set(found) == set(
            zip(
                points.steps.tolist(),
                points.times.tolist(),
                points.values.view(np.int64).tolist(),
                strict=True,
            )
        )


def test_zeros_of_either_sign_that_were_sent_twice_are_kept_once() -> None:
    points = from_lists([1] * 4, [1] * 4, [0.0, -0.0, 0.0, -0.0])
    assert sorted(map(str, by_step(points).values.tolist())) == ["-0.0", "0.0"]


def test_history_order_is_time_then_step_then_value() -> None:
    """The order of MLflow's history."""
    points = from_lists([2, 1, 1, 0], [5, 5, 5, 9], [1.0, 3.0, 2.0, 0.0])
    ordered = by_time(points)
    assert ordered.steps.tolist() == [1, 1, 2, 0]
    assert ordered.values.tolist() == [2.0, 3.0, 1.0, 0.0]


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 6))
def test_summaries_merge_to_what_the_points_say(seed, extra) -> None:
    """Roll-ups of blocks, merged wider, equal the roll-up of all points."""
    steps = np.random.default_rng(seed).integers(0, 100_000, SUMMARY_FROM + 100).tolist()
    values = [math.sin(step) for step in steps]
    points = by_step(from_lists(steps, list(range(len(steps))), values))
    half = len(points) // 2
    parts = [points.take(slice(0, half)), points.take(slice(half, None))]
    whole = encode_summary(points)
    shift = decode_summary(whole).shift + extra
    merged = merge([roll_up(part, 0) for part in parts], shift)
    expected = roll_up(points, shift)
    assert merged.index.tolist() == expected.index.tolist()
    assert merged.least.tolist() == expected.least.tolist()
    assert merged.most.tolist() == expected.most.tolist()
    assert merged.count.tolist() == expected.count.tolist()
    assert merged.last_step.tolist() == expected.last_step.tolist()
    assert np.allclose(merged.total, expected.total)


def test_a_summary_is_small_and_true() -> None:
    """A block's roll-up has at most its share of buckets and keeps extremes."""
    steps = list(range(16_384))
    values = [0.0] * 16_384
    values[5000], values[9000] = 42.0, -42.0
    points = from_lists(steps, steps, values)
    summary = decode_summary(encode_summary(points))
    assert len(summary) <= BLOCK_BUCKETS
    assert summary.most.max() == 42.0
    assert summary.least.min() == -42.0
    assert summary.count.sum() == 16_384


def test_nan_is_a_point_without_a_value() -> None:
    """NaN neither hides extremes nor counts into the mean."""
    buckets = roll_up(from_lists([0, 1, 2], [0, 1, 2], [1.0, math.nan, 3.0]), 2)
    assert buckets.least.tolist() == [1.0]
    assert buckets.most.tolist() == [3.0]
    assert buckets.total.tolist() == [4.0]
    assert buckets.count.tolist() == [2]


def test_buckets_are_powers_of_two_and_cover_the_range() -> None:
    """The smallest width that fits is chosen."""
    assert shift_for(0, 99, 100) == 0
    assert shift_for(0, 100, 100) == 1
    assert shift_for(0, 1_000_000, 500) == 11


def test_training_metrics_settle_below_the_budget() -> None:
    """A realistic series takes well under sixteen bytes a point with its roll-up."""
    random = np.random.default_rng(1)
    count = 16_384
    steps = np.arange(count)
    times = 1_700_000_000_000 + np.cumsum(random.integers(80, 140, count))
    values = np.exp(-steps / 5000) + random.normal(0, 0.05, count)
    points = Points(steps, times, values)
    size = len(encode_block(points)) + len(encode_summary(points))
    assert size / count < 12
