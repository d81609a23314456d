"""Costly accounts are kept for a moment; cheap ones are always made anew."""

import asyncio

from trackyard.insight.rates import RateCard
from trackyard.insight.recent import FRESH_SECONDS, SHOWN_SECONDS, RecentAccounts
from trackyard.insight.report import UsageAccount
from trackyard.testing.clock import FakeClock


class Maker:
    """Makes accounts that differ by their number, each in so many seconds."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self.made = 0
        self._clock, self._seconds = clock, seconds

    async def __call__(self, since_ms: int, until_ms: int, by_day: bool) -> UsageAccount:
        del by_day
        self.made += 1
        number = self.made
        await asyncio.sleep(0)
        self._clock.advance(self._seconds)
        return UsageAccount(since_ms, until_ms, [], {}, {}, RateCard(), number, 0, 0, 0)


def recent(seconds: float) -> tuple[FakeClock, Maker, RecentAccounts]:
    clock = FakeClock()
    maker = Maker(clock, seconds)
    return clock, maker, RecentAccounts(maker, clock)


async def test_a_cheap_account_is_never_kept() -> None:
    _, maker, accounts = recent(0.01)
    for number in (1, 2, 3):
        assert (await accounts.get(0, 9, by_day=False)).ran_ms == number
    assert maker.made == 3


async def test_a_costly_account_is_shown_again_and_renewed_behind_the_reader() -> None:
    clock, _, accounts = recent(1.0)
    assert (await accounts.get(0, 9, by_day=False)).ran_ms == 1
    assert (await accounts.get(0, 9, by_day=False)).ran_ms == 1
    assert (await accounts.get(0, 9, by_day=True)).ran_ms == 2
    clock.advance(FRESH_SECONDS)
    assert (await accounts.get(0, 9, by_day=False)).ran_ms == 1
    for _ in range(10):  # turns of the loop in which the new one is made
        await asyncio.sleep(0)
    assert (await accounts.get(0, 9, by_day=False)).ran_ms == 3
    clock.advance(SHOWN_SECONDS)
    assert (await accounts.get(0, 9, by_day=False)).ran_ms == 4


async def test_several_readers_wait_for_one_account_and_one_may_leave() -> None:
    _, maker, accounts = recent(1.0)
    first = asyncio.create_task(accounts.get(0, 9, by_day=False))
    others = [asyncio.create_task(accounts.get(0, 9, by_day=False)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    assert [one.ran_ms for one in await asyncio.gather(*others)] == [1, 1, 1]
    accounts.forget()
    assert (await accounts.get(0, 9, by_day=False)).ran_ms == 2
    assert maker.made == 2
