"""How much one caller may ask at once. Delays first and refuses late: a stock client has only a
few retries to spend. Owns the count of calls under way; knows no route.
"""

from __future__ import annotations

import asyncio
from collections import deque

from trackyard.core.errors import TooMany

#: Calls of one token under way at a time, and those that may wait behind them.
IN_FLIGHT = 64
MAX_WAITING = 4096
#: Seconds a call waits for its turn before it is sent away.
PATIENCE_SECONDS = 20.0
RETRY_AFTER = 2

Lane = tuple[str, bool]


class CallPace:
    """Counts the calls of each caller; a further one waits for its turn, first come first."""

    def __init__(
        self,
        *,
        limit: int = IN_FLIGHT,
        max_waiting: int = MAX_WAITING,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._limit = limit
        self._max_waiting = max_waiting
        self._patience = patience
        self._busy: dict[Lane, int] = {}
        self._waiting: dict[Lane, deque[asyncio.Future[None]]] = {}

    def try_enter(self, lane: Lane) -> bool:
        """Take a place at once if there is one."""
        busy = self._busy.get(lane, 0)
        if busy >= self._limit:
            return False
        self._busy[lane] = busy + 1
        return True

    async def enter(self, lane: Lane) -> None:
        """Wait for a place, or refuse after some patience."""
        queue = self._waiting.setdefault(lane, deque())
        if len(queue) >= self._max_waiting:
            raise _refusal()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as ended:
            if turn.done() and not turn.cancelled():
                # The place came in the very moment we gave up: pass it on.
                self.leave(lane)
            elif turn in queue:
                queue.remove(turn)
            if isinstance(ended, TimeoutError):
                raise _refusal() from None
            raise
        finally:
            # Another line may have formed since ours was empty.
            if not queue and self._waiting.get(lane) is queue:
                del self._waiting[lane]

    def leave(self, lane: Lane) -> None:
        """Give the place to the next in line, or back."""
        queue = self._waiting.get(lane)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        busy = self._busy[lane] - 1
        if busy:
            self._busy[lane] = busy
        else:
            del self._busy[lane]


class CallTurn:
    """One call's place in its lane: taken once, given back at the end."""

    __slots__ = ("_lane", "_pace", "_taken")

    def __init__(self, pace: CallPace, lane: Lane) -> None:
        self._pace = pace
        self._lane = lane
        self._taken = False

    async def take(self) -> None:
        """Take the place, waiting for it if need be; again costs nothing."""
        if not self._taken:
            if not self._pace.try_enter(self._lane):
                await self._pace.enter(self._lane)
            self._taken = True

    def end(self) -> None:
        """Give the place back, if it was taken."""
        if self._taken:
            self._taken = False
            self._pace.leave(self._lane)


def _refusal() -> TooMany:
    return TooMany(
        f"this token has more than {IN_FLIGHT} calls under way and the line behind them is long;"
        " slow down, or log in batches",
        retry_after=RETRY_AFTER,
    )
