"""The Ray engine passes the conformance suite on a real cluster of a head and two workers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.engines.conformance import Harness, ProcessConformance
from tests.integration.engines.ray.receiver import Receiver
from tests.integration.engines.test_local import SCRIPTS, processes_of
from tests.raycluster import RayCluster
from trackyard.core.ports import (
    AttemptPhase,
    ExitCause,
    GpuShare,
    LaunchSpec,
    LeaseHold,
    NodeGrant,
    NodeReport,
)
from trackyard.engines.ray import RayEngine
from trackyard.engines.ray.submission import RaySite


class RayHarness(Harness):
    patience = 180.0
    gpu_shares = (GpuShare(index=0, fraction=0.5),)
    free_during = (0.5,)
    gpu_index = 0

    def __init__(self, cluster: RayCluster, folder: Path) -> None:
        self.cluster = cluster
        self.receiver = Receiver()
        self.receiver.start()
        self.opened: list[RayEngine] = []
        super().__init__(self.reopen(), folder)

    def reopen(self) -> RayEngine:
        site = RaySite(name="conformance", folder=str(self.cluster.folder / "node"))
        engine = RayEngine(self.cluster.address, site=site, channel=self.receiver)
        self.opened.append(engine)
        return engine

    def command(self, behaviour: str) -> tuple[str, ...]:
        return (sys.executable, "-c", SCRIPTS[behaviour])

    def spec(self, behaviour: str, **changes: object) -> LaunchSpec:
        changes.setdefault("report", self.receiver.report())
        return super().spec(behaviour, **changes)

    def ask_ray(self, method: str, path: str, body: object = None) -> Any:
        """Speak to the head past the engine."""
        answer = httpx.request(method, f"{self.cluster.address}{path}", json=body, timeout=180)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        engine = self.opened[-1]
        for report in engine.attempts():
            engine.stop(report.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        for report in engine.attempts():
            self.wait_for(report.attempt_id, AttemptPhase.EXITED, AttemptPhase.LOST)
            engine.forget(report.attempt_id)
        for opened in self.opened:
            opened.close()
        self.receiver.stop()


class TestRayEngine(ProcessConformance):
    @pytest.fixture
    def harness(self, ray_cluster: RayCluster, tmp_path: Path) -> Iterator[RayHarness]:
        ray_cluster.clear()
        harness = RayHarness(ray_cluster, tmp_path)
        yield harness
        harness.close()

    def test_a_job_sent_to_ray_directly_is_shown_and_what_it_holds_is_not_free(
        self, harness: RayHarness
    ) -> None:
        body = {"entrypoint": "sleep 600", "entrypoint_num_gpus": 1, "entrypoint_num_cpus": 2}
        name = harness.ask_ray("POST", "/api/jobs/", body)["submission_id"]

        def holder() -> NodeReport | None:
            return next((node for node in harness.engine.nodes() if node.foreign), None)

        def is_charged() -> bool:
            node = holder()
            return node is not None and ([gpu.free for gpu in node.gpus], node.free_cpus) == (
                [0.0],
                node.cpus - 2,
            )

        harness.wait_until(is_charged, "nobody saw it, or what it holds")
        node = holder()
        assert node is not None
        assert [use.name for use in node.foreign] == [name]
        assert any(name in note and "sleep 600" in note for note in node.notes)
        assert name not in [report.attempt_id for report in harness.engine.attempts()]
        harness.ask_ray("POST", f"/api/jobs/{name}/stop")
        harness.wait_until(lambda: holder() is None, "it is still charged")

    def test_what_ray_stops_by_itself_is_told_to_the_runner_and_ends_politely(
        self, harness: RayHarness
    ) -> None:
        """`ray job stop` at the head: the command alone is signalled, saves, and says so."""
        spec = harness.spec("save on stop")
        harness.engine.launch(spec)
        self.wait_for_output(harness, spec, b"ready")
        harness.ask_ray("POST", f"/api/jobs/{spec.attempt_id}/stop")
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert report.exit.cause is ExitCause.STOPPED
        record = harness.receiver.records[spec.attempt_id][0]
        assert (record["cause"], record["exit_code"], record["saved"]) == ("stopped", 85, True)

    def test_a_refused_runner_ends_its_command_at_once(self, harness: RayHarness) -> None:
        """As after a newer attempt took the job over: no process of the old one stays."""
        spec = harness.spec("ignore stop")
        harness.engine.launch(spec)
        self.wait_for_output(harness, spec, b"ready")
        assert processes_of(spec.attempt_id)
        harness.receiver.refused_ids.add(spec.attempt_id)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert report.exit.cause is ExitCause.FENCED
        assert processes_of(spec.attempt_id) == []

    def test_a_leased_node_is_kept_for_attempts_and_from_jobs_past_the_queue(
        self, harness: RayHarness
    ) -> None:
        """Ray starts no other job there, an attempt waits for nobody; its end gives it back."""
        engine, now = harness.engine, datetime.now(UTC)
        kept = min(engine.nodes(), key=lambda node: node.node_id)
        lease = LeaseHold(
            lease_id="l1",
            node_ids=(kept.node_id,),
            starts_at=now,
            ends_at=now + timedelta(hours=1),
        )
        engine.hold_lease(lease)

        def held() -> dict[str, float]:
            rows = harness.ask_ray("GET", "/api/v0/placement_groups?detail=1&limit=10000")
            amounts: dict[str, float] = {}
            for row in rows["data"]["result"]["result"]:
                bundle = row["bundles"][0]
                if row["state"] == "CREATED" and row["name"].startswith("lease-"):
                    assert row["name"].startswith(f"lease-l1-{kept.node_id}-")
                    assert bundle["node_id"] == kept.labels["ray-node-id"]
                    for kind, amount in bundle["unit_resources"].items():
                        amounts[kind] = amounts.get(kind, 0.0) + amount
            return amounts

        whole = {"GPU": float(len(kept.gpus)), "CPU": kept.cpus}
        harness.wait_until(lambda: held() == whole, f"held are {held()}, not {whole}")
        assert [node.foreign for node in engine.nodes()] == [(), ()]
        body = {
            "entrypoint": "true",
            "entrypoint_num_gpus": 1,
            "entrypoint_label_selector": {"ray.io/node-id": kept.labels["ray-node-id"]},
        }
        past = harness.ask_ray("POST", "/api/jobs/", body)["submission_id"]
        share = NodeGrant(node_id=kept.node_id, gpus=(GpuShare(index=0),), cpus=1)
        report = harness.run(harness.spec("print environment", placement=(share,), leases=("l1",)))
        assert report.exit is not None
        assert report.exit.cause is ExitCause.SUCCEEDED
        said = engine.read_log(report.attempt_id, 0, offset=0, limit=99_999)
        assert json.loads(said)["CUDA_VISIBLE_DEVICES"] == "0"
        assert harness.ask_ray("GET", f"/api/jobs/{past}")["status"] == "PENDING"
        assert held() == whole
        # Someone stops the job that keeps it: what is held stays held.
        listed = harness.ask_ray("GET", "/api/jobs/")
        [keeper] = [
            row["submission_id"]
            for row in listed
            if (row["metadata"] or {}).get("trackyard.lease") == "l1"
            and row["status"] == "RUNNING"
        ]
        harness.ask_ray("POST", f"/api/jobs/{keeper}/stop")
        for _ in range(25):
            assert held() == whole
            time.sleep(0.1)
        assert harness.ask_ray("GET", f"/api/jobs/{past}")["status"] == "PENDING"
        engine.drop_lease("l1")
        harness.wait_until(lambda: not held(), "it is still held")
        harness.wait_until(
            lambda: harness.ask_ray("GET", f"/api/jobs/{past}")["status"] == "SUCCEEDED",
            "the job past the queue did not start after the lease",
        )
