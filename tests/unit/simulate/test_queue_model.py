"""The queue's promises, checked in random histories and in those that it once failed.

`YARD_MODEL_SEED=N` runs one history alone; `YARD_MODEL_HISTORIES=N` sets how many each part runs.
A failure prints the seed, the smallest history that shows it and what happened.
"""

from __future__ import annotations

import os

import pytest

from trackyard.simulate.check.generate import generate
from trackyard.simulate.check.run import check, explain
from trackyard.simulate.check.scenarios import SCENARIOS

ONLY = os.environ.get("YARD_MODEL_SEED", "")
HISTORIES = int(os.environ.get("YARD_MODEL_HISTORIES", "10"))
PARTS = 20
FIRST_SEEDS = [int(ONLY)] if ONLY else [part * HISTORIES for part in range(PARTS)]


def assert_kept(outcome):
    if outcome.violations:
        pytest.fail(explain(outcome), pytrace=False)


@pytest.mark.parametrize("first", FIRST_SEEDS)
def test_promises_hold_in_random_histories(first):
    """Whatever comes, no promise of the queue is broken."""
    for seed in range(first, first + (1 if ONLY else HISTORIES)):
        assert_kept(check(generate(seed)))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_promises_hold_where_they_were_broken_once(name):
    """Twins, siblings, urgent jobs and owners of quotas get what they were promised."""
    assert_kept(check(SCENARIOS[name]()))
