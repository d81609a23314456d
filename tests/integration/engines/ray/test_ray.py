"""The Ray engine passes the conformance suite on a real cluster of a head and two workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engines.conformance import Harness, ProcessConformance
from tests.integration.engines.ray.receiver import Receiver
from tests.integration.engines.test_local import SCRIPTS
from tests.raycluster import RayCluster
from trackyard.core.ports import AttemptPhase, ExitCause, GpuShare, LaunchSpec
from trackyard.engines.ray import RayEngine
from trackyard.engines.ray.submission import Site


class RayHarness(Harness):
    patience = 120.0
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
        site = Site(name="conformance", folder=str(self.cluster.folder / "node"))
        engine = RayEngine(self.cluster.address, site=site, channel=self.receiver)
        self.opened.append(engine)
        return engine

    def command(self, behaviour: str) -> tuple[str, ...]:
        return (sys.executable, "-c", SCRIPTS[behaviour])

    def spec(self, behaviour: str, **changes: object) -> LaunchSpec:
        changes.setdefault("report", self.receiver.report())
        return super().spec(behaviour, **changes)

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
        harness = RayHarness(ray_cluster, tmp_path)
        yield harness
        harness.close()
