"""A caller with much under way is delayed first and refused late; others feel nothing."""

import asyncio

import pytest

from trackyard.core.errors import TooMany
from trackyard.server.http.pace import CallPace, CallTurn

A, B = ("a", False), ("b", False)


async def test_calls_within_the_limit_enter_at_once() -> None:
    pace = CallPace(limit=2)
    assert pace.try_enter(A)
    assert pace.try_enter(A)
    assert not pace.try_enter(A)
    assert pace.try_enter(B)
    assert pace.try_enter(("a", True))


async def test_those_who_wait_get_their_turn_in_order() -> None:
    pace = CallPace(limit=1)
    assert pace.try_enter(A)
    came: list[int] = []

    async def call(number: int) -> None:
        await pace.enter(A)
        came.append(number)
        pace.leave(A)

    waiting = [asyncio.create_task(call(number)) for number in range(100)]
    await asyncio.sleep(0)
    assert came == []
    assert not pace.try_enter(A)
    pace.leave(A)
    await asyncio.gather(*waiting)
    assert came == list(range(100))
    assert pace.try_enter(A)
    pace.leave(A)
    assert pace._busy == {}
    assert pace._waiting == {}


async def test_who_waits_in_vain_is_told_when_to_come_back() -> None:
    pace = CallPace(limit=1, patience=0.01)
    assert pace.try_enter(A)
    with pytest.raises(TooMany) as refusal:
        await pace.enter(A)
    assert refusal.value.status == 429
    assert refusal.value.retry_after
    pace.leave(A)
    assert pace._busy == {}
    assert pace._waiting == {}


async def test_a_line_that_is_too_long_is_refused_at_once() -> None:
    pace = CallPace(limit=1, max_waiting=1)
    assert pace.try_enter(A)
    first = asyncio.create_task(pace.enter(A))
    await asyncio.sleep(0)
    with pytest.raises(TooMany):
        await pace.enter(A)
    pace.leave(A)
    await first
    pace.leave(A)
    assert pace._busy == {}


async def test_a_caller_who_goes_away_loses_no_place() -> None:
    """Cancelled while waiting, or in the moment its turn comes, its place goes to the next."""
    pace = CallPace(limit=1)
    assert pace.try_enter(A)
    first = asyncio.create_task(pace.enter(A))
    second = asyncio.create_task(pace.enter(A))
    third = asyncio.create_task(pace.enter(A))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    pace.leave(A)  # hands the place to the second,
    second.cancel()  # who goes in the same moment
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.wait_for(third, 120)
    pace.leave(A)
    assert pace._busy == {}


async def test_a_turn_is_taken_once_and_given_back_once() -> None:
    pace = CallPace(limit=1)
    turn = CallTurn(pace, A)
    turn.end()
    await turn.take()
    await turn.take()
    assert not pace.try_enter(A)
    turn.end()
    turn.end()
    assert pace.try_enter(A)


async def test_nobody_is_forgotten_in_a_crowd() -> None:
    """However arrivals and departures interleave, everyone who waits gets a turn."""
    pace = CallPace(limit=3, patience=5)
    most = busy = served = 0

    async def call(number: int) -> None:
        nonlocal most, busy, served
        for _ in range(number % 7):
            await asyncio.sleep(0)
        turn = CallTurn(pace, A)
        await turn.take()
        busy += 1
        most = max(most, busy)
        for _ in range(number % 5):
            await asyncio.sleep(0)
        busy -= 1
        served += 1
        turn.end()

    for wave in range(20):
        waves = [asyncio.create_task(call(wave + number)) for number in range(40)]
        await asyncio.wait_for(asyncio.gather(*waves), 120)
    assert (most, served) == (3, 800)
    assert pace._busy == {}
    assert pace._waiting == {}


async def test_a_new_line_survives_the_end_of_the_old_one() -> None:
    """Who starts to wait while the last of an older line step forward is not forgotten."""
    pace = CallPace(limit=2, patience=5)
    assert pace.try_enter(A)
    assert pace.try_enter(A)

    async def twice() -> None:
        await pace.enter(A)
        await pace.enter(A)

    first, second = asyncio.create_task(twice()), asyncio.create_task(pace.enter(A))
    await asyncio.sleep(0)
    pace.leave(A)
    pace.leave(A)
    await second
    pace.leave(A)
    await asyncio.wait_for(first, 120)
