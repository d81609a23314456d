"""Turns of callers at something that only a few can have at once, such as reader connections.

Owns fairness: whoever has waited longest among the callers is next, one turn each, and no caller
has all places. Knows nobody: a caller is a word that the server sets for each request.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from contextvars import ContextVar

#: Who is served by the running task; empty for the server's own work, which may have all places.
CALLER: ContextVar[str] = ContextVar("caller", default="")


class Turns:
    """Gives out places, in turn between callers."""

    def __init__(self, width: int) -> None:
        self._width = width
        #: the most one caller has, so that another finds a place at once
        self._share = max(1, width - 1)
        self._total = 0
        self._busy: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, caller: str) -> None:
        """Wait for a place."""
        if self._has_room(caller):
            self._enter(caller)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place came in the very moment the caller gave up: pass it on.
                self.give_back(caller)
            raise

    def give_back(self, caller: str) -> None:
        """Give a place back; the next caller in turn gets it."""
        self._total -= 1
        self._busy[caller] -= 1
        if not self._busy[caller]:
            del self._busy[caller]
        self._hand_out()

    def _has_room(self, caller: str) -> bool:
        is_below_share = not caller or self._busy[caller] < self._share
        return self._total < self._width and is_below_share

    def _enter(self, caller: str) -> None:
        self._total += 1
        self._busy[caller] += 1

    def _hand_out(self) -> None:
        for caller in list(self._waiting):
            if not self._has_room(caller):
                continue
            queue = self._waiting.pop(caller)
            while queue and (turn := queue.popleft()).done():
                pass
            if queue:
                self._waiting[caller] = queue  # behind everybody else who waits
            if not turn.done():
                self._enter(caller)
                turn.set_result(None)
                return
