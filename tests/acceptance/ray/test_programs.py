"""The programs of the first lessons on a real Ray cluster with two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard
from tests.acceptance.launchers import programs
from tests.raycluster import RayCluster

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def yard(clear_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("programs")
    more = ["--engine", f"ray={clear_cluster.address}"]
    server = JobServer(folder / "home", gpus=0, more=more)
    server.start()
    server.wait_for_nodes()
    (folder / "user").mkdir()
    yield Yard(server, folder / "user")
    server.stop()


def test_torchrun_on_two_nodes_goes_on_from_its_snapshot(yard: Yard) -> None:
    programs.twice_over_two_nodes(yard)


def test_the_trainer_on_two_nodes(yard: Yard) -> None:
    programs.trainer(yard, 2)


def test_mpirun_reaches_the_other_node_without_ssh(yard: Yard) -> None:
    programs.by_mpirun(yard)


def test_one_process_and_the_sites_own_batch_scripts(yard: Yard) -> None:
    programs.single(yard)
    programs.by_the_sites_scripts(yard)
