"""Doing something alone among all servers of one database. Owns the lock; knows no purpose."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from trackyard.store.connection import PostgresConnection


@contextlib.asynccontextmanager
async def exclusive(url: str, lock: int) -> AsyncIterator[None]:
    """Hold a lock while the block runs; on SQLite the home's own lock has seen to it already."""
    if url.startswith("sqlite:///"):
        yield
        return
    conn = await asyncio.to_thread(PostgresConnection, url)
    try:
        await asyncio.to_thread(conn.all, "SELECT pg_advisory_lock(?)", (lock,))
        yield
    finally:
        # The lock goes with its connection.
        await asyncio.to_thread(conn.close)
