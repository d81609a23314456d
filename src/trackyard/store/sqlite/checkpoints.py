"""Keeps SQLite's write-ahead log short, from a thread of its own: no commit waits for it.

Knows no table.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trackyard.store.connection import SqliteConnection

log = logging.getLogger(__name__)

#: Size of the log at which it is moved into the file, and the size at which writers have to wait
#: for that; seconds between two looks at it.
LOG_BYTES, LOG_BYTES_MOST = 16 << 20, 512 << 20
LOOK_EVERY = 0.25


async def keep_short(url: str) -> None:
    """Look at the log again and again until cancelled."""
    path = Path(url[len("sqlite:///") :])
    conn = SqliteConnection(path)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="yard-checkpoint") as thread:
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                try:
                    await loop.run_in_executor(thread, _shorten, conn, Path(f"{path}-wal"))
                except (sqlite3.Error, OSError) as fault:
                    log.warning("cannot move the write-ahead log now: %s", fault)
        finally:
            thread.shutdown(wait=True)
            conn.close()


def _shorten(conn: SqliteConnection, log_path: Path) -> None:
    """Move a long write-ahead log into the file; only a very long one makes writers wait."""
    size = log_path.stat().st_size if log_path.exists() else 0
    if size >= LOG_BYTES:
        conn.checkpoint("PASSIVE" if size < LOG_BYTES_MOST else "TRUNCATE")
