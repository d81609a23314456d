"""The process that runs ahead: reads the queue, lets the scheduler work on, tells what came of it.

Owns nothing that lasts: it may be killed at any moment. It only reads the database, gives way to
everything else on the machine and ends when the server's end of its pipe is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import IO, Any

import msgspec

from trackyard.control.forecast.messages import (
    HEAD_BYTES,
    ForecastSetup,
    Question,
    SmallerQuery,
    StartsQuery,
    packed,
)
from trackyard.control.forecast.preview import foresee_many, full, lessen
from trackyard.control.snapshot import SnapshotLoader
from trackyard.core.clock import SYSTEM_CLOCK
from trackyard.leases.service import Leases
from trackyard.scheduling import Snapshot
from trackyard.store.database import Database, ReadConnection

#: How far it stands behind the server and the jobs for a processor.
NICE = 10


def main() -> None:
    """Answer questions from standard input until it ends."""
    # Ctrl+C in the server's terminal is the server's to act upon.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICE)
    first = _next(sys.stdin.buffer)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=ForecastSetup)
    asyncio.run(_serve(setup, sys.stdin.buffer, sys.stdout.buffer))


async def _serve(setup: ForecastSetup, questions: IO[bytes], answers: IO[bytes]) -> None:
    database = Database(setup.database, clock=SYSTEM_CLOCK, readers=1)
    leases = Leases(database, setup.rules)
    board = SnapshotLoader(setup.policy)
    decoder = msgspec.msgpack.Decoder(Question)
    while (body := _next(questions)) is not None:
        question: StartsQuery | SmallerQuery | Any = decoder.decode(body)

        def load(reader: ReadConnection, now_ms: int = question.now_ms) -> Snapshot:
            return board.load(reader, now_ms, leases.for_scheduler(reader)).snapshot

        answers.write(packed(_answer(await database.read(load, seconds=None), question)))
        answers.flush()
    await database.close()


def _answer(snapshot: Snapshot, question: Any) -> Any:
    if isinstance(question, StartsQuery):
        present = {one.job.id for one in snapshot.waiting}
        return foresee_many(snapshot, [job for job in question.jobs if job in present])
    if isinstance(question, SmallerQuery):
        return lessen(snapshot, question.job)
    return full(snapshot, question.principal, question.wish, question.spec)


def _next(source: IO[bytes]) -> bytes | None:
    """Return the next message, or None where the other end is gone."""
    head = source.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    length = int.from_bytes(head, "big")
    body = source.read(length)
    return body if len(body) == length else None


if __name__ == "__main__":
    main()
