"""What the keeper of a lease holds and lets go on Ray nodes."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from trackyard.runner.ray.gang import asked_of, bundle_of
from trackyard.runner.ray.keep import (
    KeptLease,
    OwnAttempts,
    add_groups,
    followed_on,
    is_called_off,
    keep,
    own_jobs,
    place_of,
    plan,
)

LEASE = KeptLease("l1", "here", 1_000, 2_000)
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
    assert own_jobs(rows, "elsewhere", NODES) == OwnAttempts({}, set(), set(), {})


def test_what_an_attempt_was_given_is_its_own_while_it_runs() -> None:
    share = ["g1", [[0, 1.0]], 1.0, 0]
    for status in ("PENDING", "RUNNING"):
        own = own_jobs([job(status, share, given='[["3"]]')], "here", NODES)
        assert (own.given, own.wanted) == ({"aa": {"3"}}, {})
    assert own_jobs([job("FAILED", share, given='[["3"]]')], "here", NODES).given == {}


def test_each_member_of_a_gang_has_its_own_gpus_and_asks_ray_for_nothing() -> None:
    shares = [["g1", [[0, 1.0]], 1.0, 0], ["g2", [[0, 1.0]], 1.0, 0], ["g9", [], 1.0, 0]]
    own = own_jobs([job("RUNNING", *shares, given='[["3"], null, ["1"]]')], "here", NODES)
    assert own.given == {"aa": {"3"}, "bb": set()}
    share = {"gpus": 1.0, "cpus": 2.0, "memory_bytes": 0}
    assert asked_of(share) == {"GPU": 1.0, "CPU": 2.0}
    assert bundle_of({**share, "given": [{"index": 3}]}, "1.2.3.4") == {"node:1.2.3.4": 0.001}


@pytest.mark.parametrize(
    ("name", "ray_id", "now_ms", "place"),
    [
        ("lease-l1-g1-{tag}.5f", "aa", 0, ("aa", "g1")),
        ("lease-l1-old-g7-{tag}.5f", "cc", 0, ("cc", "old-g7")),
        ("lease-l0-g1-{tag}.5f", "aa", 999, None),
        ("lease-l0-g1-{tag}.5f", "aa", 1_000, ("aa", "g1")),
        ("lease-l0-g7-{tag}.5f", "cc", 1_000, None),
        ("lease-l1-g1-0ther0.5f", "aa", 1_000, None),
        ("somebody's", "aa", 1_000, None),
    ],
)
def test_a_keeper_takes_over_what_its_lease_or_an_earlier_one_held(
    name: str, ray_id: str, now_ms: int, place: tuple[str, str] | None
) -> None:
    row = {"name": name.format(tag=LEASE.tag), "bundles": [{"node_id": ray_id}]}
    assert place_of(row, LEASE, NODES, now_ms) == place


def test_what_is_held_is_left_to_the_next_lease_from_its_begin_to_its_end() -> None:
    words = {
        "trackyard.site": "here",
        "trackyard.lease": "l2",
        "trackyard.times": "[2000, 3000]",
        "trackyard.nodes": '["g1"]',
    }
    running = [{"status": "RUNNING", "metadata": words}]
    assert [followed_on(running, LEASE, now) for now in (1_999, 2_000, 3_000)] == [
        set(),
        {"g1"},
        set(),
    ]
    assert followed_on([{"status": "STOPPED", "metadata": words}], LEASE, 2_000) == set()
    mine = [{"status": "RUNNING", "metadata": {**words, "trackyard.lease": "l1"}}]
    assert followed_on(mine, LEASE, 2_000) == set()


def test_a_keeper_lets_go_when_its_lease_was_called_off() -> None:
    words = {"trackyard.site": "here", "trackyard.lease": "l1", "trackyard.times": "[1500, 1500]"}
    rows = [{"status": "PENDING", "metadata": words}]
    assert is_called_off(rows, LEASE, 1_500)
    assert not is_called_off(rows, KeptLease("l2", "here", 1_000, 2_000), 1_500)
    itself = {**words, "trackyard.times": "[1000, 2000]"}
    assert not is_called_off([{"status": "RUNNING", "metadata": itself}], LEASE, 1_500)


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
    add_groups(wanted, [row], OwnAttempts({}, {"01", "02"}, {"01"}, {}), list(NODES))
    assert wanted == {node: {"GPU": 1.0, "CPU": 2.0} for node in nodes}


class GoneCluster:
    """A keeper whose cluster does not answer any more."""

    is_closing = False
    holds_any = True

    def look(self) -> None:
        raise ConnectionError("no cluster")


def test_a_keeper_ends_when_its_cluster_tells_nothing_any_more() -> None:
    keeper: Any = GoneCluster()
    assert keep(keeper, threading.Event(), patience_seconds=-1.0) == 1
