"""Which GPUs of a kept node an attempt gets, and what the keeper's job is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.engines.test_ray import NODE, SITE, launch
from trackyard.core.ports import GpuShare, LeaseHold, NodeGrant
from trackyard.engines.ray import submission
from trackyard.engines.ray.api import ClusterInfo as ClusterFacts
from trackyard.engines.ray.keeping import LeaseKeepers, keeper_job, read_held
from trackyard.engines.ray.nodes import RayNode
from trackyard.engines.ray.submission import GivenGpu
from trackyard.runner.ray.keep import KeptLease
from trackyard.testing.clock import FakeClock

HOLD = LeaseHold(
    lease_id="l1",
    node_ids=("gpu-1",),
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    ends_at=datetime(2026, 1, 2, tzinfo=UTC),
)


class Cluster:
    """A head with one keeper, as far as keepers ask it."""

    def __init__(self, held: str) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.held = held
        self.pauses: list[float] = []

    def keepers(self) -> dict[str, dict[str, Any]]:
        return {"keeper": {**keeper_job(HOLD, [NODE], SITE), "status": "RUNNING"}}

    def jobs(self) -> dict[str, dict[str, Any]]:
        return self.rows

    def logs(self, _job: str) -> bytes:
        return f"hello\n[yard-held] {{}}\n[yard-held] {self.held}\n".encode()

    def give(self, attempt: str, *indexes: int, fraction: float = 1.0) -> list[str] | None:
        shares = tuple(GpuShare(index=index, fraction=fraction) for index in indexes)
        spec = launch(attempt_id=attempt, placement=(NodeGrant(node_id="gpu-1", gpus=shares),))
        keepers = LeaseKeepers(self, self, SITE, FakeClock(), pause=self.pauses.append)  # type: ignore[arg-type]
        given = keepers.give(spec)
        if given is None:
            return None
        words = submission.metadata(spec, SITE, given)
        self.rows[attempt] = {"status": "RUNNING", "metadata": words}
        [mine] = given
        return None if mine is None else [gpu.name for gpu in mine]


def test_held_gpus_go_to_attempts_once_and_parts_of_one_to_several() -> None:
    cluster = Cluster('{"gpu-1": [["2", "nvidia"], ["10", "nvidia"]]}')
    assert cluster.give("j1-a1", 1, fraction=0.5) == ["2"]
    assert cluster.give("j2-a1", 1, fraction=0.5) == ["2"]
    assert cluster.give("j3-a1", 0) == ["10"]
    assert cluster.give("j4-a1", 2) is None
    assert cluster.give("j5-a1") == []
    cluster.rows["j3-a1"]["status"] = "SUCCEEDED"
    assert cluster.give("j6-a1", 2) == ["10"]


def test_a_keeper_that_does_not_say_what_it_holds_is_waited_for_and_then_left_to_ray() -> None:
    cluster = Cluster('{"gpu-1": null}')
    assert cluster.give("j1-a1", 0) is None
    assert sum(cluster.pauses) == 10


def test_a_keeper_that_closes_gives_nothing() -> None:
    cluster = Cluster("closed")
    assert cluster.give("j1-a1") is None
    assert cluster.pauses == []


def test_what_is_given_asks_ray_for_nothing_and_tells_the_runner() -> None:
    given = [(GivenGpu(name="7", vendor="amd", fraction=0.5),)]
    cluster = ClusterFacts(ray_version="2.60.0", session="s")
    body = submission.submission(
        launch(), [NODE], cluster, SITE, submission.CarriedFiles(), given=given
    )
    assert body["entrypoint_num_cpus"] == 0
    assert "entrypoint_num_gpus" not in body
    assert body["entrypoint_label_selector"] == {"ray.io/node-id": NODE.ray_id}
    assert json.loads(body["metadata"][submission.GIVEN]) == [["7"]]
    told = submission.node_spec(launch(), [NODE], SITE, submission.CarriedFiles(), given)
    assert told["ray"]["members"][0]["given"] == [{"index": 7, "fraction": 0.5, "vendor": "amd"}]


def test_another_end_or_another_life_of_a_node_is_another_keeper() -> None:
    longer = replace(HOLD, ends_at=HOLD.ends_at + timedelta(hours=1))
    again = replace(NODE, ray_id="c" * 56)
    names = {
        keeper_job(hold, [node], SITE)["submission_id"]
        for hold, node in ((HOLD, NODE), (longer, NODE), (HOLD, again), (HOLD, NODE))
    }
    assert len(names) == 3


def test_members_of_a_gang_get_held_gpus_of_their_own_nodes() -> None:
    cluster = Cluster('{"gpu-1": [["2", "nvidia"], ["10", "nvidia"]]}')
    keepers = LeaseKeepers(cluster, cluster, SITE, FakeClock(), pause=cluster.pauses.append)  # type: ignore[arg-type]
    share = NodeGrant(node_id="gpu-1", gpus=(GpuShare(index=0),))
    shares = (share, replace(share, gpus=(GpuShare(index=1),)), replace(share, node_id="gpu-2"))
    given = keepers.give(launch(attempt_id="j1-a1", placement=shares))
    assert given is not None
    assert [one and [gpu.name for gpu in one] for one in given] == [["2"], ["10"], None]


class Head:
    """A head of one node, as far as starts and ends of keepers go; past jobs are on the node."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.listed: dict[str, dict[str, Any]] = {}
        self.groups: list[dict[str, Any]] = []
        self.past: list[dict[str, Any]] = []
        self.stopped: list[str] = []

    # the view
    def nodes(self) -> list[RayNode]:
        return [NODE]

    def keepers(self) -> dict[str, dict[str, Any]]:
        return dict(self.listed)

    def others(self) -> list[dict[str, Any]]:
        return self.past

    def look_again(self) -> None:
        pass

    # the head's own calls
    def has_package(self, _name: str) -> bool:
        return True

    def submit(self, body: dict[str, Any]) -> bool:
        self.listed[body["submission_id"]] = {**body, "status": "RUNNING"}
        return True

    def stop(self, name: str) -> bool:
        self.stopped.append(name)
        if name in self.listed:
            ended_ms = int(self.clock.now().timestamp() * 1000)
            self.listed[name].update(status="STOPPED", end_time=ended_ms)
        return True

    def delete(self, name: str) -> bool:
        return self.listed.pop(name, None) is not None

    def placement_groups(self) -> list[dict[str, Any]]:
        return self.groups

    def actors(self) -> list[dict[str, Any]]:
        return [
            {
                "name": f"_ray_internal_job_actor_{row['submission_id']}",
                "state": "ALIVE",
                "node_id": NODE.ray_id,
                "required_resources": {"GPU": 1.0},
            }
            for row in self.past
        ]

    def hold(self, lease: str) -> None:
        tag = KeptLease(lease, SITE.name, 0, 0).tag
        bundle = {"node_id": NODE.ray_id, "unit_resources": {"GPU": 1.0}}
        self.groups = [
            {"name": f"lease-{lease}-gpu-1-{tag}.1", "state": "CREATED", "bundles": [bundle]}
        ]


