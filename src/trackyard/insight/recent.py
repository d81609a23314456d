"""Accounts that were made a moment ago, kept so that a large month is not counted at every click.

Owns how long an account may be shown and that one window is counted once at a time. Small ones
are always made anew. Knows nothing of what an account says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from trackyard.core.clock import Clock
from trackyard.insight.report import UsageAccount

Window = tuple[int, int, bool]
#: An account that took less than this is not kept.
COSTLY_SECONDS = 0.2
#: It is shown without a second look for so long, and while a newer one is made for so long.
FRESH_SECONDS, SHOWN_SECONDS = 15.0, 120.0
MOST_KEPT = 8


@dataclass(slots=True)
class _Kept:
    account: UsageAccount
    made_at: float


@dataclass(slots=True)
class RecentAccounts:
    """The latest accounts by their window."""

    make: Callable[[int, int, bool], Awaitable[UsageAccount]]
    clock: Clock
    _kept: dict[Window, _Kept] = field(default_factory=dict)
    _making: dict[Window, asyncio.Task[UsageAccount]] = field(default_factory=dict)

    async def get(self, since_ms: int, until_ms: int, *, by_day: bool) -> UsageAccount:
        """Return the account of a window, at most two minutes old."""
        window = (since_ms, until_ms, by_day)
        kept = self._kept.get(window)
        age = SHOWN_SECONDS if kept is None else self.clock.monotonic() - kept.made_at
        if kept is not None and age < FRESH_SECONDS:
            return kept.account
        task = self._making.get(window)
        if task is None:
            task = asyncio.create_task(self._make(window), name="usage")
            self._making[window] = task
            task.add_done_callback(lambda _: self._making.pop(window, None))
        if kept is not None and age < SHOWN_SECONDS:
            return kept.account
        # Others may wait for the same account, so one cancelled reader must not cancel it.
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Make everything anew: rates have changed, for example."""
        self._kept.clear()

    async def _make(self, window: Window) -> UsageAccount:
        began = self.clock.monotonic()
        account = await self.make(*window)
        now = self.clock.monotonic()
        self._kept.pop(window, None)
        if now - began >= COSTLY_SECONDS:
            self._kept[window] = _Kept(account, now)
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return account
