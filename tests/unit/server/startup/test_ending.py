"""The end of a server: in order when asked once, at once when asked twice or out of time."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

import trackyard
from trackyard.server.startup.ending import Ending


class Exits:
    """Takes the place of leaving the process."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.left = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.left.set()


async def test_asked_once_it_ends_in_order() -> None:
    exits = Exits()
    ending = Ending(seconds=60, exit_now=exits)
    ending.ask()
    assert ending.asked.is_set()
    ending.done()
    assert exits.codes == []


async def test_asked_twice_it_ends_at_once() -> None:
    exits = Exits()
    ending = Ending(seconds=60, exit_now=exits)
    ending.ask()
    ending.ask()
    assert exits.codes == [1]
    ending.done()


async def test_out_of_time_it_ends_whatever_the_loop_is_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exits = Exits()
    ending = Ending(seconds=0.01, exit_now=exits)
    ending.ask()
    # The loop stands still here, as it would in a call that does not return.
    assert exits.left.wait(60)
    assert exits.codes == [1]
    assert "did not end within" in caplog.text


async def test_a_step_that_hangs_or_fails_holds_up_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise OSError("gone")

    ending = Ending(exit_now=Exits())
    await ending.wait_for("a lock", asyncio.Event().wait(), 0.01)
    await ending.wait_for("a disk", fail(), 120)
    assert "a lock did not end within" in caplog.text
    assert "a disk did not end well" in caplog.text


def test_no_task_of_the_server_can_lose_its_cancellation() -> None:
    """Before Python 3.12 `wait_for` swallows a cancel that comes with the result, and the task
    goes on for ever: `asyncio.timeout` does not.
    """
    folder = Path(trackyard.__file__).parent
    lossy = re.compile(r"\basyncio\.wait_for\(")
    found = [path.name for path in folder.rglob("*.py") if lossy.search(path.read_text())]
    assert found == []
