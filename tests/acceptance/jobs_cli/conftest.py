"""Servers with declared GPUs for the tests of the queue by command line."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all


@pytest.fixture
def yard_with(tmp_path: Path) -> Iterator[Callable[..., Yard]]:
    """Start a server with so many GPUs and return its admin's command line."""
    made: list[JobServer] = []

    def start(*more: str, gpus: int = 2) -> Yard:
        server = JobServer(tmp_path / f"home-{len(made)}", gpus=gpus, more=list(more))
        made.append(server)
        server.start()
        server.wait_for_nodes()
        folder = tmp_path / f"user-{len(made)}"
        folder.mkdir()
        return Yard(server, folder)

    yield start
    for server in made:
        server.kill()
        end_all(server.home)


@pytest.fixture(scope="module")
def _one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    server = JobServer(tmp_path_factory.mktemp("jobs") / "home", gpus=2)
    server.start()
    server.wait_for_nodes()
    yield Yard(server, tmp_path_factory.mktemp("user"))
    server.kill()
    end_all(server.home)


@pytest.fixture
def shared(_one_server: Yard) -> Iterator[Yard]:
    """A server with two declared GPUs that the tests of a module share; each finds it idle."""
    yield _one_server
    _one_server.ok("stop", "--mine", "--now", "--wait")
