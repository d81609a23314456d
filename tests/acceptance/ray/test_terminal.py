"""A shell on a node of a Ray cluster: the runner there opens its way to the server."""

import pytest

from tests.acceptance.interactive.typing import shell_on
from tests.acceptance.ray.conftest import Front

#: It needs a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone


def test_a_shell_on_a_ray_node_knows_its_size_and_its_code_is_the_jobs(front: Front) -> None:
    """What is typed reaches the node, what it prints comes back, and its end is the job's."""
    server = front.server
    job = server.submit("bash", "--norc", "-i", interactive={"kind": "terminal"})
    server.wait(job, "running", patience=300)
    assert "size-27 91-" in shell_on(server.url, server.token, job)
    ended = server.wait(job, "failed", patience=300)
    assert ended["attempts"][-1]["exit_code"] == 5
