"""The Slurm engine passes the conformance suite on a real cluster of two nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.engines.conformance import ProcessConformance
from tests.integration.engines.slurm.harness import SlurmHarness
from tests.slurmcluster import SlurmCluster


@pytest.fixture(scope="module")
def lasting(
    _whole_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SlurmHarness]:
    """One engine for the tests that leave it as they found it."""
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
