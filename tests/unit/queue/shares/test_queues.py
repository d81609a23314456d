"""Queues and shares in a config file, checked before anything starts."""

import pytest

from trackyard.core.errors import InvalidInput, SetupError
from trackyard.queue.shares.queues import QueueSettings, TeamShare, read_config
from trackyard.queue.shares.settings import check_departments, quota_of


def test_tables_become_queues_and_shares() -> None:
    found = read_config({"short": {"max_wall_seconds": 3600}}, {"lab": {"share": 2}})
    assert found.queues == {"short": QueueSettings(max_wall_seconds=3600)}
    assert found.shares == {"lab": TeamShare(share=2)}


@pytest.mark.parametrize(
    ("queues", "teams"),
    [
        ({"q": {"max_walltime": 1}}, {}),
        ({"q": {"order": "chaos"}}, {}),
        ({"q": {"max_running": -1}}, {}),
        ({}, {"lab": {"share": 0}}),
        ({}, {"lab": {"share": "much"}}),
        ({}, {"lab": {"lendable_gpus": 2}}),
        ({}, {"lab": {"quota_gpus": 2, "lendable_gpus": -1}}),
    ],
)
def test_a_wrong_table_is_named(queues: dict[str, object], teams: dict[str, object]) -> None:
    with pytest.raises(SetupError, match=r"queues\.q|teams\.lab"):
        read_config(queues, teams)


def test_departments_that_make_sense_pass() -> None:
    shares = {
        "ai": TeamShare(quota_gpus=8),
        "vision": TeamShare(parent="ai", quota_gpus=6),
        "audio": TeamShare(parent="ai"),
        "tts": TeamShare(parent="audio", quota_gpus=2),
    }
    check_departments(shares)
    assert quota_of("audio", shares) == 2


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"a": TeamShare(parent="nobody")}, "which is no team"),
        ({"a": TeamShare(parent="a")}, "circle: a in a"),
        ({"a": TeamShare(parent="b"), "b": TeamShare(parent="a")}, "circle"),
        ({"a": TeamShare(quota_gpus=4), "b": TeamShare(parent="a", quota_gpus=5)}, "own 5 GPUs"),
        (
            {f"t{n}": TeamShare(parent=f"t{n + 1}" if n < 9 else "") for n in range(10)},
            "below 9 departments",
        ),
    ],
)
def test_departments_that_make_none_are_refused(shares: dict[str, TeamShare], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        check_departments(shares)
