"""A server of the local engine for interactive work, and people at terminals."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.interactive.typing import Person
from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """The admin's command line of a server."""
    folder = tmp_path_factory.mktemp("interactive")
    server = JobServer(folder / "home")
    server.start()
    server.wait_for_nodes()
    (folder / "user").mkdir()
    yield Yard(server, folder / "user")
    server.kill()
    end_all(folder)


@pytest.fixture
def person(yard: Yard) -> Iterator[Callable[..., Person]]:
    """Sit somebody down at a terminal."""
    made: list[Person] = []

    def sit(*words: str, **how: int) -> Person:
        made.append(Person(yard, *words, **how))
        return made[-1]

    yield sit
    for one in made:
        one.close()
    yard.ok("stop", "--mine", "--now", "--wait")


@pytest.fixture
def folder(yard: Yard) -> Path:
    """The user's folder."""
    return yard.folder
