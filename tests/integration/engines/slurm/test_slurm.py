"""The Slurm engine passes the conformance suite on a real cluster of two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.engines.conformance import Harness, ProcessConformance
from tests.integration.engines.test_local import SCRIPTS
from tests.slurmcluster import SlurmCluster
from trackyard.core.ports import AttemptPhase, ExitCause, GpuShare
from trackyard.engines.slurm import Site, SlurmEngine

#: the nodes' own Python, which is another than the tests'
PYTHON = "/usr/bin/python3"


class SlurmHarness(Harness):
    """An engine over the session's cluster, with a folder of its own."""

    patience = 40.0
    gpu_shares = (GpuShare(index=0), GpuShare(index=1))
    free_during = (0.0, 0.0)
    gpu_index = 0

    def __init__(self, cluster: SlurmCluster, folder: Path, **changes: object) -> None:
        self.cluster = cluster
        self.site = Site(
            name=folder.name.replace("_", "-"),
            folder=folder,
            python=PYTHON,
            conf=str(cluster.conf),
            **changes,  # type: ignore[arg-type]
        )
        self.opened: list[SlurmEngine] = []
        super().__init__(self.reopen(), folder)

    def reopen(self, **changes: object) -> SlurmEngine:
        engine = SlurmEngine(replace(self.site, **changes))  # type: ignore[arg-type]
        self.opened.append(engine)
        return engine

    def command(self, behaviour: str) -> tuple[str, ...]:
        return (PYTHON, "-c", SCRIPTS[behaviour])

    def clear(self) -> None:
        """End and forget what a test started; leave the first engine as it was."""
        while len(self.opened) > 1:
            self.opened.pop().close()
        self.engine = engine = self.opened[0]
        for report in engine.attempts():
            engine.stop(report.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        for report in engine.attempts():
            self.wait_for(report.attempt_id, AttemptPhase.EXITED, AttemptPhase.LOST)
            engine.forget(report.attempt_id)
        self.cluster.wait_until_idle()

    def close(self) -> None:
        self.clear()
        self.engine.close()


@pytest.fixture(scope="module")
def lasting(
    _whole_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SlurmHarness]:
    harness = SlurmHarness(_whole_slurm, tmp_path_factory.mktemp("lasting"))
    yield harness
    harness.close()


class TestSlurmEngine(ProcessConformance):
    @pytest.fixture
    def harness(
        self, slurm_cluster: SlurmCluster, lasting: SlurmHarness
    ) -> Iterator[SlurmHarness]:
        yield lasting
        lasting.clear()
