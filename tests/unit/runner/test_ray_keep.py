"""What the keeper of a lease holds and lets go on Ray nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trackyard.runner.ray_keep import Own, add_groups, own_jobs, plan

NODES = {"aa": "g1", "bb": "g2"}


def job(status: str, *placement: list[Any], given: str = "", **more: Any) -> dict[str, Any]:
    words = {"trackyard.site": "here", "trackyard.placement": json.dumps(placement)}
    if given:
        words["trackyard.given"] = given
    return {"status": status, "job_id": "01", "metadata": words, **more}


@pytest.mark.parametrize(
    ("free", "held", "wanted", "dropped", "taken"),
    [
        ({"GPU": 2.0, "CPU": 8.0}, [], {}, [], [{"GPU": 1.0}, {"GPU": 1.0}, {"CPU": 8.0}]),
        ({"GPU": 0.5}, [], {}, [], [{"GPU": 0.5}]),
        ({}, [{"GPU": 1.0}, {"GPU": 1.0}, {"CPU": 8.0}], {"GPU": 1.0}, [0], []),
        ({}, [{"GPU": 1.0}, {"CPU": 8.0}], {"GPU": 1.0, "CPU": 2.0}, [0, 1], []),
        ({"CPU": 8.0}, [{"GPU": 1.0}], {"CPU": 2.0}, [], [{"CPU": 6.0}]),
        ({"GPU": 1.0}, [{"GPU": 1.0}], {"GPU": 1.0}, [], []),
        ({}, [{"GPU": 1.0}], {"GPU": 4.0}, [0], []),
        ({"memory": 1e9}, [], {}, [], []),
    ],
)
def test_all_that_is_free_is_held_but_what_attempts_wait_for(
    free: dict[str, float],
    held: list[dict[str, float]],
    wanted: dict[str, float],
    dropped: list[int],
    taken: list[dict[str, float]],
) -> None:
    assert plan(free, held, wanted) == (dropped, taken)


def test_an_attempt_that_waits_for_ray_is_made_room_for_on_its_node() -> None:
    share = ["g1", [[0, 1.0], [1, 1.0]], 4.0, 0]
    assert own_jobs([job("PENDING", share)], "here", NODES).wanted == {
        "aa": {"GPU": 2.0, "CPU": 4.0}
    }
    assert own_jobs([job("PENDING", ["g9", [], 1.0, 0])], "here", NODES).wanted == {}
    assert own_jobs([job("SUCCEEDED", share)], "here", NODES).wanted == {}


def test_jobs_of_others_count_for_nothing() -> None:
    share = ["g1", [[0, 1.0]], 1.0, 0]
    rows = [job("PENDING", share), {"status": "PENDING", "metadata": None}]
    assert own_jobs(rows, "elsewhere", NODES) == Own({}, set(), set(), {})


def test_what_an_attempt_was_given_is_its_own_while_it_runs() -> None:
    share = ["g1", [[0, 1.0]], 1.0, 0]
    for status in ("PENDING", "RUNNING"):
        own = own_jobs([job(status, share, given='["3"]')], "here", NODES)
        assert (own.given, own.wanted) == ({"aa": {"3"}}, {})
    assert own_jobs([job("FAILED", share, given='["3"]')], "here", NODES).given == {}


def group(creator: str, state: str = "PENDING", selector: str = "") -> dict[str, Any]:
    label = {"ray.io/node-id": selector} if selector else {}
    bundle = {"unit_resources": {"GPU": 1.0, "CPU": 2.0}, "label_selector": label}
    return {"creator_job_id": creator, "state": state, "bundles": [bundle]}


@pytest.mark.parametrize(
    ("row", "nodes"),
    [
        (group("01", selector="bb"), ["bb"]),
        (group("02", selector="in(aa,bb)"), ["aa", "bb"]),
        (group("01"), ["aa", "bb"]),
        (group("02"), []),
        (group("02", selector="cc"), []),
        (group("03", selector="aa"), []),
        (group("01", state="CREATED"), []),
    ],
)
def test_a_group_of_ours_is_made_room_for_where_it_may_go(
    row: dict[str, Any], nodes: list[str]
) -> None:
    """Job 01 runs on a leased node, 02 elsewhere, 03 is not ours."""
    wanted: dict[str, dict[str, float]] = {}
    add_groups(wanted, [row], Own({}, {"01", "02"}, {"01"}, {}), list(NODES))
    assert wanted == {node: {"GPU": 1.0, "CPU": 2.0} for node in nodes}
