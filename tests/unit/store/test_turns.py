"""Turns between callers: nobody has all places, and nobody waits behind another's whole queue."""

import asyncio

from trackyard.store.turns import Turns


async def in_line(turns: Turns, caller: str, order: list[str]) -> None:
    await turns.take(caller)
    order.append(caller)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_caller_with_hundreds_leaves_a_place_for_another() -> None:
    turns, order = Turns(4), list[str]()
    tasks = [asyncio.create_task(in_line(turns, "heavy", order)) for _ in range(200)]
    await settle()
    assert order == ["heavy"] * 3
    async with asyncio.timeout(60):
        await turns.take("light")
    assert order == ["heavy"] * 3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_callers_take_turns_whoever_came_first() -> None:
    turns, order = Turns(1), list[str]()
    await turns.take("x")
    callers = ("a", "a", "a", "b", "c", "a", "b")
    tasks = [asyncio.create_task(in_line(turns, name, order)) for name in callers]
    await settle()
    turns.give_back("x")
    for _ in callers[1:]:
        await settle()
        turns.give_back(order[-1])
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "a", "b", "a", "a"]


async def test_who_gives_up_takes_no_place_with_it() -> None:
    turns, order = Turns(1), list[str]()
    await turns.take("x")
    waiting = [asyncio.create_task(in_line(turns, name, order)) for name in ("a", "b", "b")]
    await settle()
    waiting[0].cancel()
    waiting[1].cancel()
    await settle()
    turns.give_back("x")
    await settle()
    assert order == ["b"]
    # The place is handed over and given up in the same moment.
    late = asyncio.create_task(in_line(turns, "c", order))
    await settle()
    turns.give_back("b")
    late.cancel()
    await settle()
    async with asyncio.timeout(60):
        await turns.take("d")
    await asyncio.gather(*waiting, late, return_exceptions=True)


async def test_the_servers_own_work_may_have_every_place() -> None:
    turns = Turns(3)
    async with asyncio.timeout(60):
        for _ in range(3):
            await turns.take("")
