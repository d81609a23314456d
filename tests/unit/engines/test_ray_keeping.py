"""Which GPUs of a kept node an attempt gets, and what the keeper's job is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.engines.test_ray import NODE, SITE, launch
from trackyard.core.ports import GpuShare, LeaseHold, NodeShare
from trackyard.engines.ray import submission
from trackyard.engines.ray.api import Cluster as ClusterFacts
from trackyard.engines.ray.keeping import Keepers, keeper_job, read_held
from trackyard.engines.ray.submission import GivenGpu
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
        spec = launch(attempt_id=attempt, placement=(NodeShare(node_id="gpu-1", gpus=shares),))
        keepers = Keepers(self, self, SITE, FakeClock(), pause=self.pauses.append)  # type: ignore[arg-type]
        given = keepers.give(spec)
        if given is None:
            return None
        words = submission.metadata(spec, SITE, given)
        self.rows[attempt] = {"status": "RUNNING", "metadata": words}
        return [gpu.name for gpu in given]


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
    given = (GivenGpu(name="7", vendor="amd", fraction=0.5),)
    cluster = ClusterFacts(ray_version="2.60.0", session="s")
    body = submission.submission(
        launch(), [NODE], cluster, SITE, submission.Carried(), given=given
    )
    assert body["entrypoint_num_cpus"] == 0
    assert "entrypoint_num_gpus" not in body
    assert body["entrypoint_label_selector"] == {"ray.io/node-id": NODE.ray_id}
    assert json.loads(body["metadata"][submission.GIVEN]) == ["7"]
    told = submission.node_spec(launch(), [NODE], SITE, submission.Carried(), given)
    assert told["ray"]["members"][0]["given"] == [{"index": 7, "fraction": 0.5, "vendor": "amd"}]


def test_another_end_or_another_life_of_a_node_is_another_keeper() -> None:
    longer = replace(HOLD, ends_at=HOLD.ends_at + timedelta(hours=1))
    again = replace(NODE, ray_id="c" * 56)
    names = {
        keeper_job(hold, [node], SITE)["submission_id"]
        for hold, node in ((HOLD, NODE), (longer, NODE), (HOLD, again), (HOLD, NODE))
    }
    assert len(names) == 3


def test_a_gpu_without_a_number_is_not_given() -> None:
    log = b'[yard-held] {"g1": [["GPU-5f0e", "nvidia"], ["1", "nvidia"]]}\n'
    assert read_held(log) == {"g1": [("1", "nvidia")]}
    assert read_held(b"nothing yet\n") == {}


def test_limits_of_the_config_reach_the_runner() -> None:
    site = replace(SITE, limits={"disk_fail_gb": 3.0})
    told = submission.node_spec(launch(), [NODE], site, submission.Carried())
    assert told["health"] == {"limits": {"disk_fail_gb": 3.0}}
