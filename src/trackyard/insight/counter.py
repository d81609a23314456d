"""GPU-seconds by class as counters that only grow, for Prometheus. Pure but for what it is given.

Time that a job holds is counted when its attempt ends, because only then it is known whether its
work was lost; time that nobody holds is counted as it passes. Counters begin with the process.
"""

from __future__ import annotations

from trackyard.insight.goodput import GpuClass, account
from trackyard.insight.loading import LoadedHistory

_US = 1_000_000


class GpuSeconds:
    """What was counted since the start."""

    def __init__(self, now_ms: int) -> None:
        self.until_ms = now_ms
        self._amounts: dict[GpuClass, int] = dict.fromkeys(GpuClass, 0)

    def since(self, admitted_ms: list[int]) -> int:
        """Return from when on a history is needed, given when what ended since was admitted."""
        return min([self.until_ms, *admitted_ms])

    def advance(self, loaded: LoadedHistory, now_ms: int) -> None:
        """Count up to now; the history begins early enough."""
        if now_ms <= self.until_ms:
            return
        ended = {
            row.id: row.admitted_ms
            for row in loaded.attempts
            if row.ended_ms is not None and self.until_ms < row.ended_ms <= now_ms
        }
        passing = account(loaded.history, self.until_ms, now_ms, now_ms)
        for (_, kind, _), amount in passing.unheld.items():
            self._amounts[kind] += amount
        if ended:
            whole = account(loaded.history, min(ended.values()), now_ms, now_ms)
            for (key, _, kind), amount in whole.held.items():
                if key in ended:
                    self._amounts[kind] += amount
        self.until_ms = now_ms

    def seconds(self) -> dict[str, float]:
        """Return what was counted, by class."""
        return {kind.value: amount / _US for kind, amount in self._amounts.items()}