class Scene:
    """Keepers at a head, and what they said."""

    def __init__(self, *, clears: bool = False) -> None:
        self.clock = FakeClock()
        self.head = Head(self.clock)
        self.said: list[tuple[str, str]] = []
        self.keepers = LeaseKeepers(
            self.head,  # type: ignore[arg-type]
            self.head,  # type: ignore[arg-type]
            replace(SITE, clears_leases=clears),
            self.clock,
            tell=lambda kind, _lease, words: self.said.append((kind.value, words)),
        )
        now = self.clock.now()
        self.keepers.hold(replace(HOLD, starts_at=now, ends_at=now + timedelta(hours=1)))
        self.keepers.look()
        self.head.hold("l1")

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.keepers.look()


def test_a_keeper_that_was_stopped_is_started_again_and_told_of_once() -> None:
    scene = Scene()
    [name] = scene.head.listed
    scene.later(30)
    assert scene.said == []
    for _ in range(2):
        scene.head.stop(name)
        scene.later(1)
        assert scene.head.listed[name]["status"] == "STOPPED"
        scene.later(30)
        assert scene.head.listed[name]["status"] == "RUNNING"
    [(kind, words)] = scene.said
    assert kind == "lease_shaken"
    assert "was stopped; another is started, and what it held is held on." in words


def test_a_head_that_began_anew_leaves_the_node_open_until_the_keeper_is_there() -> None:
    scene = Scene()
    scene.later(1)
    scene.head.listed.clear()
    scene.head.groups.clear()
    scene.later(30)
    assert len(scene.head.listed) == 1
    [(_, words)] = scene.said
    assert "is gone; another is started" in words
    assert "jobs past the queue may start there" in words


def test_a_dropped_lease_is_let_go_by_another_job_and_all_of_them_are_cleared_away() -> None:
    scene = Scene()
    [name] = scene.head.listed
    scene.keepers.drop("l1")
    [closer] = [row for key, row in scene.head.listed.items() if key != name]
    starts_ms, ends_ms = json.loads(closer["metadata"][submission.TIMES])
    assert starts_ms == ends_ms
    scene.later(1)
    assert scene.head.stopped == [name]
    scene.later(10)
    assert list(scene.head.listed) == [closer["submission_id"]]
    scene.head.groups.clear()
    closer_row = scene.head.listed[closer["submission_id"]]
    closer_row.update(status="SUCCEEDED", end_time=0)
    scene.later(1)
    assert scene.head.listed == {}


def test_what_is_held_for_nobody_is_let_go() -> None:
    """As after a keeper and this server were killed in the same hour."""
    scene = Scene()
    [name] = scene.head.listed
    scene.later(60)
    assert list(scene.head.listed) == [name]
    scene.keepers.drop("l1")
    scene.head.listed.clear()
    scene.head.hold("l0")
    scene.later(60)
    [found] = scene.head.listed
    assert found.startswith("lease-sweep-")


@pytest.mark.parametrize("clears", [False, True])
def test_a_job_past_the_queue_on_a_leased_node_is_named_and_stopped_if_that_is_set(
    clears: bool,
) -> None:
    scene = Scene(clears=clears)
    scene.head.past = [{"submission_id": "raysubmit_1", "entrypoint": "sleep 9"}]
    scene.later(30)
    scene.later(30)
    assert scene.head.stopped == (["raysubmit_1"] * 2 if clears else [])
    [(kind, words)] = scene.said
    assert kind == "lease_crossed"
    assert words.startswith("The Ray job raysubmit_1 (sleep 9) runs past the queue on gpu-1")
    assert words.endswith("was asked to stop." if clears else "would have Ray stop it.")


def test_a_gpu_without_a_number_is_not_given() -> None:
    log = b'[yard-held] {"g1": [["GPU-5f0e", "nvidia"], ["1", "nvidia"]]}\n'
    assert read_held(log) == {"g1": [("1", "nvidia")]}
    assert read_held(b"nothing yet\n") == {}


def test_limits_of_the_config_reach_the_runner() -> None:
    site = replace(SITE, limits={"disk_fail_gb": 3.0})
    told = submission.node_spec(launch(), [NODE], site, submission.CarriedFiles())
    assert told["health"] == {"limits": {"disk_fail_gb": 3.0}}
