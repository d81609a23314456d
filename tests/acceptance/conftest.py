"""Servers for the acceptance tests: one shared by all, and as many fresh ones as a test asks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.postgres import Postgres
from tests.acceptance.serving import TrackingServer


@pytest.fixture(scope="session")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackingServer]:
    """A running tracking server that tests share; names keep them apart."""
    server = TrackingServer(tmp_path_factory.mktemp("tracking") / "home")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., TrackingServer]]:
    """Make servers that are not started yet; whatever still runs at the end is killed."""
    made: list[TrackingServer] = []

    def make(**how: str) -> TrackingServer:
        server = TrackingServer(tmp_path / f"home-{len(made)}", environment=how)
        made.append(server)
        return server

    yield make
    for server in made:
        server.kill()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL for the tests of a module, each with a database of its own."""
    server = Postgres()
    yield server
    server.close()
