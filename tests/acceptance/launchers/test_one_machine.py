"""The programs of the first lessons on one machine that stands for two nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.launchers import programs

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("launchers")
    server = JobServer(folder / "home", gpus=0, config="declared_nodes = 2\n")
    server.start()
    server.wait_for_nodes()
    (folder / "user").mkdir()
    yield Yard(server, folder / "user")
    server.kill()
    end_all(server.home)


def test_one_process_on_one_node(yard: Yard) -> None:
    programs.single(yard)


def test_torchrun_on_two_nodes_goes_on_from_its_snapshot(yard: Yard) -> None:
    programs.twice_over_two_nodes(yard)


def test_the_trainer_on_one_node_and_on_two(yard: Yard) -> None:
    programs.trainer(yard, 1)
    programs.trainer(yard, 2)


def test_mpirun_reaches_the_other_node_without_ssh(yard: Yard) -> None:
    programs.by_mpirun(yard)


def test_the_sites_own_batch_scripts(yard: Yard) -> None:
    programs.by_the_sites_scripts(yard)


def test_a_gang_is_looked_at_before_a_job_and_by_the_doctor(yard: Yard) -> None:
    job = yard.submit("--no-working-dir", "--nodes", "2", "--preflight", "--", "echo", "it runs")
    printed = programs.finished(yard, job)
    assert '[yard] preflight {"ok": true' in printed
    assert "it runs" in printed
    said = yard.run("doctor", "--gang", "--json", patience=programs.PATIENCE)
    assert said.code == 0, said.err
    assert [row["node"] for row in said.data["looks"][0]["nodes"]] == ["node-0", "node-1"]
    assert said.data["quarantined"] == []
