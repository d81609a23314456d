"""The Slurm engine over the session's cluster, for the conformance suite and its own tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.integration.engines.conformance import Harness
from tests.integration.engines.test_local import SCRIPTS
from tests.slurmcluster import SlurmCluster
from trackyard.core.ports import AttemptPhase, ExitCause, GpuShare
from trackyard.engines.slurm import SlurmEngine, SlurmSite

#: the nodes' own Python, which is another than the tests'
PYTHON = "/usr/bin/python3"


class SlurmHarness(Harness):
    """An engine over the session's cluster, with a folder of its own."""

    patience = 240.0
    gpu_shares = (GpuShare(index=0), GpuShare(index=1))
    free_during = (0.0, 0.0)
    gpu_index = 0

    def __init__(self, cluster: SlurmCluster, folder: Path, **changes: object) -> None:
        self.cluster = cluster
        site = SlurmSite(
            name=folder.name.replace("_", "-"),
            folder=folder,
            python=PYTHON,
            conf=str(cluster.conf),
        )
        self.site = replace(site, **changes)  # type: ignore[arg-type]
        self.opened: list[SlurmEngine] = []
        super().__init__(self.reopen(), folder)

    def reopen(self) -> SlurmEngine:
        engine = SlurmEngine(self.site)
        self.opened.append(engine)
        return engine

    def command(self, behaviour: str) -> tuple[str, ...]:
        return (PYTHON, "-c", SCRIPTS[behaviour])

    def slurm_id(self, attempt_id: str) -> str:
        """The id that Slurm gave to an attempt's job."""
        return self.cluster.run("squeue", "-h", "-t", "all", "-n", attempt_id, "-o", "%i")

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

    def close(self) -> None:
        self.clear()
        self.engine.close()
