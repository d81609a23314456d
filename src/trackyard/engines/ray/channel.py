"""How the engine reaches a runner past Ray: through whatever the runner reports to.

In the server that is the ledger itself: a stop stands in it before the engine hears of it, and
the answer to the runner's next heartbeat carries it. Then there is nothing left to do here.
"""

from __future__ import annotations

from typing import Protocol

from trackyard.core.ports import ExitCause


class ReportChannel(Protocol):
    """Whoever takes the runners' reports."""

    def order_stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Have the next answer to the runner carry this stop."""
        ...

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes | None:
        """Return log bytes that were reported, or None where they are not kept here."""
        ...


class NoChannel:
    """The ledger carries stops and keeps logs by itself."""

    def order_stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Do nothing."""

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes | None:
        """Keep nothing."""
        del attempt_id, member, offset, limit
        return None
