"""Answers that stay open: how many each caller has, and that they end with their credential.

Owns the count and the periodic look at credentials. Knows no route and nothing of what is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from trackyard.core.errors import TooBusy, TooMany
from trackyard.server.access import AccessGate
from trackyard.server.http.messages import Request

#: Streams of one caller, and of all callers together.
PER_CALLER, OVERALL = 200, 4000
#: Seconds between two looks at the credentials of open streams.
LOOK_SECONDS = 5.0
RETRY_AFTER = 30


class Streams:
    """The open streams of a server."""

    def __init__(
        self, gate: AccessGate, *, per_caller: int = PER_CALLER, overall: int = OVERALL
    ) -> None:
        self._gate = gate
        self._per_caller = per_caller
        self._overall = overall
        self._counts: Counter[str] = Counter()
        #: each open stream's request, with what is resolved once its credential has ended
        self._open: dict[asyncio.Future[None], Request] = {}
        self._watch: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def holding(self, request: Request) -> Iterator[asyncio.Future[None]]:
        """Count a stream while it is open; give what is resolved when it must end."""
        caller = caller_of(request)
        if self._counts[caller] >= self._per_caller:
            raise TooMany(
                f"{request.principal.name} has {self._per_caller} streams open, the most that one"
                " caller may have; close some, or read pages instead of following",
                retry_after=RETRY_AFTER,
            )
        if len(self._open) >= self._overall:
            raise TooBusy("the server has as many open streams as it can serve", retry_after=30)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._counts[caller] += 1
        self._open[ended] = request
        if self._watch is None:
            self._watch = asyncio.create_task(self._look(), name="yard-streams")
        try:
            yield ended
        finally:
            ended.cancel()
            del self._open[ended]
            self._counts[caller] -= 1
            if not self._counts[caller]:
                del self._counts[caller]
            if not self._open and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def _look(self) -> None:
        """End the streams whose credential has; each credential is asked about once a round."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            known: dict[tuple[str | None, ...], bool] = {}
            for ended, request in list(self._open.items()):
                key = _credential(request)
                if key not in known:
                    known[key] = await self._gate.still_holds(request)
                if not known[key] and not ended.done():
                    ended.set_result(None)


def caller_of(request: Request) -> str:
    """Return what stands for a caller where callers share: a user, or an attempt's token."""
    principal = request.principal
    if principal.scope is not None or principal.user_id is None:
        return f"token:{principal.token_id}"
    return f"user:{principal.user_id}"


def _credential(request: Request) -> tuple[str | None, ...]:
    names = ("authorization", "x-ray-authorization", "cookie", "x-yard-team", "x-mlflow-workspace")
    return (*[request.header(name) for name in names], request.arg("team"), request.arg("token"))
