"""How long a caller waits for a PostgreSQL that neither answers nor goes away, as one does whose
machine is frozen or cut off. Owns the bounds; knows no query.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from trackyard.store.faults import away, unconfirmed

T = TypeVar("T")

#: Seconds for a write, from its queueing to its commit; a read has its own limit and these more.
WRITE_SECONDS, READ_MARGIN = 20.0, 3.0


def bound_write(future: asyncio.Future[Any]) -> None:
    """Answer a write that takes too long; what becomes of it later nobody can tell by then."""
    timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, _give_up, future)
    future.add_done_callback(lambda _: timer.cancel())


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(unconfirmed())


async def bounded_read(running: asyncio.Future[T], seconds: float | None) -> T:
    """Wait for a read that has a limit of its own, which a database that is stuck cannot keep."""
    if seconds is None:
        return await running
    try:
        async with asyncio.timeout(seconds + READ_MARGIN):
            return await running
    except TimeoutError as fault:
        raise away() from fault
