"""Reader connections and the threads that use them, shared fairly between callers.

Owns opening, keeping and dropping them. What is read is its callers' business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

from trackyard.core.errors import SetupError
from trackyard.store.connection import PostgresConnection, SqliteConnection
from trackyard.store.faults import away, explain_read
from trackyard.store.postgres.patience import bounded_read
from trackyard.store.transaction import ReadConnection
from trackyard.store.turns import CALLER, Turns

T = TypeVar("T")
Opened = SqliteConnection | PostgresConnection


class Readers:
    """Runs queries off the event loop."""

    def __init__(
        self, count: int, connect: Callable[[], Opened], *, is_remote: bool = False
    ) -> None:
        self._connect = connect
        #: whether the database may be stuck and keep no limit
        self._is_remote = is_remote
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="yard-read")
        self._free: SimpleQueue[Opened] = SimpleQueue()
        self._turns = Turns(count)

    async def run(self, query: Callable[[ReadConnection], T], seconds: float | None) -> T:
        """Run a query once it is its caller's turn; None for `seconds` lets it take its time."""
        loop, caller = asyncio.get_running_loop(), CALLER.get()
        await self._turns.take(caller)
        try:
            running = loop.run_in_executor(self._pool, self._read, query, seconds)
            return await (bounded_read(running, seconds) if self._is_remote else running)
        finally:
            self._turns.give_back(caller)

    def close(self) -> None:
        """Wait for queries under way and close every connection."""
        self._pool.shutdown(wait=True)
        while not self._free.empty():
            self._free.get().close()

    def _read(self, query: Callable[[ReadConnection], T], seconds: float | None) -> T:
        for is_last in (False, True):
            conn = self._take()
            try:
                conn.limit(seconds)
                result = query(conn)
            except BaseException as fault:
                if isinstance(conn, PostgresConnection) and conn.closed():
                    # It may have died while it lay idle, and the others with it.
                    self._drop_all()
                    if is_last:
                        raise away() from fault
                    continue
                self._free.put(conn)
                answer = explain_read(fault, seconds)
                if answer is not None:
                    raise answer from fault
                raise
            self._free.put(conn)
            return result
        raise AssertionError

    def _take(self) -> Opened:
        try:
            return self._free.get_nowait()
        except Empty:
            try:
                return self._connect()
            except SetupError as fault:
                raise away() from fault

    def _drop_all(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._free.get_nowait().close()
