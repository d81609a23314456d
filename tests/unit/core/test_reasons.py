"""The catalogue of reasons: complete, documented, and true to its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackyard.core.reasons import CATALOGUE, EVALUATING, Code, Reason, Tier, duration_words

DOCS = Path(__file__).parents[3] / "docs" / "reasons.md"


@pytest.mark.parametrize("code", Code)
def test_every_code_has_an_entry_and_a_page(code):
    """Each code has tier, sentence and remedy, and is documented."""
    entry = CATALOGUE[code]
    assert entry.sentence
    assert entry.remedy
    assert f"`{code.value}`" in DOCS.read_text()


def test_tiers_run_from_misconfigured_to_evaluating():
    assert Tier.MISCONFIGURED.rank == 0
    assert Tier.EVALUATING.rank == len(Tier) - 1
    assert sorted(Tier, key=lambda tier: tier.rank) == list(Tier)


def test_every_tier_is_used():
    assert {entry.tier for entry in CATALOGUE.values()} == set(Tier)


def test_the_sentence_is_filled_from_the_numbers():
    reason = Reason(
        code=Code.NO_FREE_GPUS, needed=4.0, free=1.0, holders=("a", "b"), holder_count=3, until=0.0
    )
    assert reason.sentence == (
        "It needs 4 GPUs and finds 1 free; what would fit is held by `a`, `b` and 1 more, "
        "until about 1970-01-01 00:00 UTC"
    )


def test_one_node_is_not_spoken_of_as_several():
    reason = Reason(code=Code.TOO_LARGE, needed=1, free=0, what="16 GPUs")
    assert reason.sentence == "It needs 1 node with 16 GPUs; even idle, the cluster has 0 of them"


def test_an_unknown_time_is_said_so():
    assert "an unknown time" in Reason(code=Code.NO_FREE_GPUS, needed=1, free=0).sentence


def test_json_has_all_of_it():
    values = EVALUATING.as_dict()
    assert values["code"] == values["tier"] == "evaluating"
    assert values["remedy"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90, "90 s"), (2700, "45 min"), (5400, "1 h 30 min"), (7200, "2 h"), (3 * 86400, "3 d")],
)
def test_durations_are_said_in_their_largest_units(seconds, words):
    assert duration_words(seconds) == words


def test_numbers_say_what_they_count():
    assert Reason(code=Code.RUNS_INTO_LEASE, free=793.0).unit == "seconds"
    assert Reason(code=Code.TOO_LARGE, needed=2, free=1).unit == "nodes"
    assert Reason(code=Code.NO_FREE_GPUS, needed=2, free=1).as_dict()["unit"] == "gpus"


def test_what_waiting_never_mends_needs_someone_to_act():
    assert Reason(code=Code.LARGER_THAN_QUOTA).needs_action
    assert not Reason(code=Code.TEAM_QUOTA).needs_action
