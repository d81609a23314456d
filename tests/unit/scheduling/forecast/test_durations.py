"""Run times learned from jobs that ended."""

from __future__ import annotations

import pytest

from tests.unit.scheduling.yards import job
from trackyard.scheduling import DurationModel
from trackyard.scheduling.forecast.durations import EDGES, level_of


def test_nothing_known_is_said_with_no_confidence():
    estimate = DurationModel().estimate(job("j"))
    assert (estimate.confidence, estimate.source) == (0.0, "nothing")


def test_what_is_stated_comes_before_what_is_learned():
    model = DurationModel()
    for _ in range(5):
        model.observe(job("x"), 10.0)
    assert model.estimate(job("j", estimate_seconds=70.0)).seconds == 70.0
    assert model.estimate(job("j", limit=80.0)).source == "limit"
    assert model.estimate(job("j")).seconds == 10.0


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({"group": "g"}, "group"),
        ({"name": "n"}, "name"),
        ({"command": "c"}, "command"),
        ({"user": "ann"}, "user"),
        ({}, "team"),
    ],
)
def test_the_most_telling_key_speaks(fields, source):
    model = DurationModel()
    for _ in range(3):
        model.observe(job("x", **fields), 100.0)
    for _ in range(30):
        model.observe(job("x", user="else", name="else"), 9000.0)
    estimate = model.estimate(job("j", **fields))
    assert estimate.source == source
    if source != "team":
        assert estimate.seconds == 100.0


def test_confidence_grows_with_what_was_seen():
    model = DurationModel()
    seen = []
    for count in range(1, 40):
        model.observe(job("x"), 10.0 + count)
        seen.append(model.estimate(job("j")).confidence)
    assert seen == sorted(seen)
    assert 0.7 < seen[-1] < 1.0


def test_a_job_that_ran_on_is_taken_to_be_longer():
    model = DurationModel()
    for number in range(200):
        model.observe(job("x"), 30.0 if number % 10 else 50_000.0)
    rows = model.rows(job("j"))
    assert rows[level_of(1000.0)] > 20 * rows[level_of(0.0)]


def test_nine_of_ten_end_within_the_bound():
    model = DurationModel()
    for number in range(1, 101):
        model.observe(job("x"), number * 10.0)
    bound = model.bound_seconds(job("j"))
    assert 900.0 <= bound <= 900.0 * 1.5
    assert level_of(EDGES[-1]) == len(EDGES)
