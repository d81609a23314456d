"""A shell on a node of a Slurm site whose nodes reach the server, and one whose nodes do not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.interactive.typing import shell_on
from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.slurm.conftest import CONFIG
from tests.slurmcluster import SlurmCluster


@pytest.fixture
def reached(slurm_cluster: SlurmCluster, tmp_path: Path) -> Iterator[Yard]:
    """A server that the nodes of its Slurm reach."""
    config = CONFIG.format(folder=tmp_path / "shared", conf=slurm_cluster.conf)
    server = JobServer(tmp_path / "home", config=config + "nodes_reach_server = true\n")
    server.start()
    server.wait_for_nodes()
    (tmp_path / "user").mkdir()
    yard = Yard(server, tmp_path / "user")
    yield yard
    yard.ok("stop", "--mine", "--now", "--wait")
    server.kill()
    end_all(tmp_path)


def test_a_shell_on_a_slurm_node_and_the_words_where_there_is_no_way(
    reached: Yard, yard: Yard
) -> None:
    """The terminal works where nodes reach the server; elsewhere the log says why it does not."""
    words = ("idev", "--detach", "--no-working-dir", "--", "bash", "--norc", "-i")
    job = reached.ok(*words).strip()
    reached.until_state(job, "running")
    server = reached.server
    assert "size-27 91-" in shell_on(server.url, server.token, job)
    ended = reached.until_state(job, "failed")
    assert ended["attempts"][-1]["exit_code"] == 5
    alone = yard.ok(*words).strip()
    yard.until_state(alone, "running")
    yard.until_printed(alone, "nobody can attach to this job")
