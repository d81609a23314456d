"""Who follows which job by Ray's protocol, so that a server that ends lets each say its last word.

A client whose stream has ended asks once more how its job stands. Knows no protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter


class Followers:
    """Jobs that are followed, each as often as it is."""

    def __init__(self) -> None:
        self._jobs: Counter[str] = Counter()
        self._none = asyncio.Event()
        self._none.set()

    def enter(self, job: str) -> None:
        """Note one more who follows a job."""
        self._jobs[job] += 1
        self._none.clear()

    def leave(self, job: str) -> None:
        """Note that one of a job's followers needs nothing more; others do not count."""
        self._jobs -= Counter([job])
        if not self._jobs:
            self._none.set()

    async def gone(self) -> None:
        """Wait until there are none."""
        await self._none.wait()
