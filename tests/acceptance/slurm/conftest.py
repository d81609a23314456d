"""A server whose engine is the session's Slurm, by the shared folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.slurmcluster import SlurmCluster

CONFIG = """
engine = "slurm"

[slurm]
folder = "{folder}"
conf = "{conf}"
python = "/usr/bin/python3"
"""


@pytest.fixture(scope="module")
def _slurm_server(
    _whole_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("slurm")
    config = CONFIG.format(folder=folder / "shared", conf=_whole_slurm.conf)
    server = JobServer(folder / "home", config=config)
    server.start()
    server.wait_for_nodes()
    (folder / "user").mkdir()
    yield Yard(server, folder / "user")
    server.kill()
    end_all(folder)


@pytest.fixture
def yard(_slurm_server: Yard, slurm_cluster: SlurmCluster) -> Iterator[Yard]:
    """The admin's command line of a server on an idle Slurm."""
    yield _slurm_server
    _slurm_server.ok("stop", "--mine", "--now", "--wait")


@pytest.fixture
def scripts(_slurm_server: Yard) -> Path:
    """The user's folder."""
    return _slurm_server.folder
