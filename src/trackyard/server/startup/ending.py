"""How the server ends. Asked once, it has a few seconds to close in order; asked twice, or out of
time, it ends at once. What was acknowledged is on disk before it is answered, so that nothing is
lost either way. Knows no part of the platform.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

#: Seconds in which the server has ended after it was asked to, whatever its parts are at.
END_SECONDS = 9.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Ending:
    """Listens to the signals that end a server."""

    def __init__(
        self, *, seconds: float = END_SECONDS, exit_now: Callable[[int], None] = os._exit
    ) -> None:
        self.asked = asyncio.Event()
        self._seconds = seconds
        self._exit_now = exit_now
        self._timer: threading.Timer | None = None
        #: what is being waited for, for the log
        self._step = "requests"

    def listen(self) -> None:
        """Take the signals over, on the running loop."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.ask)

    def ask(self) -> None:
        """End in order, or at once if that was asked already."""
        if self.asked.is_set():
            self._cut("ending at once, as it was asked twice")
        self.asked.set()
        # A thread of its own: the loop may wait for a database that does not answer.
        self._timer = threading.Timer(self._seconds, self._out_of_time)
        self._timer.daemon = True
        self._timer.start()

    async def wait_for(self, step: str, work: Awaitable[object], seconds: float) -> None:
        """Give one step of the end some seconds; what fails or takes longer is told and left."""
        self._step = step
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            log.warning("%s did not end within %.0f seconds; going on without", step, seconds)
        except Exception:
            log.exception("%s did not end well; going on", step)

    def done(self) -> None:
        """Call the timer off: everything has ended in order."""
        if self._timer is not None:
            self._timer.cancel()

    def _out_of_time(self) -> None:
        self._cut(f"{self._step} did not end within {self._seconds:.0f} seconds; ending without")

    def _cut(self, why: str) -> None:
        log.warning("%s", why)
        sys.stderr.flush()
        self._exit_now(1)
