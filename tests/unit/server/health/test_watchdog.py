"""The watchdog: it tells a loop that stands still from one that turns, and what held it up."""

import asyncio
import logging
import time

import pytest

from trackyard.server.health import watchdog
from trackyard.server.health.watchdog import Watchdog


async def until(condition: object) -> None:
    async with asyncio.timeout(120):
        while not condition():  # type: ignore[operator] # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_stall_is_measured_and_its_request_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    dog = Watchdog()
    dog.start()
    try:
        await until(lambda: sum(dog.counts) > 2)
        dog.stalls.clear()

        async def hold() -> None:
            # Long enough for the thread that looks, however busy the machine is.
            over = time.monotonic() + 180
            while "POST /slow" not in dog._seen[1] and time.monotonic() < over:
                time.sleep(0.01)  # noqa: ASYNC251 - the very fault that is to be found
            time.sleep(watchdog.WAIT_SECONDS)  # noqa: ASYNC251

        await asyncio.create_task(hold(), name="POST /slow")
        await until(lambda: dog.stalls)
    finally:
        dog.stop()
    worst = dog.worst()
    assert worst is not None
    assert worst.seconds >= watchdog.STALL_SECONDS
    assert worst.during == "POST /slow"
    assert dog.stalls_by_name["POST /slow"] >= 1
    assert "POST /slow" in caplog.text


async def test_a_write_is_told_with_who_asked_for_it() -> None:
    dog = Watchdog(lambda: "POST /api/v1/jobs")
    dog.start()
    try:

        async def hold() -> None:
            over = time.monotonic() + 180
            while "yard-writer" not in dog._seen[1] and time.monotonic() < over:
                time.sleep(0.01)  # noqa: ASYNC251 - the very fault that is to be found

        await asyncio.create_task(hold(), name="yard-writer")
    finally:
        dog.stop()
    assert dog._seen[1] == "yard-writer for POST /api/v1/jobs"


async def test_only_recent_stalls_count_as_the_worst() -> None:
    dog = Watchdog()
    now = time.monotonic()
    dog.stalls.append(watchdog.Stall(now - 10_000, 9.0, 9.0, "old", ""))
    assert dog.worst() is None
    dog.stalls.append(watchdog.Stall(now, 0.2, 0.1, "new", ""))
    dog.stalls.append(watchdog.Stall(now, 0.1, 0.1, "less", ""))
    worst = dog.worst()
    assert worst is not None
    assert worst.during == "new"
