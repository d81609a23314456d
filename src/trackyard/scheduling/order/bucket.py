"""Jobs that only their place in the line tells apart, and how their heads compare.

Owns Bucket and its key: class, quota before borrowing, queue rank, then the order's own measure.
Knows nothing of capacity.
"""

from __future__ import annotations

from math import inf, log2

from trackyard.core.job import Job
from trackyard.core.reasons import Reason
from trackyard.scheduling.order.columns import ColumnLine
from trackyard.scheduling.order.line import Entry, JobLine
from trackyard.scheduling.order.pending import PendingJob
from trackyard.scheduling.place.table import Mask, Shape
from trackyard.scheduling.policy import QueueOrder
from trackyard.scheduling.shares.departments import TeamUse
from trackyard.scheduling.shares.quota import QuotaLedger

#: class, standing, queue rank, measure, submitted, sequence
Key = tuple[int, int, int, float, float, int]

#: Within a class: someone was stopped for it; it is within its team's quota. After that come
#: those that borrow, from their own department before those that borrow from others.
OWED, WITHIN_QUOTA = range(2)

#: What a second in the order weighs beside a GPU-second that its team used, where shares are kept:
#: enough to order the jobs of a team, too little to put another team first.
_LENGTH_PART = 1e-9


class Bucket:
    """A line of alike jobs, with what the pass found out about them."""

    __slots__ = (
        "_is_live",
        "_key",
        "_key_stretch",
        "allowed",
        "bound",
        "closed",
        "gate",
        "is_fresh",
        "is_limited",
        "is_owed",
        "job",
        "level",
        "line",
        "number",
        "order",
        "rank",
        "shape",
        "skips",
        "team",
    )

    def __init__(
        self,
        job: Job,
        *,
        shape: Shape,
        order: QueueOrder,
        team: TeamUse,
        rank: int,
        number: int,
        gate: Reason | None,
        allowed: Mask | None,
        line: ColumnLine | None = None,
        is_owed: bool = False,
    ) -> None:
        self.job = job
        #: others were stopped for them
        self.is_owed = is_owed
        self.shape = shape
        self.order = order
        self.team = team
        self.rank = rank
        self.level = -int(job.priority)
        self.number = number
        #: why none of them can run at all
        self.gate = gate
        #: rows narrowed by nodes to avoid; None: all
        self.allowed = allowed
        self.line: JobLine | ColumnLine = JobLine() if line is None else line
        self.is_fresh = False
        self._key: Key | None = None
        self._key_stretch = 0.0
        #: the measure changes with every admission
        self._is_live = order in (QueueOrder.FAIR, QueueOrder.DOMINANT)
        self.reopen()

    def reopen(self) -> None:
        """Forget what the last pass found."""
        #: only jobs foreseen to end within this may still start
        self.bound = inf
        #: why jobs longer than each bound were passed over
        self.skips: list[tuple[float, tuple[Reason, ...]]] = []
        #: why no further job of the line can start
        self.closed: tuple[Reason, ...] | None = None
        #: whether that is a limit of a team, queue, user or array
        self.is_limited = False

    def entry(self, pending: PendingJob, ledger: QuotaLedger) -> Entry:
        """Return a job's entry in this line."""
        submitted = pending.waiting.job.submitted_at
        measure = submitted
        if self.order is QueueOrder.SHORTEST:
            measure = pending.length
        elif self.order is QueueOrder.DEFAULT:
            passing = ledger.policy.passing_seconds(pending.length)
            measure = submitted + pending.waiting.attained_seconds + passing
        return (measure, submitted, pending.sequence, pending.bound, pending)

    def scale(self, ledger: QuotaLedger) -> tuple[float, float]:
        """Return factor and addend that turn an entry's own measure into one for all lines."""
        return scale(self.order, self.team, ledger)

    def key(self, entry: Entry, ledger: QuotaLedger) -> Key:
        """Return how a job of this line compares with those of other lines."""
        standing = OWED
        if not self.is_owed:
            standing = WITHIN_QUOTA + self.team.borrowing(self.shape.total_milli)
        stretch = self.team.stretch
        known = self._key
        if (
            known is not None
            and known[5] == entry[2]
            and known[1] == standing
            and self._key_stretch == stretch
        ):
            return known
        factor, team_part = self.scale(ledger)
        measure = entry[0] * factor + team_part
        key = (self.level, standing, self.rank, measure, entry[1], entry[2])
        if not self._is_live and not ledger.keeps_shares:
            self._key, self._key_stretch = key, stretch
        return key


def scale(order: QueueOrder, team: TeamUse, ledger: QuotaLedger) -> tuple[float, float]:
    """Return factor and addend that turn a measure under an order into one for all lines."""
    if order is QueueOrder.DEFAULT:
        if ledger.keeps_shares:
            return _LENGTH_PART, ledger.used(team)
        return 1.0, ledger.policy.halving_seconds * log2(team.stretch)
    if order is QueueOrder.FAIR:
        return 0.0, ledger.used(team)
    if order is QueueOrder.DOMINANT:
        return 0.0, ledger.dominant_share(team)
    return 1.0, 0.0
