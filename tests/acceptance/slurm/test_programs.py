"""The programs of the first lessons on a real Slurm of two nodes."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs_cli.yarding import Yard
from tests.acceptance.launchers import programs

pytestmark = pytest.mark.timeout(900)


def test_one_process_on_one_node(yard: Yard) -> None:
    programs.single(yard)


def test_torchrun_on_two_nodes_goes_on_from_its_snapshot(yard: Yard) -> None:
    programs.twice_over_two_nodes(yard)


def test_the_trainer_on_two_nodes(yard: Yard) -> None:
    programs.trainer(yard, 2)


def test_mpirun_reaches_the_other_node_without_ssh(yard: Yard) -> None:
    programs.by_mpirun(yard)


def test_the_sites_own_batch_scripts(yard: Yard) -> None:
    programs.by_the_sites_scripts(yard)
