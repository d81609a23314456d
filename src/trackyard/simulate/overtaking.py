"""How long jobs of a replay wait while only jobs of lower right start.

Owns Overtaking, which a replay tells of everything that is submitted, starts and waits again,
and the bound that the default order promises. A job's right is a moment: its submission, put off
by two days (the policy's halving time) for every doubling of its predicted GPU-seconds. Whoever's
right is later has less of it, also where that job came first.
"""

from __future__ import annotations

from math import log2

import numpy as np

from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.order.pending import Measurer
from trackyard.scheduling.place.table import Floats, NodeTable
from trackyard.scheduling.policy import Policy, QueueOrder
from trackyard.scheduling.snapshot import WaitingJob

#: Nobody waits longer than so many times the longest run while only lower right starts.
MOST_RUNS = 3.0


class Overtaking:
    """The longest stretch in which only lower right started while a job waited."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        #: use of shares moves two jobs this far apart at most, in either direction
        self._slack = 2 * policy.halving_seconds * log2(max(policy.share_stretch, 1.0))
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        #: by slot: its right, and since when nobody of at least that right has started
        self._right: Floats = np.zeros(0)
        self._since: Floats = np.zeros(0)
        #: the longest stretch, whose it was and who started then
        self.longest_seconds = 0.0
        self.worst = ("", "")

    def waits(self, waiting: WaitingJob, durations: DurationModel, table: NodeTable) -> None:
        """Note a job that begins to wait."""
        job = waiting.job
        shape = table.shape(job.request)
        length = Measurer(durations)(waiting, shape, 0, QueueOrder.DEFAULT).length
        passing = self._policy.passing_seconds(length)
        if not self._free:
            self._grow()
        slot = self._slots[job.id] = self._free.pop()
        self._right[slot] = job.submitted_at + waiting.attained_seconds + passing
        # Until then jobs that are submitted later may still go before it by right.
        self._since[slot] = job.submitted_at + passing

    def starts(self, job: str, now: float) -> None:
        """Note a job that starts, and look whom it passes."""
        slot = self._slots.pop(job)
        right = self._right[slot]
        self._since[slot] = np.inf
        self._free.append(slot)
        is_passed = self._right + self._slack < right
        if is_passed.any():
            first = int(np.where(is_passed, self._since, np.inf).argmin())
            stretch = now - float(self._since[first])
            if stretch > self.longest_seconds:
                passed = next(name for name, at in self._slots.items() if at == first)
                self.longest_seconds, self.worst = stretch, (passed, job)
        # Whoever does not have more right than this one has nothing to complain of so far.
        np.copyto(self._since, np.maximum(self._since, now), where=~is_passed)

    def _grow(self) -> None:
        old = len(self._right)
        more = max(old, 64)
        self._right = np.concatenate([self._right, np.zeros(more)])
        self._since = np.concatenate([self._since, np.full(more, np.inf)])
        self._free.extend(range(old + more - 1, old - 1, -1))
