"""Throw-away servers whose clock a test sets, for the stories of leases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all


@dataclass
class ClockServer(JobServer):
    """A server without a past: its home is a temporary folder, its clock shows a file."""

    @property
    def clock(self) -> Path:
        """The file that sets its clock."""
        return self.home / "clock"

    def command(self) -> list[str]:
        """`yard up --ephemeral`."""
        return [*super().command(), "--ephemeral"]

    def start(self, patience: float = 180.0) -> float:
        """Start it, and find the token where it says that its data lie."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "token").write_text("")
        took = super().start(patience)
        folder = next(line for line in self.log.splitlines() if "data " in line).split()[-1]
        self.token = (Path(folder) / "token").read_text().strip()
        return took

    def set_clock(self, moment: str) -> None:
        """Let the server's clock show this moment from now on."""
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(moment)
        fresh.replace(self.clock)


@pytest.fixture
def yard_at(tmp_path: Path) -> Iterator[Callable[..., Yard]]:
    """Start a server at a moment and return its admin's command line."""
    made: list[ClockServer] = []

    def start(moment: str, config: str = "") -> Yard:
        home = tmp_path / f"home-{len(made)}"
        home.mkdir()
        (home / "yard.toml").write_text(config)
        clock = {"YARD_CLOCK": str(home / "clock")}
        server = ClockServer(home, environment=clock, more=["--config", str(home / "yard.toml")])
        server.set_clock(moment)
        made.append(server)
        server.start()
        folder = tmp_path / f"user-{len(made)}"
        folder.mkdir()
        return Yard(server, folder)

    yield start
    for server in made:
        server.stop()
        end_all(server.home)
