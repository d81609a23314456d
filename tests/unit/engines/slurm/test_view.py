"""What lists of jobs say of an attempt: lists from before it began, and of a silent controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trackyard.core.ports import EngineUnavailable
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.observe import SETTLE_SECONDS, ObservedAttempt
from trackyard.engines.slurm.site import SlurmSite
from trackyard.engines.slurm.submit import PREFIX
from trackyard.engines.slurm.view import View
from trackyard.testing.clock import FakeClock


class Controller(Commands):
    """Answers squeue with one job in the given state, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "PENDING"

    def json(self, program: str, *arguments: str) -> dict[str, Any]:
        if not self.state:
            raise EngineUnavailable("it is down")
        if self.state == "GONE":
            return {"jobs": []}
        row = {"job_id": 7, "comment": f"{PREFIX}here:a1", "job_state": self.state, "nodes": "n1"}
        return {"jobs": [row]}


class Watched:
    """A view of a cluster with one attempt, at which one looks every second."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.controller = Controller()
        self._view = View(self.controller, SlurmSite(name="here", folder=folder), self.clock)
        self._handed_ms = self.clock.time_ms()

    def after(self, seconds: int, *, has_begun: bool) -> ObservedAttempt:
        seen = ObservedAttempt(job=None, is_current=False)
        for _ in range(seconds):
            self.clock.advance(1.1)
            self._view.look()
            seen = self._view.seen("a1", 7, self._handed_ms, has_begun=has_begun)
        return seen


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_job_that_waited_long_and_begins_is_not_taken_for_one_put_back(watched: Watched) -> None:
    assert watched.after(20, has_begun=False).gone_seconds == 0
    # The runner tells of its start before the next list does.
    assert watched.after(1, has_begun=True).gone_seconds == 0
    watched.controller.state = "RUNNING"
    assert watched.after(9, has_begun=True).gone_seconds == 0


def test_a_job_that_began_and_still_waits_was_put_back(watched: Watched) -> None:
    assert watched.after(9, has_begun=True).gone_seconds >= SETTLE_SECONDS


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_silent_controller_says_nothing_new(watched: Watched, state: str) -> None:
    watched.controller.state = state
    watched.after(1, has_begun=True)
    watched.controller.state = ""
    assert watched.after(60, has_begun=True).gone_seconds == 0


def test_a_job_that_left_the_list_is_over_after_a_while(watched: Watched) -> None:
    watched.controller.state = "RUNNING"
    watched.after(3, has_begun=True)
    watched.controller.state = "GONE"
    assert watched.after(1, has_begun=True).gone_seconds == 0
    assert watched.after(5, has_begun=True).gone_seconds >= SETTLE_SECONDS
