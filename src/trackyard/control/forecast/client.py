"""Where the server asks about the future of a long queue: one process, started when it is needed.

Owns that process: its start with the first question, its end after a while without any, and its
replacement if it dies. Knows nothing of what is asked. It never keeps the server from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import PIPE, Process
from typing import TypeVar

import msgspec

from trackyard.control.forecast.messages import HEAD_BYTES, ForecastSetup, Question, packed

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Seconds without a question after which the process is let go.
IDLE_SECONDS = 120.0
#: Seconds after which an answer is given up, and for which a process that failed is not replaced.
PATIENCE_SECONDS, REST_SECONDS = 15.0, 15.0


class ForecastUnavailable(Exception):
    """There is no answer now; one may be had later."""


class ForecastClient:
    """Takes questions one at a time to the process that runs ahead."""

    def __init__(self, setup: ForecastSetup) -> None:
        self._setup = setup
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._rests_until = 0.0
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The process, where there is one."""
        return None if self._process is None else self._process.pid

    async def ask(self, question: Question, answer: type[T]) -> T:
        """Return the answer, or raise Unanswered."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            if self._is_closed or loop.time() < self._rests_until:
                raise ForecastUnavailable
            if self._idle is not None:
                self._idle.cancel()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    body = await self._exchange(question)
                found = msgspec.msgpack.decode(body, type=answer)
            except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as fault:
                if not self._is_closed:
                    log.warning("the process that makes forecasts is gone: %r", fault)
                self._rests_until = loop.time() + REST_SECONDS
                self._end()
                raise ForecastUnavailable from fault
            except asyncio.CancelledError:
                # The answer to this question must not be taken for that to the next.
                self._end()
                raise
            self._idle = loop.call_later(IDLE_SECONDS, self._end)
            return found

    async def close(self) -> None:
        """End the process, whatever it is at."""
        self._is_closed = True
        process = self._process
        self._end()
        if process is not None:
            await process.wait()

    async def _exchange(self, question: Question) -> bytes:
        if self._process is None or self._process.returncode is not None:
            self._process = await self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(packed(question))
        await process.stdin.drain()
        head = await process.stdout.readexactly(HEAD_BYTES)
        return await process.stdout.readexactly(int.from_bytes(head, "big"))

    async def _start(self) -> Process:
        command = [sys.executable, "-m", "trackyard.control.forecast.worker"]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        process.stdin.write(packed(self._setup))
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
