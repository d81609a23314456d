"""Queues and shares in a config file, checked before anything starts."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.jobs.queues import QueueSettings, TeamShare, read_config


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
    ],
)
def test_a_wrong_table_is_named(queues: dict[str, object], teams: dict[str, object]) -> None:
    with pytest.raises(SetupError, match=r"queues\.q|teams\.lab"):
        read_config(queues, teams)
